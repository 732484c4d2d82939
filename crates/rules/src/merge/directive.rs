//! Directives in a patch: members that say how to merge, and are none of the object.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::MergeProblem;

/// Says what becomes of an object, or of an element of a list.
const MARKER: &str = "$patch";
/// Lists the members that an object keeps.
const RETAIN: &str = "$retainKeys";
/// Begins the name of a member that has the order of a list.
pub(super) const ORDER: &str = "$setElementOrder";
/// Begins the name of a member that has elements to take out of a list.
pub(super) const DELETE: &str = "$deleteFromPrimitiveList";

/// What a marker says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marker {
    /// The patch takes the place of what is there.
    Replace,
    /// What is there goes.
    Delete,
}

/// The marker of an object.
pub(super) fn marker(patch: &Map<String, Value>) -> Result<Option<Marker>, MergeProblem> {
    let Some(marker) = patch.get(MARKER) else {
        return Ok(None);
    };
    match marker.as_str() {
        Some("replace") => Ok(Some(Marker::Replace)),
        Some("delete") => Ok(Some(Marker::Delete)),
        Some(_) | None => Err(MergeProblem::Marker),
    }
}

/// The marker of an element as it is written, whatever it says.
pub(super) fn written_marker(element: &Value) -> Option<&Value> {
    element.as_object()?.get(MARKER)
}

/// True if a member is no part of the object.
pub(super) fn is_directive(name: &str) -> bool {
    name == MARKER || name == RETAIN || name.starts_with(ORDER) || name.starts_with(DELETE)
}

/// The list that a directive is for; `None` if the member is another.
pub(super) fn list_name<'n>(name: &'n str, prefix: &'static str) -> Result<Option<&'n str>, MergeProblem> {
    let Some(rest) = name.strip_prefix(prefix) else {
        return Ok(None);
    };
    let list = rest.strip_prefix('/');
    list.map(Some).ok_or(MergeProblem::NoListName(prefix))
}

/// Drops the members that the patch does not list, if it lists any.
pub(super) fn retain(
    members: &mut Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<(), MergeProblem> {
    let Some(retained) = patch.get(RETAIN) else {
        return Ok(());
    };
    let Value::Array(retained) = retained else {
        return Err(MergeProblem::NoList(RETAIN));
    };
    let retained: BTreeSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let mut written = patch
        .iter()
        .filter(|(name, value)| !value.is_null() && !is_directive(name));
    if let Some((name, _)) = written.find(|(name, _)| !retained.contains(name.as_str())) {
        let name = name.chars().take(super::LONGEST_NAME).collect();
        return Err(MergeProblem::NotRetained(name));
    }
    members.retain(|name, _| retained.contains(name.as_str()));
    Ok(())
}

/// What a patch adds where nothing is; `None` if that is nothing: an object with a marker.
pub(super) fn cleaned(patch: &Value) -> Option<Value> {
    match patch {
        Value::Object(members) if members.contains_key(MARKER) => None,
        Value::Object(members) => Some(Value::Object(cleaned_members(members))),
        Value::Array(elements) => Some(Value::Array(cleaned_elements(elements))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(patch.clone()),
    }
}

/// The elements of a list that a patch adds.
pub(super) fn cleaned_elements(patch: &[Value]) -> Vec<Value> {
    patch.iter().filter_map(cleaned).collect()
}

/// The members of an object that a patch adds, whatever its marker.
pub(super) fn cleaned_members(patch: &Map<String, Value>) -> Map<String, Value> {
    let members = patch
        .iter()
        .filter(|(name, value)| !value.is_null() && !is_directive(name));
    members
        .filter_map(|(name, value)| Some((name.clone(), cleaned(value)?)))
        .collect()
}
