//! Control loops of a replica; some run only while it is the leader. None of them sets allocatable while amplification
//! is on: they ask the API server to have a Node decided anew by admission.

pub mod entry_conflicts;
pub mod events;
pub mod floor;
pub mod lease;
pub mod metrics;
pub mod nudge;
pub mod quota_overshoot;
pub mod rates;
pub mod ratio_owner_conflict;
pub mod registration;
pub mod runtime_features;
pub mod sweep;
pub mod time_slices;
pub mod would_ratio;

use std::time::Duration;

/// How often the API server is asked whether what we were installed with is still in force, and how long it may take. Both
/// within ten seconds: somebody who looks at a gauge after a mistake sees it.
const INSTALL_CHECK_EVERY: Duration = Duration::from_secs(5);
const INSTALL_CHECK_LIMIT: Duration = Duration::from_secs(5);
