//! What Koordinator's ElasticQuotas mean for a Pod: to which one it belongs, what it costs there, whether there is room, and
//! on which nodes the tree lets it run.
//!
//! ```text
//! labels, namespace --membership--> name of a quota --QuotaTree--> Quota --------+
//! spec, status ------requested----> amounts --------------------------------+--room--> room, or who is over what
//! sum over the other pods of the quota -----------------------------------+
//! ```
//!
//! Nothing here keeps a sum or knows when a Pod is stored: that is the caller's.

mod affinity;
mod cost;
mod membership;
mod parent;
mod replacement;
mod room;

pub use self::{
    affinity::{AffinityError, TREE_NODES, require},
    cost::{CHECKS_GROWTH, Transformation, cost, growth, requested},
    membership::{Membership, TREE_BY_LABEL, tree_quota},
    parent::{PARENT_ON_CHANGE, ParentPods, check},
    replacement::REPLACE_RESOURCES,
    room::{ADMISSION_ABOVE_MAX, ALL_RESOURCES, RoomError, USED_BY_SUM, Usage, room},
};

#[cfg(test)]
mod tests;
