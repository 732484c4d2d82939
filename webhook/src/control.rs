//! Control loops: what this replica does by itself, some of it only while it is the leader. None of them writes allocatable;
//! they ask the API server to have a Node decided anew.

pub mod conflicts;
pub mod floor;
pub mod lease;
pub mod metrics;
pub mod nudge;
pub mod pace;
pub mod ratio_owner_conflict;
pub mod registration;
pub mod slices;
pub mod sweep;
