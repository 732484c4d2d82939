//! Content of the text of a key: values by path, for all nodes and for the nodes of each entry.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use headroom_domain::{
    field::BadValue,
    quantity::Quantity,
    selector::{LabelSelector, Selector, SelectorError},
};

use super::table::{
    Class, Key, MemberRow,
    tree::{PathNode, Shape},
};

/// Document under a key, as values by path.
#[derive(Debug, Clone, Default)]
pub struct Document {
    /// Strategy for all nodes; `None` if it is absent.
    pub cluster: Option<Strategy>,
    /// Strategies for some nodes, in evaluation order.
    pub entries: Vec<Entry>,
}

/// Strategy for the nodes of a selector.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    /// Name of the entry; empty if it has none.
    pub name: String,
    /// Selector as written; `None` if it is missing.
    pub written_selector: Option<LabelSelector>,
    /// Values for the selected nodes.
    pub strategy: Strategy,
}

/// Values by path, such as `beClass.memoryQOS.priority` or `applications[0].name`.
#[derive(Debug, Clone, Default)]
pub struct Strategy(BTreeMap<ValuePath, Given>);

/// Path of a value below a strategy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ValuePath {
    /// Rank of its row: most values have a unique row, so paths are rarely compared.
    rank: u16,
    /// Path, borrowed from the table except for elements.
    text: Cow<'static, str>,
}

/// A value with the row that declares it.
#[derive(Debug, Clone)]
pub struct Given {
    /// QoS class of the value, if it has one.
    pub class: Option<&'static Class>,
    /// Row that declares the value.
    pub field: &'static MemberRow,
    /// The value as read from JSON.
    pub content: Content,
}

/// Content of a value, by type.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// `true` or `false` in JSON.
    Bool(bool),
    /// A whole number of 64 bits.
    Int(i64),
    /// A number with or without fraction.
    Number(f64),
    /// A string, such as a word or duration.
    Text(String),
    /// A Kubernetes quantity, such as `10G`.
    Quantity(Quantity),
    /// JSON of an unknown structure, as text.
    Json(String),
}

/// Reasons why an entry has no usable selector.
#[derive(Debug, Clone, PartialEq)]
pub enum EntryError {
    /// The selector is missing or has no conditions.
    NoSelector,
    /// The selector is invalid by Kubernetes' rules.
    Selector(SelectorError),
}

impl Document {
    /// Returns the value at a path below the key, such as `nodeConfigs[1].bounds.cpu.max`.
    pub fn get(&self, key: &Key, path: &str) -> Option<&Content> {
        if let Some(inside) = path
            .strip_prefix(key.entries)
            .and_then(|path| path.strip_prefix('['))
        {
            let (index, own) = inside.split_once("].")?;
            return self.entries.get(index.parse::<usize>().ok()?)?.strategy.get(own);
        }
        let own = match key.cluster {
            Some(cluster) => path.strip_prefix(cluster)?.strip_prefix('.')?,
            None => path,
        };
        self.cluster.as_ref()?.get(own)
    }
}

impl Entry {
    /// Returns the selector of the nodes.
    ///
    /// # Errors
    /// The selector is missing, selects all nodes, or is invalid by Kubernetes' rules.
    pub fn selector(&self) -> Result<Selector, EntryError> {
        let written = self.written_selector.as_ref().ok_or(EntryError::NoSelector)?;
        if written.match_labels.is_empty() && written.match_expressions.is_empty() {
            return Err(EntryError::NoSelector);
        }
        written.to_selector().map_err(EntryError::Selector)
    }
}

impl Strategy {
    /// Returns the value at a path below the strategy.
    pub fn get(&self, path: &str) -> Option<&Content> {
        let mut values = self.0.iter();
        let found = values.find(|(own, _)| own.text == path);
        found.map(|(_, given)| &given.content)
    }

    /// Returns the value of a row outside lists and maps; `class` is the QoS class of the row, if it has one.
    pub(super) fn get_row(&self, class: Option<&Class>, field: &MemberRow) -> Option<&Content> {
        let is_class = |own: Option<&Class>| match (own, class) {
            (Some(own), Some(class)) => std::ptr::eq(own, class),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let mut values = self.0.values();
        let found = values.find(|given| std::ptr::eq(given.field, field) && is_class(given.class));
        found.map(|given| &given.content)
    }

    /// All values: rows in path order, elements of a list or a map consecutively.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Given)> {
        self.0.iter().map(|(path, given)| (path.text.as_ref(), given))
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn set(&mut self, rank: u16, path: Cow<'static, str>, given: Given) {
        self.0.insert(ValuePath { rank, text: path }, given);
    }

    /// Removes the values at a position: one value, or all values in a container. `element` is the path of the
    /// position if it is in a list or a map.
    pub(super) fn remove(&mut self, node: &'static PathNode, element: Option<&str>) {
        match (element, &node.shape) {
            (None, _) => self.remove_ranks(node.rank, node.end),
            (Some(path), Shape::Value(_)) => {
                let text = Cow::Owned(path.to_owned());
                let rank = node.rank;
                self.0.remove(&ValuePath { rank, text });
            }
            (Some(path), Shape::Object(members)) => {
                for (name, member) in members {
                    self.remove(member, Some(&format!("{path}.{name}")));
                }
            }
            // Elements have no nested elements.
            (Some(_), Shape::List(inner) | Shape::Map(inner)) => self.remove_ranks(inner.rank, inner.end),
        }
    }

    fn remove_ranks(&mut self, first: u16, end: u16) {
        let from = |rank| ValuePath {
            rank,
            text: Cow::Borrowed(""),
        };
        let inside = self.0.range(from(first)..from(end));
        let inside: Vec<ValuePath> = inside.map(|(path, _)| path.clone()).collect();
        for path in inside {
            self.0.remove(&path);
        }
    }
}

impl Content {
    /// Returns the value as a number; `None` for other types.
    pub fn number(&self) -> Option<f64> {
        match self {
            // All ranges end far below 2^53, where every whole number is exact in a float.
            #[expect(clippy::cast_precision_loss, reason = "compared with small numbers")]
            Self::Int(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            Self::Bool(_) | Self::Text(_) | Self::Quantity(_) | Self::Json(_) => None,
        }
    }
}

impl From<&Content> for BadValue {
    fn from(content: &Content) -> Self {
        match content {
            Content::Bool(value) => Self::Bool(*value),
            Content::Int(number) => Self::Integer(*number),
            Content::Number(number) => Self::Json(serde_json::Value::from(*number)),
            Content::Text(text) | Content::Json(text) => Self::Text(text.clone()),
            Content::Quantity(quantity) => Self::Text(quantity.to_string()),
        }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Int(number) => number.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) | Self::Json(text) => f.write_str(text),
            Self::Quantity(quantity) => quantity.fmt(f),
        }
    }
}
