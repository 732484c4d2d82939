//! Parses the amplification key of Koordinator's ConfigMap: checks Koordinator's own fields and reads Headroom's
//! fields.

use std::{borrow::Borrow, collections::BTreeMap};

use headroom_domain::{
    ratio::Ratio,
    selector::{Labels, NodeSelector},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Number, Value};

use super::Amplification;

/// Value of the key: settings for all nodes, and for the nodes that an entry selects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyDocument {
    /// Settings for all nodes without overrides.
    pub cluster: Amplification,
    entries: Vec<PolicyEntry>,
}

/// Settings for the nodes that a selector matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyEntry {
    /// Name of the entry, or its index if it has none, such as `nodeConfigs[1]`.
    pub name: String,
    selector: NodeSelector,
    /// Settings that override those for all nodes.
    pub own: Amplification,
}

/// Reason why a version is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct PolicyRefusal {
    /// Path of the faulty value below the key; empty for the whole text.
    pub path: String,
    /// Reason of the refusal, without the path.
    pub reason: String,
}

/// Amplification ratio for Koordinator's controller, from 1 to a million.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Number")]
struct KoordinatorRatio;

/// Members of a JSON object that are not yet read, with the path of the object.
struct UnreadPart {
    path: String,
    members: Map<String, Value>,
}

/// Parses the value of the key. Empty text and `null` mean no settings.
///
/// # Errors
/// The text is not JSON, or contains an unknown member, a wrong type or a value out of range.
pub fn read(text: &str) -> Result<PolicyDocument, PolicyRefusal> {
    if text.is_empty() {
        return Ok(PolicyDocument::default());
    }
    let value: Value = serde_json::from_str(text).map_err(|error| PolicyRefusal {
        path: String::new(),
        reason: format!("is not JSON: {error}"),
    })?;
    if value.is_null() {
        return Ok(PolicyDocument::default());
    }
    let mut cluster = UnreadPart::new(String::new(), value)?;
    let entries: Vec<Value> = cluster.remove("nodeConfigs")?.unwrap_or_default();
    let entries = entries.into_iter().enumerate();
    Ok(PolicyDocument {
        cluster: cluster.amplification()?,
        entries: entries
            .map(|(index, value)| entry(format!("nodeConfigs[{index}]"), value))
            .collect::<Result<_, _>>()?,
    })
}

fn entry(path: String, value: Value) -> Result<PolicyEntry, PolicyRefusal> {
    let mut part = UnreadPart::new(path, value)?;
    let name: Option<String> = part.remove("name")?;
    let name = name.filter(|name| !name.is_empty());
    let selector = part
        .remove("nodeSelector")?
        .ok_or_else(|| part.refusal("nodeSelector", "is missing"))?;
    Ok(PolicyEntry {
        name: name.unwrap_or_else(|| part.path.clone()),
        selector,
        own: part.amplification()?,
    })
}

impl PolicyDocument {
    /// Returns the first entry that selects a node with these labels, which are read only if there are entries.
    pub fn entry<L: Borrow<Labels>>(&self, labels: impl FnOnce() -> L) -> Option<&PolicyEntry> {
        if self.entries.is_empty() {
            return None;
        }
        let labels = labels();
        self.entries
            .iter()
            .find(|entry| entry.selector.matches(labels.borrow()))
    }
}

impl UnreadPart {
    fn new(path: String, value: Value) -> Result<Self, PolicyRefusal> {
        match value {
            Value::Object(members) => Ok(Self { path, members }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err(PolicyRefusal {
                    path,
                    reason: "is not a JSON object".to_owned(),
                })
            }
        }
    }

    /// Removes and returns one member; `None` if it is absent or `null`.
    fn remove<T: DeserializeOwned>(&mut self, key: &str) -> Result<Option<T>, PolicyRefusal> {
        match self.members.remove(key) {
            None => Ok(None),
            Some(value) => typed(&joined(&self.path, key), value),
        }
    }

    /// Reads Headroom's settings from the members that remain after Koordinator's own fields.
    fn amplification(mut self) -> Result<Amplification, PolicyRefusal> {
        // These fields are for Koordinator's controller; values that it would refuse are refused here as well.
        let _is_enabled: Option<bool> = self.remove("enable")?;
        let _ratios: Option<BTreeMap<String, Option<KoordinatorRatio>>> =
            self.remove("resourceAmplificationRatio")?;
        typed(&self.path, Value::Object(self.members))
    }

    fn refusal(&self, key: &str, reason: &str) -> PolicyRefusal {
        PolicyRefusal {
            path: joined(&self.path, key),
            reason: reason.to_owned(),
        }
    }
}

impl TryFrom<Number> for KoordinatorRatio {
    type Error = String;

    fn try_from(number: Number) -> Result<Self, String> {
        match Ratio::parse(&number.to_string()) {
            Some(ratio) if ratio >= Ratio::ONE => Ok(Self),
            Some(_) => Err(format!("{number} is below 1")),
            None => Err(format!("{number} is out of range")),
        }
    }
}

/// Deserializes the value; refusals contain the path inside it.
fn typed<T: DeserializeOwned>(path: &str, value: Value) -> Result<T, PolicyRefusal> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let inside = error.path().iter().next().map(|_| error.path().to_string());
        let text = error.inner().to_string();
        PolicyRefusal {
            path: joined(path, &inside.unwrap_or_default()),
            reason: match text.split_once(", expected") {
                // The list of expected fields is incomplete, because it lacks Koordinator's.
                Some((unknown, _)) if unknown.starts_with("unknown field") => unknown.to_owned(),
                Some(_) | None => text,
            },
        }
    })
}

fn joined(path: &str, key: &str) -> String {
    match (path, key) {
        ("", path) | (path, "") => path.to_owned(),
        (path, key) => format!("{path}.{key}"),
    }
}

#[cfg(test)]
mod tests;
