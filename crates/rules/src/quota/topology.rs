//! Checks of a quota in its tree: its parent, its children, their resources and the sums of `min`.

use headroom_domain::{amounts::Amounts, field::Path, names, quantity::Quantity};

use super::{
    Quota, QuotaChange, QuotaRules, QuotaTree, Violations,
    change::label,
    guarantee,
    tree::{MOST_LEVELS, ancestry},
};

/// Inputs of all checks of the tree.
struct Checked<'c> {
    new: &'c Quota,
    /// Version whose faults the new one may keep.
    old: Option<&'c Quota>,
    /// `old`, but only if the parent stays: then faults between both existed before.
    old_here: Option<&'c Quota>,
    /// True if the parent stays: Headroom's own limits on positions in trees apply to new positions only.
    keeps_place: bool,
    tree: &'c dyn QuotaTree,
    rules: QuotaRules,
}

/// Prefix of each message about resources.
const KEYS: &str =
    "failed to check sub and parent group quotaKey, err: checkSubAndParentGroupQuotaKey failed:";

/// Adds the violations of a change.
pub fn check(change: &QuotaChange, tree: &dyn QuotaTree, rules: QuotaRules, found: &mut Violations) {
    let new = &change.new;
    if *new.name == *names::ROOT_QUOTA {
        return;
    }
    let old = change.baseline(rules);
    let checked = Checked {
        new,
        old,
        old_here: old.filter(|old| old.parent == new.parent),
        keeps_place: change.old().is_some_and(|old| old.parent == new.parent),
        tree,
        rules,
    };
    if let Some(old) = change.old() {
        checked.check_is_parent(old, found);
    }
    let parent = checked.parent();
    checked.check_tree_id(change.old(), parent.as_ref(), found);
    if new.is_first_level() && !new.is_parent {
        return;
    }
    checked.check_parent(parent.as_ref(), found);
    checked.check_keys(parent.as_ref(), found);
    if !new.allows_force && !new.is_tree_root {
        checked.check_sums(parent.as_ref(), found);
    }
    if rules.checks_guarantee {
        guarantee::check(new, checked.old_here, tree, found);
    }
}

impl Checked<'_> {
    /// Returns the parent; `None` for the root quota, and for one that is being deleted.
    fn parent(&self) -> Option<Quota> {
        let Self { new, tree, .. } = self;
        let parent = tree.by_name(&new.parent).filter(|_| !new.is_first_level())?;
        let is_fresh = self.old_here.is_none();
        (!is_fresh || !tree.is_leaving(&parent)).then(|| (*parent).clone())
    }

    fn visit_children(&self, visit: &mut dyn FnMut(&Quota)) {
        // Quotas with the same name have the same children.
        self.tree.visit_children(&self.new.name, &mut |child| {
            if !child.is_same(self.new) {
                visit(child);
            }
        });
    }

    fn check_is_parent(&self, old: &Quota, found: &mut Violations) {
        let Self { new, tree, .. } = self;
        let (name, field) = (&new.name, label(names::QUOTA_IS_PARENT));
        if old.is_parent == new.is_parent {
            return;
        }
        if new.is_parent {
            let belongs = |quota| tree.bound_pods(quota).count > 0;
            if belongs(old) || belongs(new) {
                let text = format!(
                    "quota has bound pods, isParent is forbidden to modify as true, quotaName: {name}"
                );
                found.push(&field, "true", text);
            }
            return;
        }
        let mut has_children = false;
        self.visit_children(&mut |_| has_children = true);
        if has_children {
            let text =
                format!("quota has children, isParent is forbidden to modify as false, quotaName:{name}");
            found.push(&field, "", text);
        }
    }

    fn check_tree_id(&self, stored: Option<&Quota>, parent: Option<&Quota>, found: &mut Violations) {
        let (name, id) = (&self.new.name, &*self.new.tree_id);
        let field = label(names::QUOTA_TREE_ID);
        if let Some(old) = stored.filter(|old| *old.tree_id != *id) {
            let text = format!("{name} tree id changed [{}] vs [{id}]", old.tree_id);
            found.push(&field, id, text);
        }
        let is_unchanged = |old: Option<&Quota>| old.is_some_and(|old| *old.tree_id == *id);
        let parents = parent.into_iter().flat_map(Quota::versions);
        for parent in parents.filter(|parent| *parent.tree_id != *id && !is_unchanged(self.old_here)) {
            let text = format!(
                "{name} tree id is different from parent {}, [{id}] vs [{}]",
                parent.name, parent.tree_id
            );
            found.push(&field, id, text);
        }
        if is_unchanged(self.old) {
            return;
        }
        self.visit_children(&mut |child| {
            if *child.tree_id != *id {
                let text = format!(
                    "{name} tree id is different from child {}, [{id}] vs [{}]",
                    child.name, child.tree_id
                );
                found.push(&field, id, text);
            }
        });
    }

    fn check_parent(&self, parent: Option<&Quota>, found: &mut Violations) {
        let Self { new, .. } = self;
        if new.is_first_level() || self.old_here.is_some() {
            return;
        }
        let (name, above, field) = (&new.name, &new.parent, label(names::QUOTA_PARENT));
        let ancestry = ancestry(new, self.tree);
        if ancestry.has_itself && !self.keeps_place {
            let text = format!("{name} has parentName {above} but that is the quota itself, or a part of it");
            found.push(&field, &**above, text);
            return;
        }
        let Some(parent) = parent else {
            let text = format!("{name} has parentName {above} but not find parentInfo in quotaInfoMap");
            found.push(&field, &**above, text);
            return;
        };
        if parent.versions().any(|version| !version.is_parent) {
            let text = format!("{name} has parentName {above} but the parentQuotaInfo's IsParent is false");
            found.push(&field, &**above, text);
        }
        if self.rules.bounds_depth && !self.keeps_place && ancestry.levels >= MOST_LEVELS {
            let text = format!("{name} has parentName {above} but a tree has at most {MOST_LEVELS} levels");
            found.push(&field, &**above, text);
        }
    }

    fn check_keys(&self, parent: Option<&Quota>, found: &mut Violations) {
        let Self { new, old, .. } = self;
        for parent in parent.into_iter().flat_map(Quota::versions) {
            self.compare_keys(parent, new, (Some(parent), self.old_here), found);
        }
        self.visit_children(&mut |child| {
            for child in child.versions() {
                self.compare_keys(new, child, (*old, Some(child)), found);
            }
        });
    }

    /// Compares the resources of a quota with those of a child. Differences that existed between both before are not
    /// reported.
    fn compare_keys(
        &self,
        above: &Quota,
        below: &Quota,
        before: (Option<&Quota>, Option<&Quota>),
        found: &mut Violations,
    ) {
        let (outer, inner) = (&above.name, &below.name);
        let before = match before {
            (Some(above), Some(below)) => Some((above, below)),
            (None, _) | (_, None) => None,
        };
        let fewer = self.rules.allows_fewer_keys;
        let differs = |above: &Quota, below: &Quota, key: &str| match (
            above.max.contains(key),
            below.max.contains(key),
        ) {
            (false, true) => true,
            (true, false) => !fewer,
            (true, true) | (false, false) => false,
        };
        let is_new = |key: &str, is_wrong: &dyn Fn(&Quota, &Quota, &str) -> bool| {
            is_wrong(above, below, key) && !before.is_some_and(|(above, below)| is_wrong(above, below, key))
        };
        let wrong = |above: &Quota, below: &Quota, key: &str| differs(above, below, key);
        let outer_keys = above.max.iter().filter(|_| !fewer);
        let mut keys = outer_keys.chain(below.max.iter()).map(|(key, _)| key);
        if let Some(key) = keys.find(|key| is_new(key, &wrong)) {
            let text = if fewer {
                format!("{KEYS} {inner}'s max keys are not all included in {outer}'s")
            } else {
                // Koordinator names first the quota that was compared.
                let (first, second) = if below.is_same(self.new) {
                    (outer, inner)
                } else {
                    (inner, outer)
                };
                format!("{KEYS} {first}'s max keys are not the same with {second}'s")
            };
            found.push(&Path::new("spec").child("max").key(key), key, text);
        }
        let lacks =
            |above: &Quota, below: &Quota, key: &str| below.min.contains(key) && !above.min.contains(key);
        let mut keys = below.min.iter().map(|(key, _)| key);
        if let Some(key) = keys.find(|key| is_new(key, &lacks)) {
            let text = format!("{KEYS} {inner}'s min keys are not all included in {outer}'s");
            found.push(&Path::new("spec").child("min").key(key), key, text);
        }
    }

    fn check_sums(&self, parent: Option<&Quota>, found: &mut Violations) {
        let Self { new, old, tree, .. } = self;
        let field = Path::new("spec").child("min");
        if let Some(parent) = parent {
            let bound = parent.smallest_min();
            let mut others = Amounts::default();
            tree.visit_children(&parent.name, &mut |other| {
                if !other.is_same(new) {
                    others.add(&other.largest_min());
                }
            });
            let sum = |own: &Quota| {
                let mut sum = others.clone();
                sum.add(&own.min);
                sum
            };
            // A new child of an exceeded sum increases it by its own amount.
            let sum_before = self.old_here.map_or_else(|| others.clone(), sum);
            let before = self.rules.ratchets.then_some((&sum_before, &*bound));
            if let Some(key) = exceeding(&sum(new), &bound, before) {
                let text = format!(
                    "checkMinQuotaSum all brothers' MinQuota > parent MinQuota, parent: {}",
                    parent.name
                );
                found.push(&field.key(&key), shown(&new.min, &key), text);
            }
        }
        let mut children = Amounts::default();
        self.visit_children(&mut |child| children.add(&child.largest_min()));
        let before = old.map(|old| (&children, &old.min));
        if let Some(key) = exceeding(&children, &new.min, before) {
            let text = format!(
                "checkMinQuotaSum all children's MinQuota > current MinQuota, current: {}",
                new.name
            );
            found.push(&field.key(&key), shown(&new.min, &key), text);
        }
    }
}

/// Returns the first resource whose sum exceeds the bound, and exceeds it by more than before.
fn exceeding(sum: &Amounts, bound: &Amounts, before: Option<(&Amounts, &Amounts)>) -> Option<String> {
    let excess = |sum: &Amounts, bound: &Amounts, key: &str| {
        let amount = |amounts: &Amounts| amounts.get(key).copied().unwrap_or(Quantity::ZERO);
        let (sum, bound) = (amount(sum), amount(bound));
        (sum > bound).then(|| sum.checked_sub(&bound).unwrap_or(sum))
    };
    let mut keys = sum.iter().map(|(key, _)| key);
    let worse = keys.find(|key| {
        let now = excess(sum, bound, key);
        let before = before.and_then(|(sum, bound)| excess(sum, bound, key));
        now.is_some() && now > before
    });
    worse.map(str::to_owned)
}

fn shown(amounts: &Amounts, key: &str) -> String {
    amounts
        .get(key)
        .map_or_else(|| "absent".to_owned(), ToString::to_string)
}
