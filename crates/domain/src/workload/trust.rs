//! [`trust_ppm`]: how far the observations of a workload count for pods of it that are new.

use super::{PERIODS_A_SLOT, SLOTS};

/// Observed slots below which a workload is not trusted.
pub const LEAST_SLOTS: u32 = 6;
/// Most trust in a version that appears; it rises to full trust within [`SETTLED_AFTER`].
pub const MOST_OF_NEW_VERSION_PPM: u32 = 800_000;
/// Periods after which a version counts in full: six hours. With a whole day, a Deployment that rolls daily would never
/// be trusted in full.
const SETTLED_AFTER: u64 = 6 * PERIODS_A_SLOT;
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
/// that appears counts at most 80 %, and in full after six hours. Unless at least half of the observed slots have evidence of two nodes,
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
    let age = version_age.unwrap_or(0).min(SETTLED_AFTER);
    let earned = u64::from(1_000_000 - MOST_OF_NEW_VERSION_PPM) * age / SETTLED_AFTER;
    let most_of_version = MOST_OF_NEW_VERSION_PPM + u32::try_from(earned).unwrap_or(0);
    let is_shared = shared_slots.saturating_mul(2) >= slots;
    let most_of_nodes = if is_shared {
        1_000_000
    } else {
        MOST_FROM_ONE_NODE_PPM
    };
    share.min(most_of_version).min(most_of_nodes)
}
