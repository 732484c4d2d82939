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

/// The value of the key: what holds for all nodes, and for those that an entry selects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyDocument {
    /// For all nodes.
    pub cluster: Amplification,
    entries: Vec<PolicyEntry>,
}

/// What holds for the nodes that a selector matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyEntry {
    /// Its name, or its place where it has none, as in `nodeConfigs[1]`.
    pub name: String,
    selector: NodeSelector,
    /// What it lays over what holds for all nodes.
    pub own: Amplification,
}

/// Why a version is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct PolicyRefusal {
    /// Where it is wrong, below the key; empty for the text itself.
    pub path: String,
    /// What is wrong.
    pub reason: String,
}

/// An amplification ratio for Koordinator's controller, from 1 to a million.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Number")]
struct KoordinatorRatio;

/// The members of a JSON object that nobody has taken yet, and where the object is.
struct UnreadPart {
    path: String,
    members: Map<String, Value>,
}

/// Reads the value of the key. Empty text and `null` say nothing.
///
/// # Errors
/// The text is not JSON, or something in it is unknown, of a wrong type or out of range.
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
    /// The first entry that selects a node with these labels, which are not asked for in vain.
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

    /// Takes one member out; `None` if it is absent or `null`.
    fn remove<T: DeserializeOwned>(&mut self, key: &str) -> Result<Option<T>, PolicyRefusal> {
        match self.members.remove(key) {
            None => Ok(None),
            Some(value) => typed(&joined(&self.path, key), value),
        }
    }

    /// What is left when Koordinator's own fields are out: ours, and nothing else.
    fn amplification(mut self) -> Result<Amplification, PolicyRefusal> {
        // What these do is up to Koordinator's controller; a version that it would refuse is refused here as well.
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

/// The value as that type; refusals name the path inside it.
fn typed<T: DeserializeOwned>(path: &str, value: Value) -> Result<T, PolicyRefusal> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let inside = error.path().iter().next().map(|_| error.path().to_string());
        let text = error.inner().to_string();
        PolicyRefusal {
            path: joined(path, &inside.unwrap_or_default()),
            reason: match text.split_once(", expected") {
                // The fields that it would list are not all that there are.
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
