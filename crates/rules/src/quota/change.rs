//! [`QuotaChange`]: a written quota together with its stored version.

use headroom_domain::{amounts::Amounts, field::Path, names};

use super::{Quota, QuotaParts, QuotaRules};

/// New and stored version of a quota; a new quota has no stored version.
#[derive(Debug, Clone)]
pub struct QuotaChange {
    /// The written object, as received.
    pub parts: QuotaParts,
    /// The written object, as the rules read it.
    pub new: Quota,
    /// The stored object and its form for the rules.
    pub old: Option<(QuotaParts, Quota)>,
}

/// Annotations that are checked when they change.
const CHECKED: [&str; 5] = [
    names::QUOTA_NAMESPACES,
    names::QUOTA_SHARED_WEIGHT,
    names::QUOTA_STRICT_KEYS,
    names::QUOTA_ADMISSION,
    names::QUOTA_GUARANTEED,
];

impl QuotaChange {
    /// Creates the change from the written object and the stored one.
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

    /// The stored quota, if it exists.
    pub fn old(&self) -> Option<&Quota> {
        self.old.as_ref().map(|(_, quota)| quota)
    }

    /// The version whose faults the new version may keep.
    pub fn baseline(&self, rules: QuotaRules) -> Option<&Quota> {
        self.old().filter(|_| rules.ratchets)
    }

    /// Usage as stored: the author of a change writes the other one. A new quota has only the other one.
    pub(super) fn used(&self) -> Option<&Amounts> {
        let parts = self.old.as_ref().map_or(&self.parts, |(parts, _)| parts);
        parts.status.used.as_ref()
    }

    /// The stored annotation whose faults the new one may keep.
    pub(super) fn old_annotation(&self, key: &str, rules: QuotaRules) -> Option<&str> {
        let (parts, _) = self.old.as_ref().filter(|_| rules.ratchets)?;
        Some(parts.annotation(key))
    }

    /// Returns true if the fields of Koordinator's rules differ: position in the tree, namespaces, amounts.
    pub fn is_tracked(&self) -> bool {
        self.old.as_ref().is_none_or(|(before, old)| {
            let (new, after) = (&self.new, &self.parts);
            (&old.parent, old.is_parent, &old.tree_id) != (&new.parent, new.is_parent, &new.tree_id)
                || before.annotation(names::QUOTA_NAMESPACES) != after.annotation(names::QUOTA_NAMESPACES)
                || (&old.min, &old.max) != (&new.min, &new.max)
        })
    }

    /// Returns true if any checked field differs.
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

/// Path of a label in the object.
pub(super) fn label(key: &str) -> Path {
    Path::new("metadata").child("labels").key(key)
}

/// Path of an annotation in the object.
pub(super) fn annotation(key: &str) -> Path {
    Path::new("metadata").child("annotations").key(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::{Violations, shape};

    /// The author of a quota claims a guarantee, which exempts its `min` from the check of the tree.
    #[test]
    fn changed_guarantees_are_reviewed() {
        let parts = |guaranteed: &str| QuotaParts {
            name: "lab".to_owned(),
            annotations: [(names::QUOTA_GUARANTEED.to_owned(), guaranteed.to_owned())].into(),
            ..QuotaParts::default()
        };
        let rules = QuotaRules {
            ratchets: true,
            checks_annotations: true,
            ..QuotaRules::default()
        };
        let found = |old: &str, new: &str| {
            let change = QuotaChange::new(parts(new), Some(parts(old)));
            let mut found = Violations::default();
            shape::check(&change, rules, &mut found);
            (change.is_checked(rules), found.is_empty())
        };
        assert_eq!(found(r#"{"cpu":1}"#, r#"{"cpu":1}"#), (false, true));
        assert_eq!(found(r#"{"cpu":1}"#, r#"{"cpu":2}"#), (true, true));
        assert_eq!(found("", "no amounts"), (true, false));
        assert_eq!(found("", r#"{"cpu":-1}"#), (true, false));
        assert_eq!(
            found("no amounts", "no amounts"),
            (false, true),
            "a stored fault stays"
        );
    }
}
