//! Values in force for a node under a key of the ConfigMap, each with its origin.
//!
//! ```text
//! defaults <- strategy for all nodes <- first entry that selects the node <- labels of the node <- agent's own values
//! ```
//!
//! Members that a layer lacks stay unchanged, objects and maps are merged, and lists are replaced as a whole; an
//! empty string replaces nothing. In `host-application-config` an entry replaces everything that applies to other
//! nodes.

mod layers;
mod node_labels;

use std::{collections::BTreeMap, fmt};

pub(super) use self::{layers::merged, node_labels::NodeLabelValues};
use super::{
    decode::shortened,
    document::Content,
    table::{Key, MemberRow, Unit, ValueKind},
};

/// Values by path below a strategy, such as `beClass.memoryQOS.priority`.
pub type EffectiveValues = BTreeMap<String, EffectiveValue>;

/// Values in force for a node under a key.
#[derive(Debug, Clone)]
pub struct EffectiveKey {
    /// The key of the ConfigMap.
    pub key: &'static Key,
    /// Reason why the text cannot be read, if it cannot: no value is known then.
    pub unreadable: Option<String>,
    /// Entries that select the node, by name in quotes or by index. The first one counts, the others are a conflict.
    pub selected_by: Vec<String>,
    /// Reason why a value has no effect, in words.
    pub caveat: Option<&'static str>,
    /// Values in force, by path.
    pub values: EffectiveValues,
}

/// A value with its origin.
#[derive(Debug, Clone)]
pub struct EffectiveValue {
    /// Row that declares the value.
    pub field: &'static MemberRow,
    /// The value, typed by its row.
    pub content: Content,
    /// Layer that the value comes from.
    pub origin: Origin,
}

/// Layer that a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The built-in default: no layer sets the value.
    Default,
    /// The agent of the node, which sets values for enabled QoS classes.
    Agent,
    /// The strategy for all nodes.
    Cluster,
    /// The entry, by name in quotes or by index.
    Entry(String),
    /// A label of the node, by key.
    Label(&'static str),
}

impl EffectiveValue {
    /// Unit of the value; empty if it has none.
    pub fn unit(&self) -> &'static str {
        match (self.field.kind, &self.content) {
            (ValueKind::PercentOrQuantity, Content::Int(_)) => Unit::Percent.name(),
            _ => self.field.unit.name(),
        }
    }

    /// Returns true if both values are equal, regardless of origin and spelling.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.content, &other.content) {
            (Content::Json(_), Content::Json(_)) => self.json() == other.json(),
            (one, other) => one == other,
        }
    }

    /// The value as JSON, without its unit.
    pub fn json(&self) -> serde_json::Value {
        match &self.content {
            Content::Bool(value) => (*value).into(),
            Content::Int(number) => (*number).into(),
            Content::Number(number) => (*number).into(),
            Content::Text(text) => text.as_str().into(),
            Content::Quantity(quantity) => quantity.to_string().into(),
            Content::Json(text) => serde_json::from_str(text).unwrap_or_else(|_deep| text.as_str().into()),
        }
    }
}

impl fmt::Display for EffectiveValue {
    /// Writes the value with its unit, such as `60 percent`; long texts are shortened.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let content = match &self.content {
            Content::Text(text) if text.is_empty() => "\"\"".to_owned(),
            Content::Text(text) | Content::Json(text) => shortened(text),
            content @ (Content::Bool(_) | Content::Int(_) | Content::Number(_) | Content::Quantity(_)) => {
                content.to_string()
            }
        };
        match (self.field.unit, &self.content) {
            (Unit::OffOn, Content::Int(0)) => f.write_str("0 (off)"),
            (Unit::OffOn, Content::Int(1)) => f.write_str("1 (on)"),
            (Unit::None | Unit::OffOn, _) => f.write_str(&content),
            (Unit::Ratio | Unit::Priority, _) => write!(f, "{content} ({})", self.unit()),
            _ => write!(f, "{content} {}", self.unit()),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Agent => f.write_str("agent"),
            Self::Cluster => f.write_str("cluster"),
            Self::Entry(name) => write!(f, "entry {name}"),
            Self::Label(key) => write!(f, "label {key}"),
        }
    }
}

#[cfg(test)]
mod tests;
