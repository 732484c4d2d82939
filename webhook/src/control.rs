//! Control loops of a replica; some run only while it is the leader. None of them sets allocatable while
//! amplification is on: they send a PATCH that makes admission decide a Node again.

pub mod certificates;
pub mod entry_conflicts;
pub mod events;
pub mod floor_check;
pub mod lease;
pub mod metrics;
pub mod nudge;
pub mod own_rights;
pub mod projected_ratio;
pub mod quota_overshoot;
pub mod rates;
pub mod reachability;
pub mod registration;
pub mod runtime_features;
pub mod sweep;
pub mod time_slices;

use std::time::Duration;

/// Interval and timeout of the check that the installed objects are still in force. Both together stay within ten
/// seconds, so a gauge shows a mistake quickly.
const INSTALL_CHECK_EVERY: Duration = Duration::from_secs(5);
const INSTALL_CHECK_LIMIT: Duration = Duration::from_secs(5);
