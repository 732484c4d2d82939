//! Existing nodes that two entries of a key select.

use std::collections::{BTreeMap, BTreeSet};

use headroom_domain::{
    field::{BadValue, Error},
    selector::{Labels, Selector, SelectorIndex},
};

use super::{
    decode::shortened,
    entries::Selecting,
    envelope,
    findings::{Findings, path},
    report::Nodes,
    table::Key,
};

/// Maximum number of nodes that a message names.
const MOST_NODES: usize = 3;
/// Maximum number of comparisons of a node with an entry; a node is compared only with entries for one of its labels.
const MOST_COMPARISONS: usize = 2_000_000;
/// Maximum number of sets of entries that are listed for a key.
const MOST_SETS: usize = 16;

/// A key whose entries may select the same nodes.
pub(super) type ComparedKey<'c> = (&'static Key, &'c Selecting<'c>);

/// Nodes that a set of entries selects.
#[derive(Debug, Default)]
struct Shared {
    count: usize,
    /// First of these nodes by name.
    names: BTreeSet<String>,
}

/// Nodes of a key that several entries select.
#[derive(Debug, Default)]
struct Conflicts {
    /// First node by name, with the entries that select it.
    first: Option<(String, Vec<usize>)>,
    /// Nodes by the set of entries (indexes) that select them; only the first sets.
    by_set: BTreeMap<Vec<usize>, Shared>,
}

/// Checks that no node is selected by two entries of a key. Koordinator names any such node; Headroom names the first
/// one by name.
pub(super) fn check(keys: &[ComparedKey<'_>], nodes: &dyn Nodes, findings: &mut Findings) {
    // All selectors are in one index, so each node is looked up once.
    let selectors: Vec<&Selector> = keys
        .iter()
        .flat_map(|(_, selecting)| &selecting.selectors)
        .collect();
    let index = SelectorIndex::new(&selectors);
    let mut found: Vec<Conflicts> = keys.iter().map(|_| Conflicts::default()).collect();
    let mut places = Vec::new();
    let (mut left, mut are_all) = (MOST_COMPARISONS, true);
    nodes.visit(&mut |name, labels| {
        places.clear();
        places.extend(index.requiring(labels));
        places.sort_unstable();
        let mut rest = places.as_slice();
        let mut end = 0;
        for ((_, selecting), conflicts) in keys.iter().zip(&mut found) {
            let start = end;
            end += selecting.selectors.len();
            let (of_key, of_others) = rest.split_at(rest.partition_point(|&place| place < end));
            rest = of_others;
            if of_key.len() < 2 {
                continue;
            }
            let Some(rest) = left.checked_sub(of_key.len()) else {
                are_all = false;
                continue;
            };
            left = rest;
            let places = of_key.iter().map(|place| place - start);
            conflicts.add_if_several(name, labels, places, selecting);
        }
    });
    if !are_all {
        findings.warn(|| {
            "too many nodes and entries to compare: nodes that two entries select may remain undetected"
                .to_owned()
        });
    }
    let firsts = keys.iter().zip(&found);
    let firsts = firsts.filter_map(|(contested, conflicts)| Some((contested, conflicts.first.as_ref()?)));
    // If two keys have the same node, the earlier key comes first.
    if let Some(((key, selecting), (node, set))) = firsts.min_by_key(|(_, (node, _))| node) {
        findings.refuse(|| envelope::entries(key.name, names(selecting, set), Some(node)));
    }
    for ((key, selecting), conflicts) in keys.iter().zip(&found) {
        for (set, shared) in &conflicts.by_set {
            findings.error(|| shared.error(key, names(selecting, set)));
        }
    }
}

/// Names of entries by their indexes.
fn names<'d>(selecting: &Selecting<'d>, set: &[usize]) -> Vec<&'d str> {
    let entries = set.iter().filter_map(|&place| selecting.entries.get(place));
    entries.map(|(_, entry)| entry.name.as_str()).collect()
}

impl Conflicts {
    /// Adds a node if more than one of these entries selects it.
    fn add_if_several(
        &mut self,
        node: &str,
        labels: &Labels,
        places: impl Iterator<Item = usize>,
        selecting: &Selecting<'_>,
    ) {
        let matches = |place: &usize| {
            selecting
                .selectors
                .get(*place)
                .is_some_and(|selector| selector.matches(labels))
        };
        let set: Vec<usize> = places.filter(matches).collect();
        if set.len() < 2 {
            return;
        }
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

    fn error(&self, key: &Key, entries: Vec<&str>) -> Error {
        let Self { count, names } = self;
        let listed: Vec<&str> = names.iter().map(String::as_str).collect();
        let more = match count.saturating_sub(listed.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let detail = format!("all of them select existing nodes: {}{more}", listed.join(", "));
        let entries = entries.into_iter().take(MOST_SETS).map(shortened);
        Error::invalid(
            &path(key, key.entries),
            BadValue::Json(entries.collect()),
            &detail,
        )
    }
}
