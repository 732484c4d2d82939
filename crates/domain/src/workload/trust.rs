//! [`trust_ppm`]: how far the observations of a workload count for pods of it that are new.

use super::{PERIODS_A_DAY, SLOTS};

/// Observed slots below which a workload is not trusted.
pub const LEAST_SLOTS: u32 = 6;
/// Most trust in a version younger than a day.
pub const MOST_OF_NEW_VERSION_PPM: u32 = 800_000;
/// Most trust that evidence of a single node gives.
pub const MOST_FROM_ONE_NODE_PPM: u32 = 500_000;

/// Observations of one workload over the last day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coverage {
    /// Hour slots with use.
    pub slots: u32,
    /// Hour slots in which two nodes or more reported.
    pub shared_slots: u32,
    /// Periods since the version was first observed; `None` if it never was.
    pub version_age: Option<u64>,
}

/// Trust in new pods of a workload: the share of the day's slots that were observed, 0 below six of them. A version
/// younger than a day counts at most 80 %. Unless at least half of the observed slots have evidence of two nodes,
/// trust is at most 50 %.
pub fn trust_ppm(coverage: Coverage) -> u32 {
    let Coverage {
        slots,
        shared_slots,
        version_age,
    } = coverage;
    if slots < LEAST_SLOTS {
        return 0;
    }
    let of = u32::try_from(SLOTS).unwrap_or(u32::MAX);
    let share = slots.min(of) * 1_000_000 / of;
    let is_settled = version_age.is_some_and(|age| age >= PERIODS_A_DAY);
    let most_of_version = if is_settled {
        1_000_000
    } else {
        MOST_OF_NEW_VERSION_PPM
    };
    let is_shared = shared_slots.saturating_mul(2) >= slots;
    let most_of_nodes = if is_shared {
        1_000_000
    } else {
        MOST_FROM_ONE_NODE_PPM
    };
    share.min(most_of_version).min(most_of_nodes)
}
