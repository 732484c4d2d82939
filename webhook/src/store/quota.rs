//! Stores for the admission of ElasticQuotas: quotas from the watch, admissions of this replica that the watch has
//! not delivered, and the pods of each quota.
//!
//! ```text
//! watch events --> stored --.
//!                           |--> derived: by name, parts of each parent, owners of namespaces
//! admitted --> claims ------'
//! ```

mod derived;
pub mod index;
mod listed_namespaces;
pub mod object;
pub mod pending;
mod pending_handle;
mod stored;
pub mod tree_nodes;
pub mod with_pods;
