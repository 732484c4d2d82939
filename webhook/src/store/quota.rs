//! Stores for the admission of ElasticQuotas: the quotas that the watch brought, what this replica admitted and has not
//! seen yet beside them, and the pods that belong to a quota.
//!
//! ```text
//! watch events --> stored --.
//!                           |--> derived: by name, parts of each parent, owners of namespaces
//! admitted --> claims ------'
//! ```

mod derived;
pub mod index;
pub mod object;
pub mod pending;
pub mod tree_nodes;
pub mod with_pods;
