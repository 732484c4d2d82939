//! Checks a stored quota as if it were created now.
//!
//! A change is compared with its previous version, so a quota may keep old faults. Here every fault counts.

use std::collections::BTreeMap;

use headroom_domain::names;

use super::{
    Quota, QuotaChange, QuotaParts, QuotaRules, QuotaTree, Violations, names_check, shape, topology,
};

/// Returns the faults of a stored quota: its fields, its namespaces, and its position in the tree.
///
/// Of its annotations only the admission annotation is checked; `status.used` is not.
pub fn check(quota: &Quota, tree: &dyn QuotaTree, rules: QuotaRules) -> Violations {
    let rules = QuotaRules {
        ratchets: false,
        ..rules
    };
    let admission = (names::QUOTA_ADMISSION.to_owned(), quota.admission.to_string());
    let change = QuotaChange {
        parts: QuotaParts {
            annotations: BTreeMap::from([admission]),
            ..QuotaParts::default()
        },
        new: quota.clone(),
        old: None,
    };
    let mut found = Violations::default();
    // The quota exists already, which is not a fault here.
    names_check::check(&change, tree, rules, true, &mut found);
    shape::check(&change, rules, &mut found);
    topology::check(&change, tree, rules, &mut found);
    found
}
