//! [`FileObjects`]: Pods, ClusterColocationProfiles, PriorityClasses and Namespaces from files.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use headroom_domain::{names, selector::Labels};
use headroom_rules::profile::{KnownProfile, PriorityClass, ProfileList};
use serde_json::Value;

use super::PodError;
use crate::{documents, error::Error};

/// Label that every Namespace has, with its name as the value.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Limit of a value in an error, in characters.
const LONGEST_SHOWN: usize = 64;
/// Limit of kinds that an error names.
const MOST_KINDS: usize = 5;

/// Objects of files that the rules for pods read.
#[derive(Debug, Default)]
pub struct FileObjects {
    pub pods: Vec<Value>,
    pub profiles: ProfileList,
    pub classes: BTreeMap<String, Arc<PriorityClass>>,
    pub namespaces: BTreeMap<String, Arc<Labels>>,
    kinds: BTreeSet<String>,
}

struct FileObject<'f> {
    file: &'f Path,
    kind: String,
    value: Value,
}

impl FileObjects {
    /// Adds the objects of a file; `-` is standard input. Other kinds are ignored.
    ///
    /// # Errors
    /// The file is unreadable, or an object in it is invalid.
    pub fn add(&mut self, file: &Path) -> Result<(), Error> {
        let text = documents::read_text(file)?;
        Ok(self.add_text(file, &text)?)
    }

    /// Adds the objects of a text.
    ///
    /// # Errors
    /// The text is not YAML or JSON, or an object in it is invalid.
    pub fn add_text(&mut self, file: &Path, text: &str) -> Result<(), PodError> {
        let objects = documents::parse::<Value>(text).map_err(|reason| PodError::Syntax {
            file: file.to_owned(),
            reason,
        })?;
        let mut rest: Vec<(Value, String)> = objects
            .into_iter()
            .rev()
            .map(|object| (object, String::new()))
            .collect();
        while let Some((mut value, of_list)) = rest.pop() {
            let written = value.get("kind").and_then(Value::as_str).unwrap_or_default();
            let kind = if written.is_empty() {
                of_list
            } else {
                written.to_owned()
            };
            if let Some(Value::Array(items)) = value.get_mut("items").map(Value::take) {
                // Items of a typed list may omit their kind.
                let kind = kind.strip_suffix("List").unwrap_or_default();
                rest.extend(items.into_iter().rev().map(|item| (item, kind.to_owned())));
            } else if !value.is_null() {
                self.add_object(FileObject { file, kind, value })?;
            }
        }
        Ok(())
    }

    /// Pods of a file.
    ///
    /// # Errors
    /// The file contains no Pod.
    pub fn some_pods(&self, file: &Path) -> Result<&[Value], PodError> {
        if self.pods.is_empty() {
            let mut kinds: Vec<&str> = self.kinds.iter().take(MOST_KINDS).map(String::as_str).collect();
            if kinds.is_empty() {
                kinds.push("nothing");
            }
            return Err(PodError::NoPod {
                file: file.to_owned(),
                found: kinds.join(", "),
            });
        }
        Ok(&self.pods)
    }

    fn add_object(&mut self, object: FileObject<'_>) -> Result<(), PodError> {
        let is_new = match object.kind.as_str() {
            "Pod" => {
                object.check_pod()?;
                self.pods.push(object.value);
                return Ok(());
            }
            "ClusterColocationProfile" => {
                if object.metadata("deletionTimestamp").is_string() {
                    return Ok(());
                }
                let known = Arc::new(object.profile()?);
                self.profiles.insert(object.name()?.into(), known).is_none()
            }
            "PriorityClass" => {
                let class = Arc::new(object.class()?);
                self.classes.insert(object.name()?.to_owned(), class).is_none()
            }
            "Namespace" => {
                let labels = Arc::new(object.namespace_labels()?);
                self.namespaces
                    .insert(object.name()?.to_owned(), labels)
                    .is_none()
            }
            _ => {
                self.kinds.insert(object.words());
                return Ok(());
            }
        };
        self.kinds.insert(object.kind.clone());
        if is_new {
            return Ok(());
        }
        Err(PodError::Repeated {
            file: object.file.to_owned(),
            object: object.words(),
        })
    }
}

impl FileObject<'_> {
    fn metadata(&self, member: &str) -> &Value {
        documents::at(&self.value, &["metadata", member])
    }

    fn name(&self) -> Result<&str, PodError> {
        let name = self.metadata("name");
        let text = name.as_str().filter(|name| !name.is_empty());
        text.ok_or_else(|| self.wrong("metadata.name", name, "a name is required"))
    }

    fn words(&self) -> String {
        let kind = if self.kind.is_empty() {
            "an object without kind"
        } else {
            &self.kind
        };
        match self.metadata("name").as_str() {
            Some(name) => format!("{kind} {name}"),
            None => kind.to_owned(),
        }
    }

    fn wrong(&self, field: &'static str, value: &Value, reason: &str) -> PodError {
        let mut shown: String = value.to_string();
        if let Some((end, _)) = shown.char_indices().nth(LONGEST_SHOWN) {
            shown.truncate(end);
            shown += "...";
        }
        PodError::Field {
            file: self.file.to_owned(),
            object: self.words(),
            field,
            value: shown,
            reason: reason.to_owned(),
        }
    }

    fn texts(&self, member: &str, field: &'static str) -> Result<Labels, PodError> {
        let texts = self.metadata(member);
        let read = serde_json::from_value::<Option<Labels>>(texts.clone());
        let read = read.map_err(|error| self.wrong(field, texts, &error.to_string()))?;
        Ok(read.unwrap_or_default())
    }

    fn check_pod(&self) -> Result<(), PodError> {
        self.texts("labels", "metadata.labels")?;
        let namespace = self.metadata("namespace");
        if namespace.is_null() || namespace.is_string() {
            return Ok(());
        }
        Err(self.wrong("metadata.namespace", namespace, "must be a string"))
    }

    fn profile(&self) -> Result<KnownProfile, PodError> {
        let mut annotations = self.texts("annotations", "metadata.annotations")?;
        let spec = documents::at(&self.value, &["spec"]);
        let spec = if spec.is_null() {
            "{}".to_owned()
        } else {
            spec.to_string()
        };
        Ok(KnownProfile::read(
            &spec,
            annotations.remove(names::SKIP_UPDATE_RESOURCES),
        ))
    }

    fn class(&self) -> Result<PriorityClass, PodError> {
        let value = documents::at(&self.value, &["value"]);
        let number = if value.is_null() { Some(0) } else { value.as_i64() };
        let number = number.and_then(|number| i32::try_from(number).ok());
        let policy = documents::at(&self.value, &["preemptionPolicy"]);
        Ok(PriorityClass {
            value: number.ok_or_else(|| self.wrong("value", value, "must be a 32-bit integer"))?,
            preemption_policy: policy.as_str().map(str::to_owned),
        })
    }

    fn namespace_labels(&self) -> Result<Labels, PodError> {
        let mut labels = self.texts("labels", "metadata.labels")?;
        let name = self.name()?.to_owned();
        labels.entry(NAMESPACE_NAME.to_owned()).or_insert(name);
        Ok(labels)
    }
}
