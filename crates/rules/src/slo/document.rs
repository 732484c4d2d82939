//! What the text under a key says: values by path, for all nodes and for those that an entry selects.

use std::{collections::BTreeMap, fmt};

use headroom_domain::{
    field::Shown,
    quantity::Quantity,
    selector::{LabelSelector, Selector, SelectorError},
};

use super::table::{Class, Key, MemberRow};

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
pub struct Strategy(BTreeMap<String, Given>);

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
        self.0.get(path).map(|given| &given.content)
    }

    /// All values by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Given)> {
        self.0.iter().map(|(path, given)| (path.as_str(), given))
    }

    /// True if no value is given.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn set(&mut self, path: String, given: Given) {
        self.0.insert(path, given);
    }

    /// Drops a value, or everything that is in a container.
    pub(super) fn remove(&mut self, path: &str) {
        self.0.remove(path);
        // A character above all that may follow a container's path: `.` and `[`.
        for (first, end) in [(".", "/"), ("[", "\\")] {
            let range = format!("{path}{first}")..format!("{path}{end}");
            let inside: Vec<String> = self.0.range(range).map(|(path, _)| path.clone()).collect();
            for path in inside {
                self.0.remove(&path);
            }
        }
    }

    /// These values over those of `base`: what both have counts here, and lists are replaced as a whole.
    pub fn over(&self, base: &Self) -> Self {
        let mut merged = base.clone();
        let lists = self
            .0
            .iter()
            .filter(|(_, given)| given.field.member.contains("[]"));
        for (list, _) in lists.filter_map(|(path, _)| path.split_once('[')) {
            merged.remove(list);
        }
        for (path, given) in &self.0 {
            merged.set(path.clone(), given.clone());
        }
        merged
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

#[cfg(test)]
mod tests;
