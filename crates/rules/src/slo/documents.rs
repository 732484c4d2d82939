//! [`SloDocuments`]: the documents of a version of the ConfigMap, read once, with the entries that can select a node.

use headroom_domain::selector::{Labels, Selector};

use super::{
    Data, amplification,
    decode::{self, Fault, Reading},
    document::{Content, Document},
    effective::{EffectiveKey, EffectiveValues, NodeLabelValues, merged},
    entries::called,
    table::{AMPLIFICATION, COLOCATION, KEYS, Key},
};

/// The member by which co-location is switched on.
const ENABLE: &str = "enable";

/// The documents of a version, in the order of the keys.
#[derive(Debug, Clone)]
pub struct SloDocuments(Vec<KeyDocument>);

/// The document under a key.
#[derive(Debug, Clone)]
pub struct KeyDocument {
    key: &'static Key,
    unreadable: Option<String>,
    document: Document,
    /// The places of entries whose selectors can be used.
    places: Vec<usize>,
    /// The selectors of these.
    selectors: Vec<Selector>,
}

impl SloDocuments {
    /// Reads a version. A key without text has a document that says nothing.
    pub fn read(data: &Data) -> Self {
        let read = |key: &'static Key| {
            let text = data.get(key.name).map_or("", String::as_str);
            KeyDocument::read(key, text)
        };
        Self(KEYS.into_iter().map(read).collect())
    }

    /// The document of each key.
    pub fn iter(&self) -> impl Iterator<Item = &KeyDocument> {
        self.0.iter()
    }
}

impl KeyDocument {
    fn read(key: &'static Key, text: &str) -> Self {
        let (document, unreadable) = match decode::read(key, text) {
            _ if text.is_empty() => (Document::default(), None),
            Err(error) => (Document::default(), Some(format!("is not JSON: {error}"))),
            Ok(Reading { document, faults, .. }) => {
                let fault = faults.first().map(fault_text);
                (document, fault.or_else(|| refused_policies(key, text)))
            }
        };
        let selectors = document.entries.iter().enumerate();
        let selectors = selectors.filter_map(|(place, entry)| Some((place, entry.selector().ok()?)));
        let (places, selectors) = selectors.unzip();
        Self {
            key,
            unreadable,
            document,
            places,
            selectors,
        }
    }

    /// The key.
    pub fn key(&self) -> &'static Key {
        self.key
    }

    /// Why the text cannot be read, if it cannot: nodes keep what they had.
    pub fn unreadable(&self) -> Option<&str> {
        self.unreadable.as_deref()
    }

    /// What holds for a node with these labels.
    pub fn effective(&self, labels: &Labels) -> EffectiveKey {
        let matching = self.places.iter().zip(&self.selectors);
        let matching = matching.filter(|(_, selector)| selector.matches(labels));
        let selected_by: Vec<usize> = matching.map(|(place, _)| *place).collect();
        let names = selected_by.iter().map(|place| self.entry_name(*place)).collect();
        let label_values = NodeLabelValues::read(self.key, labels);
        let values = self.values(selected_by.first().copied(), &label_values);
        EffectiveKey {
            key: self.key,
            unreadable: self.unreadable.clone(),
            selected_by: names,
            caveat: self.caveat(&values),
            values,
        }
    }

    /// Koordinator co-locates on no node unless it does on all that no entry selects.
    fn caveat(&self, values: &EffectiveValues) -> Option<&'static str> {
        let on = Content::Bool(true);
        let is_on =
            self.key.name == COLOCATION.name && values.get(ENABLE).is_some_and(|value| value.content == on);
        let cluster = self.document.cluster.as_ref();
        let is_on_for_all = cluster.and_then(|cluster| cluster.get(ENABLE)) == Some(&on);
        (is_on && !is_on_for_all).then_some("enable has no effect, as it is not true for all nodes")
    }

    /// The selectors that can select a node, in the order in which they are tried.
    pub(super) fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// The place of an entry by the place of its selector.
    pub(super) fn entry_place(&self, selector: usize) -> Option<usize> {
        self.places.get(selector).copied()
    }

    /// What holds for nodes that the entry at that place selects first, or none.
    pub(super) fn values(&self, entry: Option<usize>, labels: &NodeLabelValues) -> EffectiveValues {
        if self.unreadable.is_some() {
            return EffectiveValues::new();
        }
        let entry = entry.and_then(|place| Some((self.entry_name(place), self.document.entries.get(place)?)));
        let entry = entry
            .as_ref()
            .map(|(name, entry)| (name.as_str(), &entry.strategy));
        merged(self.key, self.document.cluster.as_ref(), entry, labels)
    }

    /// The name of an entry in quotes, or its place, as in `nodeConfigs[1]`.
    fn entry_name(&self, place: usize) -> String {
        let entry = self.document.entries.get(place);
        entry.map_or_else(String::new, |entry| called(self.key, place, entry))
    }
}

fn fault_text(fault: &Fault) -> String {
    let Fault {
        path,
        value,
        expected,
        ..
    } = fault;
    let colon = if path.is_empty() { "" } else { ": " };
    format!("{path}{colon}{expected}, not {value}")
}

/// Why the webhook that follows our own members does not take them.
fn refused_policies(key: &Key, text: &str) -> Option<String> {
    let is_ours = key.name == AMPLIFICATION.name;
    let refusal = is_ours.then(|| amplification::read(text).err())??;
    Some(refusal.to_string())
}
