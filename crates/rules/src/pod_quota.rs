//! Koordinator's ElasticQuotas applied to a Pod: its quota, its cost there, the available quota, and the nodes that
//! the tree allows.
//!
//! ```text
//! labels, namespace --membership--> name of a quota --QuotaTree--> Quota --------+
//! spec, status ------requested----> amounts --------------------------------+-check--> fits, or the exceeded resources
//! sum over the other pods of the quota -----------------------------------+
//! ```
//!
//! Nothing here stores a sum or knows when a Pod is stored: the caller does.

mod affinity;
mod cost;
mod evaluated;
mod levels;
mod limits;
mod membership;
mod parent;
mod quota_check;
mod quota_check_error;
mod replacement;

pub use self::{
    affinity::{AffinityError, TREE_NAMESPACE, TREE_NODES, require, root_namespace},
    cost::{CHECKS_GROWTH, Transformation, cost, growth, has_ended, requested},
    evaluated::{EvaluatedQuotaError, evaluated, is_limited},
    levels::{CountedPod, LIMITS_ANCESTORS, Level, check_levels, levels},
    limits::{ADMISSION_ABOVE_MAX, ALL_RESOURCES, Excess, LimitSource, Limits},
    membership::{Membership, MembershipRule, TREE_BY_LABEL, namespaces_of, tree_quota},
    parent::{GUARDS_BUILT_IN, PARENT_ON_CHANGE, ParentPods, check},
    quota_check::{USED_BY_SUM, Usage, check_quota, used},
    quota_check_error::QuotaCheckError,
    replacement::REPLACE_RESOURCES,
};

#[cfg(test)]
mod tests;
