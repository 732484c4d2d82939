//! Strategic merge of a patch into a Pod, or into an object with a pod template, like Kubernetes.
//!
//! ```text
//! text --> Patch: checked once --.
//!                                v
//! object as JSON ------------> merged --> object; unknown members are merged as well, and stay
//! ```
//!
//! Objects merge member by member, `null` removes a member, and lists with a key in [`Schema`] merge element by
//! element; all other lists are replaced. Kubernetes may leave directives and `null` members of a patch in values
//! that it adds, to be ignored by readers; this merge removes them.

mod directive;
mod list;
mod schema;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

pub use self::schema::{POD, RESERVATION, Schema};
use self::{
    directive::Marker,
    schema::{Field, ListRule},
};

/// Maximum nesting of a patch, in levels.
pub const MOST_LEVELS: usize = 64;

/// Maximum number of values in a patch, nested values included. A profile is at most 64 KiB long.
pub const MOST_VALUES: usize = 16_384;

/// Maximum length of a member name in an error, in characters.
const LONGEST_NAME: usize = 63;

/// Patch of bounded size, checked once.
#[derive(Debug, Clone, PartialEq)]
pub struct Patch(Map<String, Value>);

/// Reasons why a patch is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch is not a JSON object.
    #[error("invalid JSON document")]
    NoObject,
    /// The patch has more than [`MOST_LEVELS`] levels.
    #[error("the patch is nested deeper than {MOST_LEVELS} levels")]
    TooDeep,
    /// The patch has more than [`MOST_VALUES`] values.
    #[error("the patch contains more than {MOST_VALUES} values")]
    TooWide,
}

/// Reason why a patch does not apply to an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct MergeError {
    /// Path of the offending value, such as `spec.containers.env`; `patch` for the whole patch.
    path: String,
    problem: MergeProblem,
}

/// Kinds of errors at one path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum MergeProblem {
    #[error("is not an object")]
    NoObject,
    #[error("$patch can only be replace or delete")]
    Marker,
    #[error("{0} needs the name of a list after a slash")]
    NoListName(&'static str),
    #[error("{0} needs lists")]
    NoList(&'static str),
    #[error("$retainKeys does not name {0:?}, which the patch has")]
    NotRetained(String),
    #[error("elements are not of one type")]
    MixedElements,
    #[error("there are no elements to order")]
    NoElements,
    #[error("elements have no key by which they could be merged")]
    NoMergeKey,
    #[error("an element has no {0}")]
    NoKey(&'static str),
    #[error("the order of elements is not that of $setElementOrder")]
    OtherOrder,
}

impl Patch {
    /// Checks the size of a patch.
    ///
    /// # Errors
    /// The content is not an object, or it exceeds [`MOST_LEVELS`] or [`MOST_VALUES`].
    pub fn new(content: Value) -> Result<Self, PatchError> {
        let Value::Object(members) = content else {
            return Err(PatchError::NoObject);
        };
        let mut values = 0;
        for value in members.values() {
            measure(value, 1, &mut values)?;
        }
        Ok(Self(members))
    }

    /// Names of the patch's members inside the object at `path`, without directives.
    pub fn names(&self, path: &[&str]) -> impl Iterator<Item = &str> {
        let mut inside = Some(&self.0);
        for name in path {
            inside = inside
                .and_then(|members| members.get(*name))
                .and_then(Value::as_object);
        }
        let names = inside.into_iter().flat_map(Map::keys).map(String::as_str);
        names.filter(|name| !directive::is_directive(name))
    }

    /// All values that the patch may write, without directives.
    pub fn content(&self) -> Map<String, Value> {
        directive::content(&self.0)
    }

    /// Returns true if the patch removes the member at `path`.
    pub fn removes(&self, path: &[&str]) -> bool {
        let Some((last, parents)) = path.split_last() else {
            return false;
        };
        let mut inside = Some(&self.0);
        for name in parents {
            inside = inside
                .and_then(|members| members.get(*name))
                .and_then(Value::as_object);
        }
        inside.is_some_and(|members| members.get(*last).is_some_and(Value::is_null))
    }

    /// Paths that the patch may write, as one or two member names from the outside in. An empty path is the whole
    /// object.
    pub fn places(&self) -> Vec<Vec<&str>> {
        let Self(members) = self;
        if members.keys().any(|name| directive::is_directive(name)) {
            return vec![Vec::new()];
        }
        let mut places = Vec::new();
        for (name, value) in members {
            let inside = value.as_object().filter(|inside| !inside.is_empty());
            match inside.filter(|inside| !inside.keys().any(|name| directive::is_directive(name))) {
                Some(inside) => places.extend(inside.keys().map(|inner| vec![name.as_str(), inner])),
                None => places.push(vec![name]),
            }
        }
        places
    }
}

/// Number of values in a value, nested values included.
pub fn count_values(value: &Value) -> usize {
    let inside: usize = match value {
        Value::Object(members) => members.values().map(count_values).sum(),
        Value::Array(elements) => elements.iter().map(count_values).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    };
    inside.saturating_add(1)
}

/// Counts the values in a value, up to the allowed maximum.
fn measure(value: &Value, level: usize, values: &mut usize) -> Result<(), PatchError> {
    *values += 1;
    if *values > MOST_VALUES {
        return Err(PatchError::TooWide);
    }
    if level > MOST_LEVELS {
        return Err(PatchError::TooDeep);
    }
    match value {
        Value::Array(elements) => {
            let mut elements = elements.iter();
            elements.try_for_each(|element| measure(element, level + 1, values))
        }
        Value::Object(members) => {
            let mut members = members.values();
            members.try_for_each(|member| measure(member, level + 1, values))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

impl MergeError {
    /// Path of the offending value in the object.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Prepends a member name to the path of the error.
    fn inside(self, name: &str) -> Self {
        let Self { path, problem } = self;
        let name: String = name.chars().take(LONGEST_NAME).collect();
        let path = if path == WHOLE {
            name
        } else {
            format!("{name}.{path}")
        };
        Self { path, problem }
    }
}

/// Path of an error whose position is not known.
const WHOLE: &str = "patch";

impl From<MergeProblem> for MergeError {
    fn from(problem: MergeProblem) -> Self {
        Self {
            path: WHOLE.to_owned(),
            problem,
        }
    }
}

/// Merges the patch into the object and returns the result.
///
/// If the patch both deletes and adds an element of a list of strings, the element stays. Time and memory are linear
/// in the sum of both sizes, except for the logarithm of list lengths.
///
/// # Errors
/// The object is not a JSON object; elements of a merged list lack their key or have several types; or a directive is
/// malformed.
pub fn merged(object: Value, patch: &Patch, schema: &Schema) -> Result<Value, MergeError> {
    let Value::Object(members) = object else {
        return Err(MergeProblem::NoObject.into());
    };
    merged_members(members, &patch.0, schema).map(Value::Object)
}

fn merged_members(
    before: Map<String, Value>,
    patch: &Map<String, Value>,
    schema: &Schema,
) -> Result<Map<String, Value>, MergeError> {
    match directive::marker(patch)? {
        Some(Marker::Replace) => return Ok(directive::cleaned_members(patch)),
        Some(Marker::Delete) => return Ok(Map::new()),
        None => {}
    }
    let mut members = before;
    directive::retain(&mut members, patch)?;
    let ordered = order_lists(&mut members, patch, schema)?;
    for (name, deleted) in patch {
        if let Some(list) = directive::list_name(name, directive::DELETE)? {
            delete_elements(&mut members, list, deleted).map_err(|error| error.inside(list))?;
        }
    }
    let plain = patch.iter().filter(|(name, _)| !directive::is_directive(name));
    for (name, patch) in plain.filter(|(name, _)| !ordered.contains(name.as_str())) {
        let before = members.remove(name);
        let after = merged_member(before, patch, schema.field(name)).map_err(|error| error.inside(name))?;
        if let Some(after) = after {
            members.insert(name.clone(), after);
        }
    }
    Ok(members)
}

/// Merges one member; `None` if it is removed.
fn merged_member(
    before: Option<Value>,
    patch: &Value,
    field: Option<&Field>,
) -> Result<Option<Value>, MergeError> {
    match (before, patch) {
        (_, Value::Null) => Ok(None),
        (Some(Value::Object(before)), Value::Object(patch)) => {
            let schema = field.and_then(Field::schema).unwrap_or(&Schema::OPEN);
            merged_members(before, patch, schema).map(|members| Some(Value::Object(members)))
        }
        (Some(Value::Array(before)), Value::Array(patch)) => {
            let after = match field.and_then(Field::list) {
                Some(rule) => list::merged(before, patch, rule)?,
                None => directive::cleaned_elements(patch),
            };
            Ok(Some(Value::Array(after)))
        }
        (_, patch) => Ok(directive::cleaned(patch)),
    }
}

/// Merges the lists with a `$setElementOrder` directive; returns their names.
fn order_lists<'p>(
    members: &mut Map<String, Value>,
    patch: &'p Map<String, Value>,
    schema: &Schema,
) -> Result<BTreeSet<&'p str>, MergeError> {
    let mut ordered = BTreeSet::new();
    for (name, order) in patch {
        let Some(list) = directive::list_name(name, directive::ORDER)? else {
            continue;
        };
        let rule = schema.field(list).and_then(Field::list);
        let after = ordered_list(members.get(list), patch.get(list), order, rule)
            .map_err(|error| error.inside(list))?;
        if let Some(after) = after {
            members.insert(list.to_owned(), Value::Array(after));
            ordered.insert(list);
        }
    }
    Ok(ordered)
}

/// Returns a list in the order of the patch; `None` if neither the object nor the patch has the list.
fn ordered_list(
    before: Option<&Value>,
    patch: Option<&Value>,
    order: &Value,
    rule: Option<&ListRule>,
) -> Result<Option<Vec<Value>>, MergeError> {
    let elements = |list: Option<&Value>| match list {
        None => Ok(None),
        Some(Value::Array(elements)) => Ok(Some(elements.clone())),
        Some(_) => Err(MergeProblem::NoList(directive::ORDER)),
    };
    let Value::Array(order) = order else {
        return Err(MergeProblem::NoList(directive::ORDER).into());
    };
    let (before, patch) = (elements(before)?, elements(patch)?);
    let key = rule.and_then(|rule| rule.key);
    list::check_order(patch.as_deref().unwrap_or_default(), order, key)?;
    let merged = match (&before, &patch) {
        (None, None) => return Ok(None),
        (Some(before), None) => before.clone(),
        (None, Some(patch)) => directive::cleaned_elements(patch),
        (Some(before), Some(patch)) => match rule {
            Some(rule) => list::merged(before.clone(), patch, rule)?,
            None => directive::cleaned_elements(patch),
        },
    };
    let (before, patch) = (before.unwrap_or_default(), patch.unwrap_or_default());
    list::common_type(&before, &patch)?.ok_or(MergeProblem::NoElements)?;
    let stored = match key {
        Some(key) => list::stored_order(before, &patch, key)?,
        None => list::ranks(&before, None)?,
    };
    list::arranged(merged, &list::ranks(order, key)?, &stored, key).map(Some)
}

/// Removes elements from a list of strings or numbers.
fn delete_elements(members: &mut Map<String, Value>, list: &str, deleted: &Value) -> Result<(), MergeError> {
    match (members.get_mut(list), deleted) {
        (_, Value::Null) => {
            members.remove(list);
        }
        (Some(Value::Array(elements)), Value::Array(deleted)) => {
            if list::common_type(elements, deleted)? == Some(list::ElementType::Object) {
                return Err(MergeProblem::NoList(directive::DELETE).into());
            }
            let deleted = list::ranks(deleted, None)?;
            elements.retain(|element| !deleted.contains_key(&element.to_string()));
        }
        (_, _) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests;
