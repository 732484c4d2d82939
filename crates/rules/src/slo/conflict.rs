//! Nodes that there are and that two entries of a key select.

use std::collections::{BTreeMap, BTreeSet};

use headroom_domain::{
    field::{Error, Shown},
    selector::SelectorIndex,
};

use super::{
    check::Nodes,
    entries::Selecting,
    envelope,
    findings::{Findings, path},
    table::Key,
};

/// How many nodes are named.
const MOST_NODES: usize = 3;
/// How many sets of entries of a key are listed.
const MOST_SETS: usize = 16;

/// A key whose entries may select the same nodes.
pub(super) struct Contested<'c> {
    pub(super) key: &'static Key,
    pub(super) selecting: &'c Selecting<'c>,
    pub(super) index: SelectorIndex<'c>,
}

/// The nodes that a set of entries selects.
#[derive(Debug, Default)]
struct Shared {
    count: usize,
    /// The first of them by name.
    names: BTreeSet<String>,
}

/// The nodes of a key that are selected twice.
#[derive(Debug, Default)]
struct Conflicts {
    /// The first of them by name, and the entries that select it.
    first: Option<(String, Vec<usize>)>,
    /// Nodes by the entries that select them, which are known by their places; the first of these sets.
    by_set: BTreeMap<Vec<usize>, Shared>,
}

/// Checks that no node is selected by two entries of a key. Koordinator names one such node; here it is the first by name.
pub(super) fn check(keys: &[Contested<'_>], nodes: &dyn Nodes, findings: &mut Findings) {
    let mut found: Vec<Conflicts> = keys.iter().map(|_| Conflicts::default()).collect();
    nodes.visit(&mut |name, labels| {
        for (Contested { index, .. }, conflicts) in keys.iter().zip(&mut found) {
            let matching = index.matching(labels);
            if matching.len() > 1 {
                conflicts.add(name, matching);
            }
        }
    });
    let firsts = keys.iter().zip(&found);
    let firsts = firsts.filter_map(|(contested, conflicts)| Some((contested, conflicts.first.as_ref()?)));
    // Of two keys with the same node, the earlier one.
    if let Some((contested, (node, set))) = firsts.min_by_key(|(_, (node, _))| node) {
        findings.refuse(|| envelope::entries(contested.key.name, contested.names(set), Some(node)));
    }
    for (contested, conflicts) in keys.iter().zip(&found) {
        for (set, shared) in &conflicts.by_set {
            findings.error(|| contested.error(set, shared));
        }
    }
}

impl Conflicts {
    fn add(&mut self, node: &str, set: Vec<usize>) {
        if self.first.as_ref().is_none_or(|(first, _)| node < first.as_str()) {
            self.first = Some((node.to_owned(), set.clone()));
        }
        self.by_set.entry(set).or_default().add(node);
        if self.by_set.len() > MOST_SETS {
            self.by_set.pop_last();
        }
    }
}

impl Shared {
    fn add(&mut self, name: &str) {
        self.count += 1;
        let is_early = self.names.last().is_none_or(|last| name < last.as_str());
        if is_early || self.names.len() < MOST_NODES {
            self.names.insert(name.to_owned());
            if self.names.len() > MOST_NODES {
                self.names.pop_last();
            }
        }
    }
}

impl Contested<'_> {
    fn names(&self, set: &[usize]) -> Vec<&str> {
        let entries = set.iter().filter_map(|&place| self.selecting.entries.get(place));
        entries.map(|(_, entry)| entry.name.as_str()).collect()
    }

    fn error(&self, set: &[usize], shared: &Shared) -> Error {
        let Shared { count, names } = shared;
        let listed: Vec<&str> = names.iter().map(String::as_str).collect();
        let more = count.saturating_sub(listed.len());
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let detail = format!(
            "all of them select nodes that there are: {}{more}",
            listed.join(", ")
        );
        let entries = self.names(set).into_iter().map(super::decode::shortened);
        let entries = Shown::Json(entries.take(MOST_SETS).collect());
        Error::invalid(&path(self.key, self.key.entries), entries, &detail)
    }
}
