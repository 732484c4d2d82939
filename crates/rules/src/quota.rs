//! Rules for ElasticQuotas, each by itself and in its tree.
//!
//! ```text
//! object --> Quota --.
//!                    |-- names, shape, topology, guarantee --> Violations --> one text, causes
//! QuotaTree (as stored) --'
//! ```
//!
//! A rule compares a quota with its stored version: a fault that existed before and has not become worse is no
//! violation. The tree is read as stored: it may have cycles, missing parents, or one name in several namespaces.

pub mod annotation;
pub mod bound;
pub mod change;
pub mod defaults;
pub mod guarantee;
pub mod larger_child;
pub mod names_check;
pub mod object;
pub mod removal;
pub mod shape;
pub mod stored;
pub mod switches;
pub mod topology;
pub mod tree;
pub mod violation;

pub use self::{
    bound::BoundPods,
    change::QuotaChange,
    object::{Quota, QuotaKey, QuotaParts},
    tree::QuotaTree,
    violation::Violations,
};

/// Koordinator's rules that are in force.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a gate or a switch of its own"
)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotaRules {
    /// True if a child's `max` may have fewer resources than its parent's; else both must have the same.
    pub allows_fewer_keys: bool,
    /// True if the guarantees above a quota must cover its `min`.
    pub checks_guarantee: bool,
    /// True if faults that existed before and have not become worse are accepted.
    pub ratchets: bool,
    /// True if annotations are checked, and the quota is checked when they change.
    pub checks_annotations: bool,
    /// True if trees are limited to [`tree::MOST_LEVELS`] levels.
    pub bounds_depth: bool,
}
