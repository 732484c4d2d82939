//! Directives in a patch: members that control the merge and are not part of the object.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::MergeProblem;

/// Directive for an object or for an element of a list: replace or delete.
const MARKER: &str = "$patch";
/// Directive with the members that an object keeps.
const RETAIN: &str = "$retainKeys";
/// Prefix of the member with the order of a list.
pub(super) const ORDER: &str = "$setElementOrder";
/// Prefix of the member with the elements to remove from a list.
pub(super) const DELETE: &str = "$deleteFromPrimitiveList";

/// Values of the `$patch` directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marker {
    /// The patch replaces the existing value.
    Replace,
    /// The existing value is removed.
    Delete,
}

/// Returns the `$patch` directive of an object, if it has one.
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

/// Returns the `$patch` value of an element as written, valid or not.
pub(super) fn written_marker(element: &Value) -> Option<&Value> {
    element.as_object()?.get(MARKER)
}

/// Returns true if a member is a directive.
pub(super) fn is_directive(name: &str) -> bool {
    name == MARKER || name == RETAIN || name.starts_with(ORDER) || name.starts_with(DELETE)
}

/// Returns the list that a directive applies to; `None` if the member is not this directive.
pub(super) fn list_name<'n>(name: &'n str, prefix: &'static str) -> Result<Option<&'n str>, MergeProblem> {
    let Some(rest) = name.strip_prefix(prefix) else {
        return Ok(None);
    };
    let list = rest.strip_prefix('/');
    list.map(Some).ok_or(MergeProblem::NoListName(prefix))
}

/// Removes the members that `$retainKeys` does not list, if the patch has it.
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

/// Returns the value that a patch adds where none exists, without directives; `None` for an object with a `$patch`
/// directive.
pub(super) fn cleaned(patch: &Value) -> Option<Value> {
    match patch {
        Value::Object(members) if members.contains_key(MARKER) => None,
        Value::Object(members) => Some(Value::Object(cleaned_members(members))),
        Value::Array(elements) => Some(Value::Array(cleaned_elements(elements))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(patch.clone()),
    }
}

/// Members of a patch without directives and `null`, also inside objects with a `$patch` directive.
pub(super) fn content(patch: &Map<String, Value>) -> Map<String, Value> {
    let members = patch
        .iter()
        .filter(|(name, value)| !value.is_null() && !is_directive(name));
    members
        .map(|(name, value)| (name.clone(), content_of(value)))
        .collect()
}

fn content_of(patch: &Value) -> Value {
    match patch {
        Value::Object(members) => Value::Object(content(members)),
        Value::Array(elements) => elements.iter().map(content_of).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => patch.clone(),
    }
}

/// Elements of a list that a patch adds, without directives.
pub(super) fn cleaned_elements(patch: &[Value]) -> Vec<Value> {
    patch.iter().filter_map(cleaned).collect()
}

/// Members of an object that a patch adds, without directives.
pub(super) fn cleaned_members(patch: &Map<String, Value>) -> Map<String, Value> {
    let members = patch
        .iter()
        .filter(|(name, value)| !value.is_null() && !is_directive(name));
    members
        .filter_map(|(name, value)| Some((name.clone(), cleaned(value)?)))
        .collect()
}
