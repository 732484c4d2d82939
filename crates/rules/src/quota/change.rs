//! [`QuotaChange`]: a quota that somebody writes, beside what it was before.

use headroom_domain::{field::Path, names};

use super::{Quota, QuotaParts, QuotaRules};

/// What is written, and what is stored; nothing is stored of a new quota.
#[derive(Debug, Clone)]
pub struct QuotaChange {
    /// What is written.
    pub parts: QuotaParts,
    /// The same, as rules see it.
    pub new: Quota,
    /// What is stored.
    pub old: Option<(QuotaParts, Quota)>,
}

/// Annotations that are checked when they change.
const CHECKED: [&str; 4] = [
    names::QUOTA_NAMESPACES,
    names::QUOTA_SHARED_WEIGHT,
    names::QUOTA_STRICT_KEYS,
    names::QUOTA_ADMISSION,
];

impl QuotaChange {
    /// A new quota, or a change of the stored one.
    pub fn new(parts: QuotaParts, old: Option<QuotaParts>) -> Self {
        Self {
            new: parts.quota(),
            old: old.map(|parts| {
                let quota = parts.quota();
                (parts, quota)
            }),
            parts,
        }
    }

    /// The stored one.
    pub fn old(&self) -> Option<&Quota> {
        self.old.as_ref().map(|(_, quota)| quota)
    }

    /// What the new one may be as wrong as.
    pub fn baseline(&self, rules: QuotaRules) -> Option<&Quota> {
        self.old().filter(|_| rules.ratchets)
    }

    /// The stored annotation, if the new one may be as wrong as it.
    pub(super) fn old_annotation(&self, key: &str, rules: QuotaRules) -> Option<&str> {
        let (parts, _) = self.old.as_ref().filter(|_| rules.ratchets)?;
        Some(parts.annotation(key))
    }

    /// True if what Koordinator's rules read differs: place in the tree, namespaces, amounts.
    pub fn is_tracked(&self) -> bool {
        self.old.as_ref().is_none_or(|(before, old)| {
            let (new, after) = (&self.new, &self.parts);
            (&old.parent, old.is_parent, &old.tree_id) != (&new.parent, new.is_parent, &new.tree_id)
                || before.annotation(names::QUOTA_NAMESPACES) != after.annotation(names::QUOTA_NAMESPACES)
                || (&old.min, &old.max) != (&new.min, &new.max)
        })
    }

    /// True if anything that is checked differs.
    pub fn is_checked(&self, rules: QuotaRules) -> bool {
        let differs = |key: &str| {
            let before = self.old.as_ref().map(|(parts, _)| parts.annotation(key));
            before != Some(self.parts.annotation(key))
        };
        let differs_as_quota = self.old().is_none_or(|old| *old != self.new);
        let has_other_annotations = CHECKED.iter().any(|key| differs(key));
        self.is_tracked() || (rules.checks_annotations && (differs_as_quota || has_other_annotations))
    }
}

/// Where a label is.
pub(super) fn label(key: &str) -> Path {
    Path::new("metadata").child("labels").key(key)
}

/// Where an annotation is.
pub(super) fn annotation(key: &str) -> Path {
    Path::new("metadata").child("annotations").key(key)
}
