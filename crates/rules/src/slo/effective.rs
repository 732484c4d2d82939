//! What holds for a node under a key of the ConfigMap: each value, and where it comes from.
//!
//! ```text
//! defaults <- what holds for all nodes <- the first entry that selects the node <- labels of the node <- the agent's own
//! ```
//!
//! Members that a layer does not have stay as they are, objects and maps are merged, lists replaced as a whole; an empty
//! text replaces nothing. Of `host-application-config` an entry replaces all that holds for other nodes.

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

/// What holds for a node under a key.
#[derive(Debug, Clone)]
pub struct EffectiveKey {
    /// The key.
    pub key: &'static Key,
    /// Why the text cannot be read, if it cannot: then no value is known.
    pub unreadable: Option<String>,
    /// The entries that select the node, by name in quotes or by place. The first counts, the others are a conflict.
    pub selected_by: Vec<String>,
    /// What keeps a value from having an effect, in words.
    pub caveat: Option<&'static str>,
    /// The values.
    pub values: EffectiveValues,
}

/// A value with its origin.
#[derive(Debug, Clone)]
pub struct EffectiveValue {
    /// The row that declares it.
    pub field: &'static MemberRow,
    /// The value.
    pub content: Content,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody gives it.
    Default,
    /// The agent of the node fills it in where a class of service is enabled.
    Agent,
    /// What holds for all nodes.
    Cluster,
    /// The entry, by name in quotes or by place.
    Entry(String),
    /// A label of the node, by key.
    Label(&'static str),
}

impl EffectiveValue {
    /// The unit; empty for none.
    pub fn unit(&self) -> &'static str {
        match (self.field.kind, &self.content) {
            (ValueKind::PercentOrQuantity, Content::Int(_)) => Unit::Percent.name(),
            _ => self.field.unit.name(),
        }
    }

    /// Whether it is the same value, wherever it comes from and however it is written.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.content, &other.content) {
            (Content::Json(_), Content::Json(_)) => self.json() == other.json(),
            (one, other) => one == other,
        }
    }

    /// The value in the form that JSON has for it.
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
    /// The value with its unit, as in `60 percent`; long texts are shortened.
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
