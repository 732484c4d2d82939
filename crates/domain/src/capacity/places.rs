//! Places: capacity that pods of controllers left on a node. A place stays open for ten minutes, or until pods that
//! bind later have used it. [`PlaceSums::within`](super::PlaceSums::within) limits how much of it counts.

use std::time::Duration;

use super::PlaceSums;
use crate::resource::{PerResource, Resource};

/// Time after which a place closes.
pub const OPEN_FOR: Duration = Duration::from_secs(600);
/// Maximum number of open places on a node. Beyond it the oldest place of kind [`PlaceKind::Other`] closes, else the
/// oldest one.
pub const MOST_PLACES: usize = 256;
/// Maximum length of [`Place::owner`], in bytes. Every user who may create pods chooses the kind and the name in an owner
/// reference, and the API server limits neither.
pub const LONGEST_OWNER: usize = 128;

/// Ability of a successor to run on another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PlaceKind {
    /// Pod of a DaemonSet: no other node can run its successor.
    DaemonSet,
    /// Pod with an affinity to one hostname, of a StatefulSet with a PersistentVolumeClaim, or of the node itself.
    Tied,
    /// The successor may run on any node.
    Other,
}

impl PlaceKind {
    /// All kinds, the most tied one first.
    pub const ALL: [Self; 3] = [Self::DaemonSet, Self::Tied, Self::Other];

    /// Word in tables, metrics and on the wire, such as `daemonset`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DaemonSet => "daemonset",
            Self::Tied => "tied",
            Self::Other => "other",
        }
    }
}

/// Pod that leaves a node, with its controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeavingPod<'a> {
    /// Hash of the controller's namespace, group, kind and name.
    pub controller: u64,
    /// Controller in words, such as `DaemonSet kube-system/cni`; empty if not known.
    pub owner: &'a str,
    /// Ability of its successor to run on another node.
    pub kind: PlaceKind,
    /// Requests in milli-cores and bytes, as the scheduler counts them.
    pub requests: PerResource<u64>,
}

/// Open place of a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Hash of the controller's namespace, group, kind and name; `None` for a place that another replica recorded.
    pub controller: Option<u64>,
    /// Controller in words, such as `DaemonSet kube-system/cni`, at most [`LONGEST_OWNER`] bytes; empty if not known.
    pub owner: Box<str>,
    /// Ability of the successor to run on another node.
    pub kind: PlaceKind,
    /// Remaining milli-cores and bytes.
    pub amounts: PerResource<u64>,
    /// Time at which it closes, on the clock of the calls.
    pub closes_at: Duration,
    /// Number of its opening; pods with a higher one arrived later.
    opened: u64,
}

/// Open places of one node, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenPlaces {
    open: Vec<Place>,
    /// Number of the last arrival of a pod or opening of a place.
    last: u64,
}

/// Arrival of a pod on the node; it fills only places that were open before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Arrival(u64);

impl OpenPlaces {
    /// Places that are open at this time, in the order in which they were opened.
    pub fn open_at(&self, now: Duration) -> impl Iterator<Item = &Place> {
        self.open.iter().filter(move |place| place.closes_at > now)
    }

    /// True if there is no place, open or closed by time.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Arrival of a pod that is seen for the first time now.
    pub fn arrive(&mut self) -> Arrival {
        self.last += 1;
        Arrival(self.last)
    }

    /// Opens the place of a pod that left. A tied controller has one place on a node: the larger amounts of both
    /// count.
    pub fn open(&mut self, pod: &LeavingPod<'_>, now: Duration) {
        let LeavingPod {
            controller,
            owner,
            kind,
            requests,
        } = *pod;
        self.close_expired(now);
        let mut amounts = requests;
        if kind != PlaceKind::Other {
            let is_same = |place: &Place| place.controller == Some(controller) && place.kind == kind;
            if let Some(at) = self.open.iter().position(is_same) {
                let before = self.open.remove(at).amounts;
                amounts = amounts.map(|resource, amount| *amount.max(before.get(resource)));
            }
        }
        self.push(Some(controller), owner, kind, amounts, now);
    }

    /// Closes the places whose time is over.
    pub fn close_expired(&mut self, now: Duration) {
        self.open.retain(|place| place.closes_at > now);
    }

    /// Opens the places that another replica recorded. They close after the same time, counted from now.
    pub fn inherit(&mut self, recorded: &PerResource<PlaceSums>, now: Duration) {
        for kind in PlaceKind::ALL {
            let amounts = recorded.map(|_, sums| sums.get(kind));
            self.push(None, "", kind, amounts, now);
        }
    }

    fn push(
        &mut self,
        controller: Option<u64>,
        owner: &str,
        kind: PlaceKind,
        amounts: PerResource<u64>,
        now: Duration,
    ) {
        if is_zero(&amounts) {
            return;
        }
        self.last += 1;
        self.open.push(Place {
            controller,
            owner: owner
                .get(..owner.floor_char_boundary(LONGEST_OWNER))
                .unwrap_or_default()
                .into(),
            kind,
            amounts,
            closes_at: now.saturating_add(OPEN_FOR),
            opened: self.last,
        });
        if self.open.len() > MOST_PLACES {
            let other = self.open.iter().position(|place| place.kind == PlaceKind::Other);
            self.open.remove(other.unwrap_or(0));
        }
    }

    /// Uses places for a pod: those of its controller first, then the oldest. Places that were opened after its
    /// arrival stay.
    pub fn fill(&mut self, controller: Option<u64>, requests: &PerResource<u64>, arrival: Arrival) {
        let mut left = *requests;
        for is_own in [true, false] {
            let is_it = |place: &&mut Place| {
                let is_of_controller = place.controller.is_some() && place.controller == controller;
                place.opened < arrival.0 && is_of_controller == is_own
            };
            for place in self.open.iter_mut().filter(is_it) {
                // Every user who may create pods may bind thousands of small ones to a node.
                if is_zero(&left) {
                    break;
                }
                for resource in Resource::ALL {
                    let (amount, left) = (place.amounts.get_mut(resource), left.get_mut(resource));
                    let used = (*amount).min(*left);
                    *amount -= used;
                    *left -= used;
                }
            }
        }
        self.open.retain(|place| !is_zero(&place.amounts));
    }

    /// Time at which the next place closes.
    pub fn next_close(&self, now: Duration) -> Option<Duration> {
        self.open_at(now).map(|place| place.closes_at).min()
    }

    /// Sums of the places that are open at this time.
    pub fn sums(&self, now: Duration) -> PerResource<PlaceSums> {
        let mut sums = PerResource::<PlaceSums>::default();
        for place in self.open_at(now) {
            for resource in Resource::ALL {
                sums.get_mut(resource)
                    .add(place.kind, *place.amounts.get(resource));
            }
        }
        sums
    }
}

fn is_zero(amounts: &PerResource<u64>) -> bool {
    Resource::ALL
        .into_iter()
        .all(|resource| *amounts.get(resource) == 0)
}

#[cfg(test)]
mod tests;
