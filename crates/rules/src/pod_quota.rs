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
mod evaluated;
mod levels;
mod limits;
mod membership;
mod parent;
mod replacement;
mod room;
mod room_error;

pub use self::{
    affinity::{AffinityError, TREE_NODES, require},
    cost::{CHECKS_GROWTH, Transformation, cost, growth, has_ended, requested},
    evaluated::{EvaluatedQuotaError, evaluated, is_limited},
    levels::{Counted, LIMITS_ANCESTORS, Level, levels, room_on_all},
    limits::{ADMISSION_ABOVE_MAX, ALL_RESOURCES, Excess, LimitSource, Limits},
    membership::{Membership, MembershipRule, TREE_BY_LABEL, namespaces_of, tree_quota},
    parent::{PARENT_ON_CHANGE, ParentPods, check},
    replacement::REPLACE_RESOURCES,
    room::{USED_BY_SUM, Usage, room, used},
    room_error::RoomError,
};

#[cfg(test)]
mod tests;
