//! In-memory stores of this replica (Nodes, pods, policies, usage) and the informers that keep them up to date.

pub mod changes;
pub mod clock;
pub mod cluster;
pub mod configuration;
pub mod informer;
pub mod kubelet_usage;
pub mod metrics;
pub mod node;
pub mod nodes;
pub mod pods;
pub mod policies;
