//! What the text under a key says: values by path, for all nodes and for those that an entry selects.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use headroom_domain::{
    field::Shown,
    quantity::Quantity,
    selector::{LabelSelector, Selector, SelectorError},
};

use super::table::{
    Class, Key, MemberRow,
    tree::{PathNode, Shape},
};

/// The document under a key.
#[derive(Debug, Clone, Default)]
pub struct Document {
    /// What holds for all nodes; `None` if nothing is said of them.
    pub cluster: Option<Strategy>,
    /// What holds for some nodes, in the order in which they are tried.
    pub entries: Vec<Entry>,
}

/// What holds for the nodes of a selector.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    /// Its name; empty if it has none.
    pub name: String,
    /// The nodes, as written; `None` if that is missing.
    pub written_selector: Option<LabelSelector>,
    /// What holds for them.
    pub strategy: Strategy,
}

/// Values by path, such as `beClass.memoryQOS.priority` or `applications[0].name`.
#[derive(Debug, Clone, Default)]
pub struct Strategy(BTreeMap<ValuePath, Given>);

/// Where a value is, below a strategy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ValuePath {
    /// The rank of its row: most values have a row of their own, and no path is compared.
    rank: u16,
    /// Its path, borrowed from the table for all but elements.
    text: Cow<'static, str>,
}

/// A value with the row that declares it.
#[derive(Debug, Clone)]
pub struct Given {
    /// The class that it belongs to, if it does.
    pub class: Option<&'static Class>,
    /// The row.
    pub field: &'static MemberRow,
    /// The value.
    pub content: Content,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any number.
    Number(f64),
    /// A text.
    Text(String),
    /// A quantity.
    Quantity(Quantity),
    /// JSON that nothing is known of.
    Json(String),
}

/// An entry has no selector that can be used.
#[derive(Debug, Clone, PartialEq)]
pub enum EntryError {
    /// It has none, or one without conditions.
    NoSelector,
    /// Kubernetes does not convert it.
    Selector(SelectorError),
}

impl Document {
    /// The value at a path below the key, such as `nodeConfigs[1].bounds.cpu.max`.
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
    /// The nodes that it selects.
    ///
    /// # Errors
    /// The selector is missing, selects all nodes, or is none by Kubernetes' rules.
    pub fn selector(&self) -> Result<Selector, EntryError> {
        let written = self.written_selector.as_ref().ok_or(EntryError::NoSelector)?;
        if written.match_labels.is_empty() && written.match_expressions.is_empty() {
            return Err(EntryError::NoSelector);
        }
        written.to_selector().map_err(EntryError::Selector)
    }
}

impl Strategy {
    /// The value at a path.
    pub fn get(&self, path: &str) -> Option<&Content> {
        let mut values = self.0.iter();
        let found = values.find(|(own, _)| own.text == path);
        found.map(|(_, given)| &given.content)
    }

    /// The value of a row that is in no list or map, of a class if it belongs to one.
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

    /// All values by path: in the order of their rows by path, elements of a list or a map behind each other.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Given)> {
        self.0.iter().map(|(path, given)| (path.text.as_ref(), given))
    }

    /// True if no value is given.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn set(&mut self, rank: u16, path: Cow<'static, str>, given: Given) {
        self.0.insert(ValuePath { rank, text: path }, given);
    }

    /// Drops what is at a place: a value, or everything that is in a container. `element` is the path of the place where
    /// it is in a list or a map.
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
            // No element has elements of its own.
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
    /// The value as a number; `None` if it is none.
    pub fn number(&self) -> Option<f64> {
        match self {
            // Ranges end far below 2^53, where each whole number is a float.
            #[expect(clippy::cast_precision_loss, reason = "compared with small numbers")]
            Self::Int(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            Self::Bool(_) | Self::Text(_) | Self::Quantity(_) | Self::Json(_) => None,
        }
    }
}

impl From<&Content> for Shown {
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
