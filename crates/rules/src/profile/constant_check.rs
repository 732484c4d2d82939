//! Checks the values that a profile writes into every object, as the API server would: a constant mistake is found when
//! the profile is read, and stops no pod.

use std::collections::BTreeMap;

use headroom_domain::{
    field::Path,
    selector::{key_faults, value_faults},
};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::compiled::Effects;
use crate::{
    container::{ContainerList, Containers, Resources},
    merge::{self, MergeError, POD, Patch},
    pod_types::{FieldFault, check_pod, shown},
};

/// Maximum number of values in a patch of pods. A pod with as many again can still be changed.
const MOST_VALUES: usize = 4_096;

/// Mistake in the patch of a profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchFault {
    /// A value in the patch is not accepted by the API server.
    #[error("spec.{0}")]
    Field(FieldFault),
    /// The patch cannot be merged, whatever the pod contains.
    #[error("spec.patch does not apply")]
    Merge(#[from] MergeError),
}

impl From<FieldFault> for PatchFault {
    fn from(fault: FieldFault) -> Self {
        Self::Field(fault)
    }
}

impl Effects {
    /// Checks the keys and values that the effects write.
    pub(super) fn check(&self) -> Result<(), PatchFault> {
        let labels = Path::new("labels");
        for (key, value) in &self.labels {
            check_label(key, value, &labels)?;
        }
        for key in self.annotations.keys() {
            check_annotation_key(key, &Path::new("annotations"))?;
        }
        for key in self.label_keys_mapping.values() {
            check_key(key, &Path::new("labelKeysMapping"))?;
        }
        for key in self.annotation_keys_mapping.values() {
            check_annotation_key(key, &Path::new("annotationKeysMapping"))?;
        }
        self.check_suffixes()?;
        let qos_class = &self.qos_class;
        check_value(qos_class, &Path::new("qosClass"))
    }

    /// A label ends with its suffix, so the suffix must be able to end a value.
    fn check_suffixes(&self) -> Result<(), PatchFault> {
        for (key, suffix) in &self.label_suffixes {
            let path = Path::new("labelSuffixes").key(&shown(key));
            if let Some(faults) = value_faults(&format!("a{suffix}")) {
                let suffix = shown(suffix);
                let reason = format!("no value is valid with the suffix {suffix:?}: {faults}");
                return Err(FieldFault::new(&path, reason).into());
            }
            let is_mapped = self.label_keys_mapping.values().any(|to| to == key);
            let written = self
                .labels
                .get(key)
                .filter(|value| !is_mapped && !value.ends_with(suffix));
            if let Some(value) = written {
                check_value(&format!("{value}{suffix}"), &path)?;
            }
        }
        Ok(())
    }
}

/// Checks the labels and annotations that a patch writes into an object of any kind.
pub(super) fn check_metadata(patch: &Patch) -> Result<(), PatchFault> {
    let content = patch.content();
    let path = Path::new("patch").child("metadata");
    let Some(metadata) = content.get("metadata").and_then(Value::as_object) else {
        return Ok(());
    };
    for (key, value) in texts(metadata, "labels", &path)? {
        check_label(key, value, &path.child("labels"))?;
    }
    for (key, _) in texts(metadata, "annotations", &path)? {
        check_annotation_key(key, &path.child("annotations"))?;
    }
    Ok(())
}

/// Checks a patch of pods.
pub(super) fn check_patch_of_pod(patch: &Patch) -> Result<(), PatchFault> {
    let path = Path::new("patch");
    for names in [&["metadata"][..], &["spec"], &["spec", "containers"]] {
        if patch.removes(names) {
            let path = names.iter().fold(path.clone(), |path, name| path.child(name));
            return Err(FieldFault::new(&path, "a pod cannot be without it").into());
        }
    }
    let content = patch.content();
    check_pod(&content, &path)?;
    let spec_path = path.child("spec");
    if let Some(spec) = content.get("spec") {
        let selector = spec
            .as_object()
            .map(|spec| texts(spec, "nodeSelector", &spec_path));
        for (key, value) in selector.transpose()?.into_iter().flatten() {
            check_label(key, value, &spec_path.child("nodeSelector"))?;
        }
        let containers = Containers::deserialize(spec);
        let containers = containers.map_err(|error| FieldFault::new(&spec_path, error.to_string()))?;
        check_limits(&containers, &spec_path)?;
    }
    let content = Value::Object(content);
    if merge::count_values(&content) > MOST_VALUES {
        let reason = format!("contains more than {MOST_VALUES} values");
        return Err(FieldFault::new(&path, reason).into());
    }
    // A merge with the same lists finds elements without their key, and directives that fit no list.
    merge::merged(content, patch, &POD)?;
    Ok(())
}

/// A request of the patch may not be above the limit that the patch writes next to it.
fn check_limits(containers: &Containers, path: &Path) -> Result<(), PatchFault> {
    for list in ContainerList::ALL {
        for (at, container) in containers.list(list).iter().enumerate() {
            let Resources { requests, limits } = &container.resources;
            let above = requests
                .iter()
                .find(|(name, amount)| limits.get(name).is_some_and(|limit| *amount > limit));
            if let Some((name, amount)) = above {
                let path = path
                    .child(list.name())
                    .index(at)
                    .child("resources")
                    .child("requests");
                let reason = format!("{amount} is above the limit");
                return Err(FieldFault::new(&path.key(&shown(name)), reason).into());
            }
        }
    }
    Ok(())
}

/// Members of a map of strings.
fn texts<'v>(
    members: &'v Map<String, Value>,
    name: &str,
    path: &Path,
) -> Result<BTreeMap<&'v str, &'v str>, PatchFault> {
    let path = path.child(name);
    let wrong = |path: &Path, value: &Value, expected: &str| {
        let value = shown(&value.to_string());
        PatchFault::from(FieldFault::new(path, format!("{value} is not {expected}")))
    };
    let texts = match members.get(name) {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(texts)) => texts,
        Some(other) => return Err(wrong(&path, other, "an object")),
    };
    let texts = texts.iter().map(|(key, value)| match value.as_str() {
        Some(text) => Ok((key.as_str(), text)),
        None => Err(wrong(&path.key(&shown(key)), value, "a string")),
    });
    texts.collect()
}

fn check_label(key: &str, value: &str, path: &Path) -> Result<(), PatchFault> {
    check_key(key, path)?;
    check_value(value, &path.key(&shown(key)))
}

fn check_key(key: &str, path: &Path) -> Result<(), PatchFault> {
    match key_faults(key) {
        None => Ok(()),
        Some(faults) => {
            let key = shown(key);
            Err(FieldFault::new(path, format!("key {key:?}: {faults}")).into())
        }
    }
}

/// The key of an annotation may have capital letters in its domain.
fn check_annotation_key(key: &str, path: &Path) -> Result<(), PatchFault> {
    check_key(&key.to_lowercase(), path)
}

fn check_value(value: &str, path: &Path) -> Result<(), PatchFault> {
    match value_faults(value) {
        None => Ok(()),
        Some(faults) => {
            let value = shown(value);
            Err(FieldFault::new(path, format!("{value:?}: {faults}")).into())
        }
    }
}
