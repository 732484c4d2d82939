//! Objects in files: YAML with one or several documents, or JSON, with or without a list around them.

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

use headroom_domain::installation::ConfigMapName;
use headroom_rules::slo::Data;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{SloError, node_list::NodeList};
use crate::error::Error;

/// The name that stands for standard input.
const STANDARD_INPUT: &str = "-";
/// How many kinds and names a message lists.
const MOST_LISTED: usize = 5;
/// How many values a file may have: 5,000 nodes as kubectl prints them have two million.
const MOST_VALUES: usize = 100_000_000;

/// An object of a file with the parts that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ManifestObject {
    kind: Option<String>,
    metadata: Option<ManifestMeta>,
    data: Option<Value>,
    items: Option<Vec<Self>>,
}

/// Its metadata.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ManifestMeta {
    name: Option<String>,
    namespace: Option<String>,
    labels: Option<Map<String, Value>>,
}

/// The objects of a file, those of lists one by one.
#[derive(Debug)]
pub struct Manifest<'f> {
    file: &'f Path,
    objects: Vec<ManifestObject>,
}

impl<'f> Manifest<'f> {
    /// Reads a file; `-` is standard input.
    ///
    /// # Errors
    /// It cannot be read, or is neither YAML nor JSON.
    pub fn read(file: &'f Path) -> Result<Self, Error> {
        let text = if file == Path::new(STANDARD_INPUT) {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map(|_bytes| text)
        } else {
            fs::read_to_string(file)
        };
        let text = text.map_err(|source| Error::Read {
            path: file.to_owned(),
            source,
        })?;
        Ok(Self::parse(file, &text)?)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// It is neither YAML nor JSON.
    pub fn parse(file: &'f Path, text: &str) -> Result<Self, SloError> {
        let objects = objects(text).map_err(|reason| SloError::Syntax {
            file: file.to_owned(),
            reason,
        })?;
        let mut all = Vec::new();
        for object in objects {
            add_flat(object, &mut all);
        }
        Ok(Self { file, objects: all })
    }

    /// The texts of the ConfigMap of that name, which may lack its namespace.
    ///
    /// # Errors
    /// It is not there, or more than once, or has values that are no texts.
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

    /// The nodes.
    ///
    /// # Errors
    /// There is none.
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

/// All documents of a text.
fn objects(text: &str) -> Result<Vec<ManifestObject>, String> {
    let json_error = if text.trim_start().starts_with('{') {
        let documents = serde_json::Deserializer::from_str(text).into_iter::<ManifestObject>();
        match documents.collect::<Result<Vec<_>, _>>() {
            Ok(objects) => return Ok(objects),
            Err(error) => Some(error.to_string()),
        }
    } else {
        None
    };
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_events: MOST_VALUES,
            max_nodes: MOST_VALUES,
            max_total_scalar_bytes: usize::MAX,
            max_documents: MOST_VALUES,
        },
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        json_error.unwrap_or_else(|| error.render_with_formatter(&serde_saphyr::UserMessageFormatter))
    })
}

/// Adds an object, or those that it lists.
fn add_flat(object: ManifestObject, all: &mut Vec<ManifestObject>) {
    let Some(items) = object.items else {
        all.push(object);
        return;
    };
    // Objects in a list of one kind need not say it.
    let kind = object.kind.as_deref().and_then(|kind| kind.strip_suffix("List"));
    let kind = kind.filter(|kind| !kind.is_empty()).map(str::to_owned);
    for mut item in items {
        item.kind = item.kind.or_else(|| kind.clone());
        add_flat(item, all);
    }
}

/// The objects in words.
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

    /// Its name, empty if it has none, and its namespace.
    fn names(&self) -> (&str, Option<&str>) {
        let metadata = self.metadata.as_ref();
        let name = metadata.and_then(|metadata| metadata.name.as_deref());
        let namespace = metadata.and_then(|metadata| metadata.namespace.as_deref());
        (
            name.unwrap_or_default(),
            namespace.filter(|namespace| !namespace.is_empty()),
        )
    }

    /// Its name with its labels.
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
