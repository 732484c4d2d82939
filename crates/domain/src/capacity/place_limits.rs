//! K: the part of a node's open places that counts, so that predicted demand stays within capacity.
//!
//! The pod that left was predicted by its use, and any pod may take its place and use all of its request. So all places
//! together hold at most C - T: capacity minus safe use. See docs/estimator.md#what-holds.

use serde::{Deserialize, Serialize};

use super::places::PlaceKind;
use crate::hint::Brake;

/// Denominator of the share of raw allocatable that tied places hold at most: 20 %.
const TIED_SHARE: u64 = 5;
/// Denominator of the share of raw allocatable that places of DaemonSets hold under a stop brake: 5 %.
const STOPPED_SHARE: u64 = 20;

/// Sums of a node's open places for one resource, in milli-cores or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlaceSums {
    /// Places of kind [`PlaceKind::DaemonSet`].
    #[serde(skip_serializing_if = "is_zero")]
    pub daemon_sets: u64,
    /// Places of kind [`PlaceKind::Tied`].
    #[serde(skip_serializing_if = "is_zero")]
    pub tied: u64,
    /// Places of kind [`PlaceKind::Other`].
    #[serde(skip_serializing_if = "is_zero")]
    pub others: u64,
}

/// Largest amounts that places hold, in milli-cores or bytes of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlaceLimits {
    /// For all places of DaemonSets.
    pub daemon_sets: u64,
    /// For all places of [`PlaceKind::Tied`].
    pub tied: u64,
    /// For all of both kinds.
    pub both: u64,
    /// For all places of [`PlaceKind::Other`].
    pub others: u64,
    /// For all places.
    pub all: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_zero(amount: &u64) -> bool {
    *amount == 0
}

impl PlaceLimits {
    /// Limits on a node with that raw allocatable, capacity (C) and safe use (T), under a brake.
    pub fn new(raw: u64, capacity: u64, safe: u64, brake: Brake) -> Self {
        let both = raw / TIED_SHARE;
        let (daemon_sets, tied) = match brake {
            Brake::Off | Brake::Hold | Brake::Shed => (both, both),
            Brake::Stop => (raw / STOPPED_SHARE, 0),
        };
        let all = capacity.saturating_sub(safe);
        Self {
            daemon_sets,
            tied,
            both,
            others: match brake {
                Brake::Off | Brake::Hold => all,
                Brake::Shed | Brake::Stop => 0,
            },
            all,
        }
    }
}

impl PlaceSums {
    /// Sum of one kind.
    pub const fn get(&self, kind: PlaceKind) -> u64 {
        match kind {
            PlaceKind::DaemonSet => self.daemon_sets,
            PlaceKind::Tied => self.tied,
            PlaceKind::Other => self.others,
        }
    }

    /// Adds to the sum of one kind.
    pub const fn add(&mut self, kind: PlaceKind, amount: u64) {
        let sum = match kind {
            PlaceKind::DaemonSet => &mut self.daemon_sets,
            PlaceKind::Tied => &mut self.tied,
            PlaceKind::Other => &mut self.others,
        };
        *sum = sum.saturating_add(amount);
    }

    /// True if all sums are 0.
    pub const fn is_empty(&self) -> bool {
        self.total() == 0
    }

    /// Sum of all kinds.
    pub const fn total(&self) -> u64 {
        self.daemon_sets
            .saturating_add(self.tied)
            .saturating_add(self.others)
    }

    /// The part that counts within the limits, the most tied kind first; its total is K.
    #[must_use]
    pub fn within(&self, limits: &PlaceLimits) -> Self {
        let both = limits.both.min(limits.all);
        let daemon_sets = self.daemon_sets.min(limits.daemon_sets).min(both);
        let tied = self.tied.min(limits.tied).min(both - daemon_sets);
        let left = limits.all - daemon_sets - tied;
        Self {
            daemon_sets,
            tied,
            others: self.others.min(limits.others).min(left),
        }
    }
}
