//! Workloads: the controller and the version that a pod belongs to, and the use of their pods by hour of the day.
//!
//! ```text
//! agent:   frame -> NodeEvidence --wire--> replica: ProfileTable (tally of a period -> hour -> day)
//! replica: ProfileTable -> WorkloadProfile --wire--> agent: trust and expected use of new pods
//! ```
//!
//! The rules follow docs/estimator.md#trust-by-workload.

mod entry;
mod evidence;
mod hourly_use;
mod profile;
mod table;
mod tally;
mod trust;
mod versions;

use serde::{Deserialize, Serialize};

pub use self::{
    evidence::{NodeEvidence, PodEvidence, is_plausible},
    hourly_use::{HourlyUse, LARGEST_PPM, LEAST_MEAN_PPM, SLOTS, SlotUse},
    profile::WorkloadProfile,
    table::{Limits, ProfileTable, Recorded, Row},
    trust::{Coverage, LEAST_SLOTS, MOST_FROM_ONE_NODE_PPM, MOST_OF_NEW_VERSION_PPM, trust_ppm},
};

/// Seconds in a period of the replica's clock: the length of a production frame.
pub const PERIOD_SECONDS: u64 = 300;
/// Periods in an hour slot.
pub const PERIODS_A_SLOT: u64 = 12;
/// Periods in a day.
pub const PERIODS_A_DAY: u64 = PERIODS_A_SLOT * SLOTS as u64;

/// Controller and version of a pod. Pods of one controller succeed each other on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Workload {
    /// Hash of the controller's namespace, group, kind and name, without the suffix of a revision.
    pub controller: u64,
    /// Hash of what the pod runs: container names, images, commands, arguments, environment, names of mounted
    /// ConfigMaps and Secrets, and requests.
    pub version: u64,
}

/// Hour slot of a period: hours count from midnight of the replica's clock.
pub fn slot_of(period: u64) -> usize {
    usize::try_from(period / PERIODS_A_SLOT).map_or(0, |hour| hour % SLOTS)
}

#[cfg(test)]
mod tests;
