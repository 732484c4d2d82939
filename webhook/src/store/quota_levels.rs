//! [`QuotaLevels`]: the quotas that have to have room for a Pod, and the pods that count in each.

use std::collections::{BTreeSet, HashSet};

use headroom_rules::{
    pod_quota::{Level, QuotaCheckError, USED_BY_SUM, Usage, check_levels},
    quota::QuotaTree,
    switch::Switches,
};

use crate::store::{lookup::QuotaLookup, quota_request::PodGroup};

/// Quotas from that of a Pod upwards.
#[derive(Debug, Clone)]
pub struct QuotaLevels {
    levels: Vec<Level>,
    groups: Vec<Vec<PodGroup>>,
}

impl QuotaLevels {
    /// With the pods that count in each.
    pub fn new(levels: Vec<Level>, has_default: bool, tree: &dyn QuotaTree) -> Self {
        let mut seen = HashSet::new();
        let mut passed = HashSet::new();
        let mut groups: Vec<Vec<PodGroup>> = Vec::new();
        for (number, level) in levels.iter().enumerate() {
            let mut added = PodGroup::of_quota(&level.quota, has_default, tree);
            // The pods of the quota itself are its own; the others have those of all their parts.
            if number > 0 {
                passed.insert(level.quota.name.clone());
                add_parts(&level.quota.name, has_default, tree, &mut passed, &mut added);
            }
            added.retain(|group| seen.insert(group.clone()));
            groups.push(added);
        }
        Self { levels, groups }
    }

    /// The groups of pods of each level, from the first on, without those of the levels before.
    pub fn groups(&self) -> Vec<Vec<PodGroup>> {
        self.groups.clone()
    }

    /// Resources that some level limits, in any version of it that may be stored.
    pub fn resources(&self) -> BTreeSet<Box<str>> {
        let versions = self.levels.iter().flat_map(|level| level.quota.versions());
        let names = versions.flat_map(|version| version.max.iter());
        names.map(|(name, _)| name.into()).collect()
    }

    /// Use that the scheduler recorded at each level, where it counts.
    pub fn noted(&self, quotas: &dyn QuotaLookup, switches: &Switches) -> Vec<Box<str>> {
        if switches.is_on(&USED_BY_SUM) {
            return Vec::new();
        }
        let keys = self.levels.iter().map(|level| level.quota.key());
        keys.map(|key| quotas.noted_use(&key)).collect()
    }

    /// Checks each level for quota left beyond its use.
    ///
    /// # Errors
    /// The nearest one that has none, or whose annotations cannot be read.
    pub fn check(
        &self,
        used: &[Usage],
        noted: &[Box<str>],
        switches: &Switches,
    ) -> Result<(), QuotaCheckError> {
        let mut used = used.to_vec();
        for (used, noted) in used.iter_mut().zip(noted) {
            used.noted.clone_from(noted);
        }
        check_levels(&self.levels, &used, switches)
    }
}

/// Adds the groups of all quotas below one, but for those that were passed.
fn add_parts(
    parent: &str,
    has_default: bool,
    tree: &dyn QuotaTree,
    passed: &mut HashSet<Box<str>>,
    groups: &mut Vec<PodGroup>,
) {
    let mut parents = vec![Box::from(parent)];
    while let Some(parent) = parents.pop() {
        tree.visit_children(&parent, &mut |part| {
            if passed.insert(part.name.clone()) {
                groups.extend(PodGroup::of_quota(part, has_default, tree));
                parents.push(part.name.clone());
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use headroom_rules::{
        pod_quota::levels,
        switch::{Compat, Switches},
    };
    use serde_json::json;

    use super::*;
    use crate::store::{
        arrivals::Arrivals,
        colocation::pods::PodsByName,
        informer::Store as _,
        quota::{index::QuotaIndex, with_pods::QuotasWithPods},
    };

    /// Quotas of these names with these parents and listed namespaces.
    fn tree(quotas: &[(&str, &str, &str)]) -> QuotasWithPods {
        let index = QuotaIndex::new(Arrivals::default());
        for (name, parent, namespaces) in quotas {
            let domain = |key| format!("quota.scheduling.koordinator.sh/{key}");
            let quota = json!({
                "metadata": {
                    "name": name, "namespace": "q", "uid": name, "resourceVersion": "1",
                    "labels": {domain("parent"): parent, domain("is-parent"): "true"},
                    "annotations": {domain("namespaces"): namespaces},
                },
                "spec": {"max": {"cpu": 1}},
            });
            index.apply(serde_json::from_str(&quota.to_string()).unwrap());
        }
        QuotasWithPods {
            index,
            pods: Arc::new(PodsByName::new(Arrivals::default())),
        }
    }

    /// Of a pod of `quota`, sorted within each level.
    fn groups(quotas: &QuotasWithPods, quota: &str, switches: &str) -> Vec<Vec<String>> {
        let switches = Switches::parse(headroom_rules::SWITCHES, Compat::Headroom, switches).unwrap();
        let mut found = Vec::new();
        quotas.visit_tree(&mut |tree| {
            let quota = tree.by_name(quota).unwrap();
            let levels = levels(
                quota,
                &headroom_domain::amounts::Amounts::default(),
                None,
                tree,
                &switches,
            );
            found = QuotaLevels::new(levels, true, tree).groups();
        });
        let names = |groups: Vec<PodGroup>| {
            let mut names: Vec<String> = groups.iter().map(|group| format!("{group:?}")).collect();
            names.sort();
            names
        };
        found.into_iter().map(names).collect()
    }

    fn labelled(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| format!("Labelled({name:?})")).collect()
    }

    const ON: &str = "QuotaLimitsAncestors=true";

    #[test]
    fn each_level_adds_what_its_other_parts_have() {
        let quotas = tree(&[
            ("org", "", "[]"),
            ("dept", "org", "[]"),
            ("team", "dept", "[]"),
            ("lab", "dept", "[\"shop\"]"),
            ("sub", "team", "[]"),
            ("other", "org", "[]"),
        ]);
        let mut of_dept = labelled(&["dept", "lab", "sub"]);
        of_dept.push("Unlabelled(\"shop\")".to_owned());
        let expected = [labelled(&["team"]), of_dept, labelled(&["org", "other"])];
        assert_eq!(groups(&quotas, "team", ON), expected);
        assert_eq!(groups(&quotas, "team", ""), [labelled(&["team"])]);
    }

    #[test]
    fn a_cycle_and_a_missing_parent_end_the_way_up() {
        let quotas = tree(&[("a", "b", "[]"), ("b", "a", "[]"), ("c", "gone", "[]")]);
        assert_eq!(groups(&quotas, "a", ON), [labelled(&["a"]), labelled(&["b"])]);
        assert_eq!(groups(&quotas, "c", ON), [labelled(&["c"])]);
    }
}
