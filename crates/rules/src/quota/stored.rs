//! What is wrong with a quota as it is stored: what the rules would say if it were created like that now.
//!
//! A change is compared with what was before, so a quota keeps what was wrong with it already. Here nothing is excused.

use std::collections::BTreeMap;

use headroom_domain::names;

use super::{
    Quota, QuotaChange, QuotaParts, QuotaRules, QuotaTree, Violations, names_check, shape, topology,
};

/// What is wrong with a stored quota by itself, with the namespaces that it lists, and in its tree.
///
/// Of its annotations only that for admission is looked at, and `status.used` is not.
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
    // It is there: that is no reason to refuse it.
    names_check::check(&change, tree, rules, true, &mut found);
    shape::check(&change, rules, &mut found);
    topology::check(&change, tree, rules, &mut found);
    found
}
