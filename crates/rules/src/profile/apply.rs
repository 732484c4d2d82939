//! Applies one profile to an object, in this order: labels, annotations, key mappings, suffixes, scheduler, QoS,
//! priority and patch. Later writes win.

use std::{collections::BTreeMap, sync::Arc};

use headroom_domain::{names, selector::value_faults};
use serde_json::{Map, Value};

use super::{
    Profile, SKIPS_MISSING_SOURCES, SUFFIXES_ONCE,
    compiled::Effects,
    error::{ApplyError, LONGEST_VALUE, MOST_COPIED},
    pod_patch,
    target::{ProfileTarget, member, patch_reservation},
};
use crate::{merge::Patch, pod_types::shown, switch::Switches};

/// Fields of a PriorityClass that its pods get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriorityClass {
    /// Priority of the pods, as a number.
    pub value: i32,
    /// Preemption policy of the pods; `None` if the class has none.
    pub preemption_policy: Option<String>,
}

/// Returns a PriorityClass by its name, if it is known.
pub type ClassLookup<'a> = &'a dyn Fn(&str) -> Option<Arc<PriorityClass>>;

impl Profile {
    /// Applies the profile. After an error the object may be partly changed and must be dropped.
    ///
    /// # Errors
    /// The class is not known, a label becomes invalid, or the patch does not apply.
    pub fn apply(
        &self,
        object: &mut Value,
        target: ProfileTarget,
        class: ClassLookup<'_>,
        switches: &Switches,
    ) -> Result<(), ApplyError> {
        self.effects.write_labels(object, switches)?;
        self.effects.write_annotations(object, switches)?;
        let own = self.priority_class_name().and_then(class);
        self.effects.write_spec(object, target, own.as_deref())?;
        match &self.patch {
            Some(patch) if target == ProfileTarget::Pod => pod_patch::apply(object, patch, class),
            Some(patch) => patch_reservation(object, patch, switches),
            None => Ok(()),
        }
    }

    /// Paths in the object that applying the profile reads or writes, as member names from the outside in. The list
    /// is sorted: a path follows the paths that enclose it.
    pub fn places(&self, target: ProfileTarget) -> &[Vec<String>] {
        match target {
            ProfileTarget::Pod => &self.pod_places,
            // The path of its pod depends on its content.
            ProfileTarget::Reservation => const { &[Vec::new()] },
        }
    }

    /// Sorted paths in a Pod.
    pub(super) fn find_pod_places(&self) -> Vec<Vec<String>> {
        let patch = self.patch.as_ref().map(Patch::places);
        let own = self.effects.places().into_iter().map(Vec::from);
        let patch: Vec<Vec<&str>> = patch.into_iter().flatten().collect();
        let classes = pod_patch::places_of_class(&patch);
        let places = own.chain(classes).chain(patch.iter().cloned());
        let owned = |place: Vec<&str>| place.into_iter().map(str::to_owned).collect();
        let mut places: Vec<Vec<String>> = places.map(owned).collect();
        places.sort_unstable();
        places
    }

    /// First member of the patch that is not written to this kind of object.
    pub fn left_out(&self, target: ProfileTarget, switches: &Switches) -> Option<String> {
        target.left_out(self.patch.as_ref()?, switches)
    }
}

impl Effects {
    /// Paths in a Pod that the effects write.
    fn places(&self) -> Vec<[&'static str; 2]> {
        let mut places = Vec::new();
        let writes_labels = !(self.labels.is_empty()
            && self.label_keys_mapping.is_empty()
            && self.label_suffixes.is_empty()
            && self.qos_class.is_empty()
            && self.koordinator_priority.is_none());
        if writes_labels {
            places.push(["metadata", "labels"]);
        }
        if !(self.annotations.is_empty() && self.annotation_keys_mapping.is_empty()) {
            places.push(["metadata", "annotations"]);
        }
        if !self.scheduler_name.is_empty() {
            places.push(["spec", "schedulerName"]);
        }
        if !self.priority_class_name.is_empty() {
            places.extend(["priorityClassName", "priority", "preemptionPolicy"].map(|name| ["spec", name]));
        }
        places
    }

    fn write_labels(&self, object: &mut Value, switches: &Switches) -> Result<(), ApplyError> {
        let mut written: BTreeMap<&str, String> = BTreeMap::new();
        let priority = self.koordinator_priority.map(|priority| priority.to_string());
        let qos = Some(&self.qos_class).filter(|class| !class.is_empty());
        written.extend(qos.map(|class| (names::QOS_CLASS, class.clone())));
        written.extend(priority.map(|priority| (names::SUB_PRIORITY, priority)));
        let changes_none =
            self.labels.is_empty() && self.label_keys_mapping.is_empty() && self.label_suffixes.is_empty();
        if changes_none && written.is_empty() {
            return Ok(());
        }
        change_texts(object, "labels", "metadata.labels", |labels| {
            set(labels, &self.labels);
            map_keys(labels, "metadata.labels", &self.label_keys_mapping, switches)?;
            add_suffixes(labels, &self.label_suffixes, switches)?;
            labels.extend(
                written
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value.into())),
            );
            Ok(())
        })
    }

    fn write_annotations(&self, object: &mut Value, switches: &Switches) -> Result<(), ApplyError> {
        if self.annotations.is_empty() && self.annotation_keys_mapping.is_empty() {
            return Ok(());
        }
        change_texts(object, "annotations", "metadata.annotations", |annotations| {
            set(annotations, &self.annotations);
            map_keys(
                annotations,
                "metadata.annotations",
                &self.annotation_keys_mapping,
                switches,
            )
        })
    }

    /// Writes the scheduler and the three fields of a PriorityClass together: the API server checks their
    /// consistency.
    fn write_spec(
        &self,
        object: &mut Value,
        target: ProfileTarget,
        class: Option<&PriorityClass>,
    ) -> Result<(), ApplyError> {
        if !self.writes_spec() {
            return Ok(());
        }
        let Some(spec) = target.pod_spec(object)? else {
            return Ok(());
        };
        if !self.scheduler_name.is_empty() {
            spec.insert("schedulerName".to_owned(), self.scheduler_name.clone().into());
        }
        if self.priority_class_name.is_empty() {
            return Ok(());
        }
        let name = &self.priority_class_name;
        let class = class.ok_or_else(|| ApplyError::UnknownClass(name.clone()))?;
        let PriorityClass {
            value,
            preemption_policy,
        } = class;
        spec.insert("priorityClassName".to_owned(), name.clone().into());
        spec.insert("priority".to_owned(), (*value).into());
        match preemption_policy {
            Some(policy) => spec.insert("preemptionPolicy".to_owned(), policy.clone().into()),
            None => spec.remove("preemptionPolicy"),
        };
        Ok(())
    }
}

/// Changes labels or annotations; an absent map is created only if it gets entries.
fn change_texts(
    object: &mut Value,
    name: &str,
    path: &'static str,
    change: impl FnOnce(&mut Map<String, Value>) -> Result<(), ApplyError>,
) -> Result<(), ApplyError> {
    let members = object.as_object_mut().ok_or(ApplyError::NoObject("the object"))?;
    let metadata = member(members, "metadata", "metadata")?;
    let has_some = metadata.get(name).is_some_and(|value| !value.is_null());
    let texts = member(metadata, name, path)?;
    change(texts)?;
    if texts.is_empty() && !has_some {
        metadata.remove(name);
    }
    Ok(())
}

/// Adds suffixes to existing labels.
fn add_suffixes(
    labels: &mut Map<String, Value>,
    suffixes: &BTreeMap<String, String>,
    switches: &Switches,
) -> Result<(), ApplyError> {
    let is_once = switches.is_on(&SUFFIXES_ONCE);
    for (key, suffix) in suffixes {
        let Some(Value::String(value)) = labels.get_mut(key) else {
            continue;
        };
        if !(is_once && value.ends_with(suffix)) {
            value.push_str(suffix);
        }
        if value.len() > LONGEST_VALUE {
            return Err(ApplyError::LongLabel(shown(key)));
        }
        if let Some(faults) = value_faults(value) {
            return Err(ApplyError::InvalidLabel {
                key: shown(key),
                value: value.clone(),
                faults,
            });
        }
    }
    Ok(())
}

fn set(members: &mut Map<String, Value>, texts: &BTreeMap<String, String>) {
    for (key, text) in texts {
        members.insert(key.clone(), text.clone().into());
    }
}

/// Copies values to other keys. All values are read before the first is written, so the order of chained mappings
/// does not matter.
fn map_keys(
    members: &mut Map<String, Value>,
    path: &'static str,
    mapping: &BTreeMap<String, String>,
    switches: &Switches,
) -> Result<(), ApplyError> {
    let skips_missing = switches.is_on(&SKIPS_MISSING_SOURCES);
    let (mut read, mut copied) = (Vec::new(), 0_usize);
    for (from, to) in mapping {
        let text = match members.get(from) {
            Some(Value::String(text)) => text.as_str(),
            // Labels and annotations must be strings; the API server refuses other types.
            Some(_) => continue,
            None if skips_missing => continue,
            None => "",
        };
        copied = copied.saturating_add(text.len());
        if copied > MOST_COPIED {
            return Err(ApplyError::LargeMapping(path));
        }
        read.push((to.clone(), Value::from(text)));
    }
    members.extend(read);
    Ok(())
}
