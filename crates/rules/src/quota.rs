//! What ElasticQuotas must be, each by itself and in its tree.
//!
//! ```text
//! object --> Quota --.
//!                    |-- names, shape, topology, guarantee --> Violations --> one text, causes
//! QuotaTree (as stored) --'
//! ```
//!
//! A rule compares a quota with what it was before: what was wrong already and has not become worse is no violation. The
//! tree is whatever is stored: with cycles, with parents that are not there, with one name in several namespaces.

pub mod annotation;
pub mod bound;
pub mod change;
pub mod defaults;
pub mod guarantee;
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

/// Which of Koordinator's rules are in force.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a gate or a switch of its own"
)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotaRules {
    /// `max` of a part may name fewer resources than its parent's, instead of the same ones.
    pub allows_fewer_keys: bool,
    /// What is guaranteed above a quota must cover its `min`.
    pub checks_guarantee: bool,
    /// What was wrong before and is not worse now is let through.
    pub ratchets: bool,
    /// Annotations are checked, and the quota is, when they change.
    pub checks_annotations: bool,
    /// Trees have at most [`tree::MOST_LEVELS`] levels.
    pub bounds_depth: bool,
}
