//! [`Manifest`]: objects in a file: YAML with one or several documents, or JSON, also in lists.

use std::path::Path;

use headroom_domain::installation::ConfigMapName;
use headroom_rules::slo::Data;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{SloError, node_list::NodeList};
use crate::{documents, error::Error};

/// Limit of objects that a message names.
const MOST_LISTED: usize = 5;

/// Parts of an object that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ManifestObject {
    kind: Option<String>,
    metadata: Option<ManifestMeta>,
    data: Option<Value>,
    items: Option<Vec<Self>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ManifestMeta {
    name: Option<String>,
    namespace: Option<String>,
    labels: Option<Map<String, Value>>,
}

/// Objects of a file, with lists flattened.
#[derive(Debug)]
pub struct Manifest<'f> {
    file: &'f Path,
    objects: Vec<ManifestObject>,
}

impl<'f> Manifest<'f> {
    /// Reads a file; `-` is standard input.
    ///
    /// # Errors
    /// The file is unreadable, or not YAML or JSON.
    pub fn read(file: &'f Path) -> Result<Self, Error> {
        Ok(Self::parse(file, &documents::read_text(file)?)?)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// The text is not YAML or JSON.
    pub fn parse(file: &'f Path, text: &str) -> Result<Self, SloError> {
        let objects = documents::parse(text).map_err(|reason| SloError::Syntax {
            file: file.to_owned(),
            reason,
        })?;
        let mut all = Vec::new();
        for object in objects {
            add_flat(object, &mut all);
        }
        Ok(Self { file, objects: all })
    }

    /// `data` of the ConfigMap with this name; its namespace may be missing in the file.
    ///
    /// # Errors
    /// The ConfigMap is missing or repeated, or has values that are not strings.
    pub fn config_map(self, wanted: &ConfigMapName) -> Result<Data, SloError> {
        let Self { file, objects } = self;
        let is_wanted = |object: &ManifestObject| {
            let (name, namespace) = object.names();
            object.is_kind("ConfigMap")
                && name == wanted.name.as_str()
                && namespace.is_none_or(|namespace| namespace == wanted.namespace.as_str())
        };
        let found = listed_objects(&objects);
        let mut matching: Vec<ManifestObject> = objects.into_iter().filter(is_wanted).collect();
        let (file, wanted) = (file.to_owned(), wanted.clone());
        match (matching.pop(), matching.len()) {
            (None, _) => Err(SloError::NoConfigMap { file, wanted, found }),
            (Some(object), 0) => data(file.as_path(), object.data),
            (Some(_), more) => Err(SloError::SeveralConfigMaps {
                file,
                wanted,
                count: more + 1,
            }),
        }
    }

    /// Nodes with their labels.
    ///
    /// # Errors
    /// The file contains no Node.
    pub fn nodes(self) -> Result<NodeList, SloError> {
        let Self { file, objects } = self;
        let nodes = objects.iter().filter(|object| object.is_kind("Node"));
        let nodes: NodeList = nodes.map(ManifestObject::labelled).collect();
        if nodes.is_empty() {
            return Err(SloError::NoNodes {
                file: file.to_owned(),
                found: listed_objects(&objects),
            });
        }
        Ok(nodes)
    }
}

/// Adds an object, or the items of a list.
fn add_flat(object: ManifestObject, all: &mut Vec<ManifestObject>) {
    let Some(items) = object.items else {
        all.push(object);
        return;
    };
    // Items of a typed list may omit their kind.
    let kind = object.kind.as_deref().and_then(|kind| kind.strip_suffix("List"));
    let kind = kind.filter(|kind| !kind.is_empty()).map(str::to_owned);
    for mut item in items {
        item.kind = item.kind.or_else(|| kind.clone());
        add_flat(item, all);
    }
}

/// Kinds and names of objects, for a message.
fn listed_objects(objects: &[ManifestObject]) -> String {
    let listed = objects.iter().take(MOST_LISTED).map(|object| {
        let kind = object.kind.as_deref().unwrap_or("an object without kind");
        match object.names() {
            ("", _) => kind.to_owned(),
            (name, None) => format!("{kind} {name}"),
            (name, Some(namespace)) => format!("{kind} {namespace}/{name}"),
        }
    });
    let mut listed: Vec<String> = listed.collect();
    match objects.len().saturating_sub(MOST_LISTED) {
        0 if listed.is_empty() => return "nothing".to_owned(),
        0 => {}
        more => listed.push(format!("{more} more")),
    }
    listed.join(", ")
}

fn data(file: &Path, data: Option<Value>) -> Result<Data, SloError> {
    let not_text = |key: &str| SloError::NotText {
        file: file.to_owned(),
        key: key.to_owned(),
    };
    match data {
        None | Some(Value::Null) => Ok(Data::new()),
        Some(Value::Object(members)) => {
            let texts = members.into_iter().map(|(key, value)| match value {
                Value::String(text) => Ok((key, text)),
                Value::Null => Ok((key, String::new())),
                Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => Err(not_text(&key)),
            });
            texts.collect()
        }
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => Err(not_text("")),
    }
}

impl ManifestObject {
    fn is_kind(&self, kind: &str) -> bool {
        self.kind.as_deref() == Some(kind)
    }

    /// Name, empty if missing, and namespace.
    fn names(&self) -> (&str, Option<&str>) {
        let metadata = self.metadata.as_ref();
        let name = metadata.and_then(|metadata| metadata.name.as_deref());
        let namespace = metadata.and_then(|metadata| metadata.namespace.as_deref());
        (
            name.unwrap_or_default(),
            namespace.filter(|namespace| !namespace.is_empty()),
        )
    }

    fn labelled(&self) -> (String, headroom_domain::selector::Labels) {
        let labels = self
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.labels.as_ref());
        let labels = labels.into_iter().flatten();
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let labels = labels.map(|(key, value)| (key.clone(), text(value)));
        (self.names().0.to_owned(), labels.collect())
    }
}

#[cfg(test)]
mod tests;
