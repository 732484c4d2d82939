//! In-memory stores of this replica (Nodes, pods, policies, colocation profiles, the last reviews of pods) and the informers that keep them up to date. Also the poll of
//! kubelets' usage, which is compared and not stored.

pub mod access;
pub mod arrivals;
pub mod by_name;
pub mod caller;
pub mod changes;
pub mod clock;
pub mod cluster;
pub mod colocation;
pub mod configuration;
pub mod floor;
pub mod fluid;
pub mod hint_table;
pub mod informer;
pub mod known;
pub mod kubelet_usage;
pub mod lookup;
pub mod metrics;
pub mod node;
pub mod nodes;
mod object_meta;
pub mod pending_admissions;
pub mod pending_limit;
pub mod pod_decisions;
pub mod pods;
pub mod policies;
pub mod quota;
pub mod quota_levels;
pub mod quota_pods;
pub mod quota_request;
pub mod quota_view;
pub mod ratio_owner_conflict;
pub mod sources;
pub mod workload_table;
