//! Difference of two versions of the ConfigMap: changed values, and the nodes of each change.
//!
//! Nodes are grouped by the entries that select them, and values are compared once per group, so the cost barely
//! depends on the number of nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use headroom_domain::selector::{Selector, SelectorIndex};

use super::{
    documents::{KeyDocument, SloDocuments},
    effective::{EffectiveValue, EffectiveValues, NodeLabelValues},
    report::Nodes,
    table::Key,
};

/// Maximum number of nodes that a change names.
const MOST_NAMES: usize = 3;

/// Changes of one key between two versions.
#[derive(Debug, Clone)]
pub struct KeyDifference {
    /// The key of the ConfigMap.
    pub key: &'static Key,
    /// The version that cannot be read, with the reason: then nothing is compared, because nodes keep their values.
    pub unreadable: Option<UnreadableVersion>,
    /// Groups of changes, ordered by their first node.
    pub groups: Vec<ChangeGroup>,
}

/// A version that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableVersion {
    /// True for the new version.
    pub is_new: bool,
    /// Reason why it cannot be read.
    pub reason: String,
}

/// Nodes with the same changes.
#[derive(Debug, Clone)]
pub struct ChangeGroup {
    /// Changed values of these nodes, by path.
    pub changes: Vec<ValueChange>,
    /// First three nodes by name.
    pub nodes: BTreeSet<String>,
    /// Number of nodes in the group.
    pub count: usize,
}

/// A value that differs between two versions.
#[derive(Debug, Clone)]
pub struct ValueChange {
    /// Path of the value below the strategy.
    pub path: String,
    /// Current value; `None` if there is none.
    pub before: Option<EffectiveValue>,
    /// Value in the new version; `None` if there is none.
    pub after: Option<EffectiveValue>,
}

/// Properties that distinguish nodes under a key: the first selecting entry of each version, and their own labels.
type NodeKind = (Option<usize>, Option<usize>, NodeLabelValues);

#[derive(Debug, Default)]
struct KindNodes {
    names: BTreeSet<String>,
    count: usize,
}

/// A key in both versions, with the indexes of its selectors among all.
struct Versions<'d> {
    old: &'d KeyDocument,
    new: &'d KeyDocument,
    old_places: Range<usize>,
    new_places: Range<usize>,
    kinds: BTreeMap<NodeKind, KindNodes>,
}

/// Compares two versions for these nodes. Keys without changes are omitted.
pub fn difference(old: &SloDocuments, new: &SloDocuments, nodes: &dyn Nodes) -> Vec<KeyDifference> {
    let mut selectors: Vec<&Selector> = Vec::new();
    let mut keys: Vec<Versions<'_>> = Vec::new();
    for (old, new) in old.iter().zip(new.iter()) {
        let old_places = append(&mut selectors, old);
        let new_places = append(&mut selectors, new);
        keys.push(Versions {
            old,
            new,
            old_places,
            new_places,
            kinds: BTreeMap::new(),
        });
    }
    let index = SelectorIndex::new(&selectors);
    nodes.visit(&mut |name, labels| {
        let matching = index.matching(labels);
        for key in &mut keys {
            let kind = (
                first_entry(key.old, &key.old_places, &matching),
                first_entry(key.new, &key.new_places, &matching),
                NodeLabelValues::read(key.old.key(), labels),
            );
            key.kinds.entry(kind).or_default().add(name);
        }
    });
    let differences = keys.into_iter().map(Versions::difference);
    differences
        .filter(|difference| difference.unreadable.is_some() || !difference.groups.is_empty())
        .collect()
}

/// Adds the selectors of a document and returns their indexes.
fn append<'d>(selectors: &mut Vec<&'d Selector>, document: &'d KeyDocument) -> Range<usize> {
    let start = selectors.len();
    selectors.extend(document.selectors());
    start..selectors.len()
}

/// Returns the first entry of a document among the matching selectors, which are in order.
fn first_entry(document: &KeyDocument, places: &Range<usize>, matching: &[usize]) -> Option<usize> {
    let at = matching.partition_point(|place| *place < places.start);
    let place = matching.get(at).filter(|place| places.contains(place))?;
    document.entry_place(place - places.start)
}

impl KindNodes {
    fn add(&mut self, name: &str) {
        self.count += 1;
        keep_first(&mut self.names, name);
    }
}

/// Adds a name if it is among the first ones.
fn keep_first(names: &mut BTreeSet<String>, name: &str) {
    let is_early = names.last().is_none_or(|last| name < last.as_str());
    if is_early || names.len() < MOST_NAMES {
        names.insert(name.to_owned());
        if names.len() > MOST_NAMES {
            names.pop_last();
        }
    }
}

impl Versions<'_> {
    fn difference(self) -> KeyDifference {
        let Self { old, new, kinds, .. } = self;
        let side = |document: &KeyDocument, is_new| {
            let reason = document.unreadable()?.to_owned();
            Some(UnreadableVersion { is_new, reason })
        };
        let unreadable = side(new, true).or_else(|| side(old, false));
        let mut groups: BTreeMap<String, ChangeGroup> = BTreeMap::new();
        if unreadable.is_none() {
            for ((before, after, labels), nodes) in kinds {
                let changes = changes(old.values(before, &labels), new.values(after, &labels));
                if !changes.is_empty() {
                    let identity = changes.iter().map(ValueChange::identity).collect();
                    groups
                        .entry(identity)
                        .or_insert_with(|| ChangeGroup::new(changes))
                        .add(nodes);
                }
            }
        }
        let mut groups: Vec<ChangeGroup> = groups.into_values().collect();
        groups.sort_by(|one, other| one.nodes.first().cmp(&other.nodes.first()));
        KeyDifference {
            key: old.key(),
            unreadable,
            groups,
        }
    }
}

impl ValueChange {
    /// Text that is equal exactly for equal changes.
    fn identity(&self) -> String {
        let Self { path, before, after } = self;
        let side = |value: &Option<EffectiveValue>| {
            let value = value.as_ref();
            value.map(|value| (value.json(), value.origin.to_string()))
        };
        format!("{path:?}{:?}{:?}", side(before), side(after))
    }
}

impl ChangeGroup {
    fn new(changes: Vec<ValueChange>) -> Self {
        Self {
            changes,
            nodes: BTreeSet::new(),
            count: 0,
        }
    }

    fn add(&mut self, nodes: KindNodes) {
        let KindNodes { names, count } = nodes;
        self.count += count;
        for name in names {
            keep_first(&mut self.nodes, &name);
        }
    }
}

/// Returns the differing values by path; their origins are ignored.
fn changes(mut before: EffectiveValues, after: EffectiveValues) -> Vec<ValueChange> {
    let mut changes = Vec::new();
    for (path, after) in after {
        let before = before.remove(&path);
        if before.as_ref().is_none_or(|before| !before.is_same(&after)) {
            changes.push(ValueChange {
                path,
                before,
                after: Some(after),
            });
        }
    }
    changes.extend(before.into_iter().map(|(path, before)| ValueChange {
        path,
        before: Some(before),
        after: None,
    }));
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    changes
}

#[cfg(test)]
mod tests;
