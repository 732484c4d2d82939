//! What Koordinator's ElasticQuotas mean for a Pod: to which one it belongs, what it costs there, whether there is room, and
//! on which nodes the tree lets it run.
//!
//! ```text
//! labels, namespace --membership--> name of a quota --QuotaTable--> PodQuota --+
//! spec, status ------cost---------> amounts ----------------------------------+--room--> room, or who is over what
//! sum over the other pods of the quota --------------------------------------+
//! ```
//!
//! Nothing here keeps a sum or knows when a Pod is stored: that is the caller's.

mod affinity;
mod cost;
mod membership;
mod parent;
mod replacement;
mod room;
mod written;

use std::sync::Arc;

use headroom_domain::amounts::Amounts;

pub use self::{
    affinity::{AffinityError, TREE_NODES, require},
    cost::{CHECKS_GROWTH, Transformation, cost, growth, requested},
    membership::{Membership, TREE_BY_LABEL, tree_quota},
    parent::{PARENT_ON_CHANGE, ParentPods, check},
    replacement::REPLACE_RESOURCES,
    room::{ADMISSION_ABOVE_MAX, ALL_RESOURCES, RoomError, USED_BY_SUM, Usage, room},
};

/// What of an ElasticQuota concerns the pods that belong to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodQuota {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether it has quotas below it, which take the pods.
    pub is_parent: bool,
    /// The tree that it belongs to; empty for the default one.
    pub tree_id: String,
    /// The namespaces whose pods are its own, where these have no label that names another quota.
    pub namespaces: Vec<String>,
    /// The most that its pods may ask for together, by resource. One that is not named is not limited.
    pub max: Amounts,
    /// The annotation with the limits that hold in place of `max`, as it is written.
    pub admission: Option<String>,
    /// The annotation with what the scheduler has counted of its pods, as it is written.
    pub child_request: Option<String>,
}

/// The quotas that there are.
pub trait QuotaTable {
    /// The quota of that namespace and name.
    fn quota(&self, namespace: &str, name: &str) -> Option<Arc<PodQuota>>;

    /// The quotas of that name in all namespaces, by namespace. The rules allow one, and races can make them two.
    fn named(&self, name: &str) -> Vec<Arc<PodQuota>>;

    /// The quota that lists a namespace as its own; of several the oldest, then the first by namespace and name.
    fn of_namespace(&self, namespace: &str) -> Option<Arc<PodQuota>>;
}

#[cfg(test)]
mod tests;
