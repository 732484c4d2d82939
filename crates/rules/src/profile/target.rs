//! [`ProfileTarget`]: the kind of object that a profile is applied to, and the path of its pod.

use serde_json::{Map, Value, json};

use super::{RESERVATION_PATCH_PARTS, error::ApplyError};
use crate::{
    merge::{self, Patch, RESERVATION},
    reservation,
    switch::Switches,
};

/// The kind of object that a profile is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileTarget {
    /// A Pod, whose specification is changed directly.
    Pod,
    /// Koordinator's Reservation: labels and annotations are its own, the pod is its template.
    Reservation,
}

/// Members of a Reservation's metadata that a patch may write.
const PATCHED_METADATA: [&str; 2] = ["labels", "annotations"];

impl ProfileTarget {
    /// An object without content of its own, which only values of profiles can spoil.
    pub(super) fn blank(self) -> Value {
        // No patch names this container: names begin with a letter or a digit.
        let pod = json!({"metadata": {}, "spec": {"containers": [{"name": "-"}]}});
        match self {
            Self::Pod => pod,
            Self::Reservation => json!({"metadata": {}, "spec": {"template": pod}}),
        }
    }

    /// Returns the pod's specification, created if absent; `None` if a Reservation has no template.
    pub(super) fn pod_spec(self, object: &mut Value) -> Result<Option<&mut Map<String, Value>>, ApplyError> {
        let members = object.as_object_mut().ok_or(ApplyError::NoObject("the object"))?;
        match self {
            Self::Pod => member(members, "spec", "spec").map(Some),
            Self::Reservation => {
                let spec = member(members, "spec", "spec")?;
                match spec.get_mut("template") {
                    None | Some(Value::Null) => Ok(None),
                    Some(Value::Object(template)) => member(template, "spec", "spec.template.spec").map(Some),
                    Some(_) => Err(ApplyError::NoObject("spec.template")),
                }
            }
        }
    }

    /// Returns the first member of the patch that may not be written to this kind of object.
    pub(super) fn left_out(self, patch: &Patch, switches: &Switches) -> Option<String> {
        if self == Self::Pod || !switches.is_on(&RESERVATION_PATCH_PARTS) {
            return None;
        }
        let mut names = patch.names(&[]);
        let outside = names.find(|name| !["metadata", "spec"].contains(name));
        let mut metadata = patch.names(&["metadata"]);
        let in_metadata = metadata.find(|name| !PATCHED_METADATA.contains(name));
        let in_metadata = in_metadata.map(|name| format!("metadata.{name}"));
        in_metadata.or_else(|| outside.map(str::to_owned))
    }
}

/// Merges the patch of a profile into a Reservation. An error if the patch makes it unreadable.
pub(super) fn patch_reservation(
    object: &mut Value,
    patch: &Patch,
    switches: &Switches,
) -> Result<(), ApplyError> {
    let was_readable = check(object).is_ok();
    if switches.is_on(&RESERVATION_PATCH_PARTS) {
        patch_parts(object, patch)?;
    } else {
        *object = merge::merged(object.take(), patch, &RESERVATION)?;
    }
    // A Reservation that was unreadable before is not the fault of the patch.
    check(object).or_else(|error| if was_readable { Err(error) } else { Ok(()) })
}

/// Checks that a Reservation can be read.
fn check(reservation: &Value) -> Result<(), ApplyError> {
    let spec = reservation.get("spec").unwrap_or(&Value::Null);
    reservation::check_types(spec)?;
    let values = reservation::check_values(spec);
    values.into_result().map_err(ApplyError::Values)
}

/// Merges a patch into labels, annotations and specification only.
fn patch_parts(object: &mut Value, patch: &Patch) -> Result<(), ApplyError> {
    let members = object.as_object_mut().ok_or(ApplyError::NoObject("the object"))?;
    let mut handed = Map::new();
    let mut parts = Map::new();
    if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
        move_members(metadata, &PATCHED_METADATA, &mut parts);
    }
    move_members(members, &["spec"], &mut handed);
    handed.insert("metadata".to_owned(), Value::Object(parts));
    let mut merged = merge::merged(Value::Object(handed), patch, &RESERVATION)?;
    let merged = merged.as_object_mut().ok_or(ApplyError::NoObject("the object"))?;
    move_members(merged, &["spec"], members);
    match merged.get_mut("metadata") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Object(parts)) => {
            if PATCHED_METADATA.iter().any(|name| parts.contains_key(*name)) {
                move_members(parts, &PATCHED_METADATA, member(members, "metadata", "metadata")?);
            }
            Ok(())
        }
        Some(_) => Err(ApplyError::NoObject("metadata")),
    }
}

/// Moves the members with these names, if they exist.
fn move_members(from: &mut Map<String, Value>, names: &[&str], to: &mut Map<String, Value>) {
    for name in names {
        if let Some(value) = from.remove(*name) {
            to.insert((*name).to_owned(), value);
        }
    }
}

/// Returns the object in a member, created if it is absent or `null`.
pub(super) fn member<'v>(
    members: &'v mut Map<String, Value>,
    name: &str,
    path: &'static str,
) -> Result<&'v mut Map<String, Value>, ApplyError> {
    let value = members.entry(name).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().ok_or(ApplyError::NoObject(path))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::{
        profile::{Profile, ProfileMatch, RESERVATION_NAMESPACES},
        switch::Compat,
    };

    fn switches(compat: Compat) -> Switches {
        Switches::preset([&RESERVATION_PATCH_PARTS, &RESERVATION_NAMESPACES], compat)
    }

    fn patch(patch: &Value) -> Profile {
        Profile::compile(&json!({"patch": patch}).to_string()).unwrap()
    }

    fn patched(content: &Value, reservation: &Value, compat: Compat) -> Result<Value, ApplyError> {
        let mut reservation = reservation.clone();
        let applied = patch(content).apply(
            &mut reservation,
            ProfileTarget::Reservation,
            &|_| None,
            &switches(compat),
        );
        applied.map(|()| reservation)
    }

    fn reservation() -> Value {
        json!({
            "kind": "Reservation", "metadata": {"name": "r", "labels": {"app": "a"}, "finalizers": ["f"]},
            "spec": {"ttl": "24h", "taints": [{"key": "k"}]}, "status": {"phase": "Pending"},
        })
    }

    /// The parts that remain if a patch removes as much as it can.
    #[rstest]
    #[case::all(json!({"$patch": "delete"}), json!({"kind": "Reservation", "metadata": {"name": "r", "finalizers": ["f"]}, "status": {"phase": "Pending"}}))]
    #[case::metadata(json!({"metadata": null}), json!({"kind": "Reservation", "metadata": {"name": "r", "finalizers": ["f"]}, "spec": {"ttl": "24h", "taints": [{"key": "k"}]}, "status": {"phase": "Pending"}}))]
    #[case::replaced(json!({"metadata": {"$patch": "replace", "name": "x", "annotations": {"a": "1"}}}), json!({"kind": "Reservation", "metadata": {"name": "r", "annotations": {"a": "1"}, "finalizers": ["f"]}, "spec": {"ttl": "24h", "taints": [{"key": "k"}]}, "status": {"phase": "Pending"}}))]
    #[case::kind(json!({"kind": "Pod", "status": null, "metadata": {"finalizers": ["g"]}}), reservation())]
    fn a_patch_writes_labels_annotations_and_spec(#[case] content: Value, #[case] after: Value) {
        let patched = patched(&content, &reservation(), Compat::Headroom);
        assert_eq!(patched, Ok(after));
    }

    #[rstest]
    #[case(json!({"metadata": {"labels": {"a": "1"}}, "spec": {"ttl": "1h"}}), None)]
    #[case(json!({"metadata": {"labels": {"a": "1"}, "name": "x"}, "status": {}}), Some("metadata.name"))]
    #[case(json!({"$patch": "replace", "status": {}}), Some("status"))]
    fn forbidden_members_of_a_patch_are_reported(#[case] content: Value, #[case] member: Option<&str>) {
        let profile = patch(&content);
        let told = |target, compat| profile.left_out(target, &switches(compat));
        assert_eq!(
            told(ProfileTarget::Reservation, Compat::Headroom).as_deref(),
            member
        );
        assert_eq!(told(ProfileTarget::Reservation, Compat::Upstream), None);
        assert_eq!(told(ProfileTarget::Pod, Compat::Headroom), None);
    }

    #[test]
    fn only_a_patch_that_breaks_a_readable_reservation_is_an_error() {
        let (unreadable, other) = (
            json!({"spec": {"allocateOnce": 1}}),
            json!({"spec": {"ttl": "1h"}}),
        );
        for compat in [Compat::Headroom, Compat::Upstream] {
            let error = patched(&unreadable, &reservation(), compat).unwrap_err();
            assert!(matches!(error, ApplyError::Type(_)), "{error}");
            let mut found = reservation();
            found["spec"]["allocateOnce"] = json!(1);
            assert_eq!(patched(&other, &found, compat).unwrap()["spec"]["ttl"], "1h");
        }
    }

    #[test]
    fn values_that_are_not_objects_are_errors() {
        for (content, reservation, path) in [
            (json!({"metadata": "x"}), reservation(), "metadata"),
            (
                json!({"metadata": {"labels": {"a": "1"}}}),
                json!({"metadata": 1}),
                "metadata",
            ),
        ] {
            assert_eq!(
                patched(&content, &reservation, Compat::Headroom),
                Err(ApplyError::NoObject(path))
            );
        }
        let profile = Profile::compile(r#"{"schedulerName": "s"}"#).unwrap();
        for (spec, path) in [
            (json!(1), "spec"),
            (json!({"template": 1}), "spec.template"),
            (json!({"template": {"spec": 1}}), "spec.template.spec"),
        ] {
            let mut reservation = json!({"spec": spec});
            let applied = profile.apply(
                &mut reservation,
                ProfileTarget::Reservation,
                &|_| None,
                &Switches::default(),
            );
            assert_eq!(applied, Err(ApplyError::NoObject(path)));
        }
    }

    #[rstest]
    #[case::labels(json!({"selector": {"matchLabels": {"app": "a"}}, "namespaceSelector": {"matchLabels": {"n": "1"}}}), [ProfileMatch::Matches; 2])]
    #[case::other_labels(json!({"selector": {"matchLabels": {"app": "b"}}}), [ProfileMatch::OtherLabels; 2])]
    #[case::namespaces(json!({"selector": {}, "namespaceSelector": {"matchLabels": {"n": "1"}}}), [ProfileMatch::OtherNamespace, ProfileMatch::Matches])]
    #[case::all(json!({"namespaceSelector": {}}), [ProfileMatch::Matches; 2])]
    fn only_labels_select_reservations(#[case] spec: Value, #[case] expected: [ProfileMatch; 2]) {
        let profile = Profile::compile(&spec.to_string()).unwrap();
        let labels = serde_json::from_value(json!({"app": "a"})).unwrap();
        let found = [Compat::Headroom, Compat::Upstream]
            .map(|compat| profile.matches_reservation(&labels, &switches(compat)));
        assert_eq!(found, expected);
    }
}
