//! [`SloDocuments`]: the parsed documents of a version of the ConfigMap, with the entries that can select a node.

use headroom_domain::selector::{Labels, Selector};

use super::{
    Data, amplification,
    decode::{self, Fault, Reading},
    document::{Content, Document},
    effective::{EffectiveKey, EffectiveValues, NodeLabelValues, merged},
    entries::called,
    table::{AMPLIFICATION, COLOCATION, KEYS, Key},
};

const ENABLE: &str = "enable";

/// Documents of a version, in the order of the keys.
#[derive(Debug, Clone)]
pub struct SloDocuments(Vec<KeyDocument>);

/// Document under a key, with its usable selectors.
#[derive(Debug, Clone)]
pub struct KeyDocument {
    key: &'static Key,
    unreadable: Option<String>,
    document: Document,
    /// Indexes of the entries with usable selectors.
    places: Vec<usize>,
    selectors: Vec<Selector>,
}

impl SloDocuments {
    /// Parses a version. A key without text has an empty document.
    pub fn read(data: &Data) -> Self {
        let read = |key: &'static Key| {
            let text = data.get(key.name).map_or("", String::as_str);
            KeyDocument::read(key, text)
        };
        Self(KEYS.into_iter().map(read).collect())
    }

    /// Returns the document of each key.
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

    /// The key of the ConfigMap.
    pub fn key(&self) -> &'static Key {
        self.key
    }

    /// Reason why the text cannot be read, if it cannot: nodes keep their values then.
    pub fn unreadable(&self) -> Option<&str> {
        self.unreadable.as_deref()
    }

    /// Returns the values in force for a node with these labels.
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

    /// Koordinator enables co-location on no node unless it is enabled for all nodes without an entry.
    fn caveat(&self, values: &EffectiveValues) -> Option<&'static str> {
        let on = Content::Bool(true);
        let is_on =
            self.key.name == COLOCATION.name && values.get(ENABLE).is_some_and(|value| value.content == on);
        let cluster = self.document.cluster.as_ref();
        let is_on_for_all = cluster.and_then(|cluster| cluster.get(ENABLE)) == Some(&on);
        (is_on && !is_on_for_all).then_some("enable has no effect, because it is not true for all nodes")
    }

    /// Usable selectors, in evaluation order.
    pub(super) fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// Index of an entry by the index of its selector.
    pub(super) fn entry_place(&self, selector: usize) -> Option<usize> {
        self.places.get(selector).copied()
    }

    /// Values of nodes whose first selecting entry is `entry`; `None` for nodes without one.
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

    /// Name of an entry in quotes, or its index, such as `nodeConfigs[1]`.
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

/// Reason why the webhook refuses Headroom's own members.
fn refused_policies(key: &Key, text: &str) -> Option<String> {
    let is_ours = key.name == AMPLIFICATION.name;
    let refusal = is_ours.then(|| amplification::read(text).err())??;
    Some(refusal.to_string())
}
