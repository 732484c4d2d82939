//! Merges the patch of a profile into a pod, and checks the fields that the API server compares with other objects.

use serde_json::Value;

use super::{apply::ClassLookup, error::ApplyError};
use crate::merge::{self, POD, Patch};

/// Fields that no patch may change: identity and kind of the pod, and the overhead, which must equal that of the
/// RuntimeClass.
const FIXED: [&[&str]; 7] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "generateName"],
    &["metadata", "namespace"],
    &["metadata", "resourceVersion"],
    &["spec", "overhead"],
];

/// Fields that must be those of one PriorityClass.
const OF_CLASS: [&str; 3] = ["priorityClassName", "priority", "preemptionPolicy"];

/// Merges a patch into a pod.
pub(super) fn apply(pod: &mut Value, patch: &Patch, class: ClassLookup<'_>) -> Result<(), ApplyError> {
    let fixed = FIXED.map(|path| find(pod, path).cloned());
    let of_class = OF_CLASS.map(|name| find(pod, &["spec", name]).cloned());
    let had_containers = has_containers(pod);
    *pod = merge::merged(pod.take(), patch, &POD)?;
    for (path, before) in FIXED.iter().zip(fixed) {
        if find(pod, path) != before.as_ref() {
            return Err(ApplyError::FixedField(path.join(".")));
        }
    }
    if had_containers && !has_containers(pod) {
        return Err(ApplyError::NoContainers);
    }
    if of_class == OF_CLASS.map(|name| find(pod, &["spec", name]).cloned()) || is_of_one_class(pod, class) {
        Ok(())
    } else {
        Err(ApplyError::Priority)
    }
}

/// Paths of all three fields of a PriorityClass if a patch writes one of them.
pub(super) fn places_of_class(patch: &[Vec<&str>]) -> Vec<Vec<&'static str>> {
    let is_of_class = |place: &Vec<&str>| match place.as_slice() {
        ["spec", name] => OF_CLASS.contains(name),
        _ => false,
    };
    if !patch.iter().any(is_of_class) {
        return Vec::new();
    }
    OF_CLASS.map(|name| vec!["spec", name]).into()
}

/// The value at a path; `null` counts as absent.
fn find<'v>(pod: &'v Value, path: &[&str]) -> Option<&'v Value> {
    let found = path.iter().try_fold(pod, |value, name| value.get(name));
    found.filter(|value| !value.is_null())
}

fn has_containers(pod: &Value) -> bool {
    let containers = find(pod, &["spec", "containers"]).and_then(Value::as_array);
    containers.is_some_and(|containers| !containers.is_empty())
}

fn is_of_one_class(pod: &Value, class: ClassLookup<'_>) -> bool {
    let [name, priority, policy] = OF_CLASS.map(|name| find(pod, &["spec", name]));
    let class = name.and_then(Value::as_str).and_then(class);
    class.is_some_and(|class| {
        priority.and_then(Value::as_i64) == Some(class.value.into())
            && policy.and_then(Value::as_str) == class.preemption_policy.as_deref()
    })
}
