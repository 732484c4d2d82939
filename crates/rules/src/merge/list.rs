//! Merges lists element by element, and orders them.
//!
//! Elements are identified by one key, or by their value if they are strings or numbers. Of several elements with the
//! same key, the first is merged.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    MergeError, MergeProblem,
    directive::{self, Marker},
    merged_members,
    schema::ListRule,
};

/// The JSON type of all elements of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementType {
    Object,
    Text,
    Integer,
    Float,
    Bool,
}

/// Indexes of elements in a list, by their identity.
pub(super) type Ranks = BTreeMap<String, usize>;

/// Returns the type of the elements of two lists; `None` if both are empty.
pub(super) fn common_type(one: &[Value], other: &[Value]) -> Result<Option<ElementType>, MergeProblem> {
    let mut common = None;
    for element in one.iter().chain(other) {
        let found = match element {
            Value::Object(_) => ElementType::Object,
            Value::String(_) => ElementType::Text,
            Value::Number(number) if number.is_f64() => ElementType::Float,
            Value::Number(_) => ElementType::Integer,
            Value::Bool(_) => ElementType::Bool,
            Value::Null | Value::Array(_) => return Err(MergeProblem::MixedElements),
        };
        if *common.get_or_insert(found) != found {
            return Err(MergeProblem::MixedElements);
        }
    }
    Ok(common)
}

/// Returns the identity of an element, as JSON.
fn identity(element: &Value, key: Option<&'static str>) -> Result<String, MergeProblem> {
    match (element, key) {
        (Value::Object(members), Some(key)) => {
            let value = members.get(key).ok_or(MergeProblem::NoKey(key))?;
            Ok(value.to_string())
        }
        (Value::Object(_), None) => Err(MergeProblem::NoMergeKey),
        (_, Some(key)) => Err(MergeProblem::NoKey(key)),
        (element, None) => Ok(element.to_string()),
    }
}

/// Index of the first occurrence of each element.
pub(super) fn ranks(list: &[Value], key: Option<&'static str>) -> Result<Ranks, MergeProblem> {
    let mut ranks = Ranks::new();
    for (at, element) in list.iter().enumerate() {
        ranks.entry(identity(element, key)?).or_insert(at);
    }
    Ok(ranks)
}

/// Merges the patch into the list, in the order that Kubernetes produces.
pub(super) fn merged(before: Vec<Value>, patch: &[Value], rule: &ListRule) -> Result<Vec<Value>, MergeError> {
    match common_type(&before, patch)? {
        None => Ok(before),
        Some(ElementType::Object) => merged_objects(before, patch, rule),
        Some(ElementType::Text | ElementType::Integer | ElementType::Float | ElementType::Bool) => {
            let (stored, added) = (ranks(&before, rule.key)?, ranks(patch, rule.key)?);
            let new = patch.iter().enumerate().filter(|(at, element)| {
                let text = element.to_string();
                added.get(&text) == Some(at) && !stored.contains_key(&text)
            });
            let new: Vec<Value> = new.map(|(_, element)| element.clone()).collect();
            let kept = before.into_iter().enumerate();
            let kept = kept.filter(|(at, element)| stored.get(&element.to_string()) == Some(at));
            let all = kept.map(|(_, element)| element).chain(new).collect();
            arranged(all, &added, &stored, rule.key)
        }
    }
}

fn merged_objects(before: Vec<Value>, patch: &[Value], rule: &ListRule) -> Result<Vec<Value>, MergeError> {
    let key = rule.key.ok_or(MergeProblem::NoMergeKey)?;
    let (mut written, mut is_replaced) = (Vec::new(), false);
    for element in patch {
        let Value::Object(members) = element else {
            return Err(MergeProblem::MixedElements.into());
        };
        match directive::marker(members)? {
            None => written.push((element, members)),
            Some(Marker::Replace) => is_replaced = true,
            Some(Marker::Delete) => {}
        }
    }
    let mut all = before;
    drop_deleted(&mut all, patch, key)?;
    if is_replaced {
        let elements = written.into_iter();
        let elements: Vec<Value> = elements
            .map(|(_, members)| Value::Object(directive::cleaned_members(members)))
            .collect();
        let places = ranks(&elements, rule.key)?;
        return arranged(elements, &Ranks::new(), &places, rule.key);
    }
    let stored = ranks(&all, rule.key)?;
    let (mut places, mut order) = (stored.clone(), Ranks::new());
    for (at, (element, members)) in written.into_iter().enumerate() {
        let identity = identity(element, rule.key)?;
        order.entry(identity.clone()).or_insert(at);
        let stored = places.get(&identity).and_then(|at| all.get_mut(*at));
        if let Some(Value::Object(stored)) = stored {
            *stored = merged_members(std::mem::take(stored), members, &rule.elements)?;
        } else {
            places.insert(identity, all.len());
            all.push(Value::Object(directive::cleaned_members(members)));
        }
    }
    arranged(all, &order, &stored, rule.key)
}

/// Indexes of a list's elements if the patch defines the order. As in Kubernetes, the first added elements take the
/// indexes of deleted elements, at the end.
pub(super) fn stored_order(
    mut before: Vec<Value>,
    patch: &[Value],
    key: &'static str,
) -> Result<Ranks, MergeProblem> {
    let places = before.len();
    if places == 0 {
        return Ok(Ranks::new());
    }
    drop_deleted(&mut before, patch, key)?;
    let mut stored = ranks(&before, Some(key))?;
    let is_replaced = |element| directive::written_marker(element).is_some_and(|marker| marker == "replace");
    if patch.iter().any(is_replaced) {
        return Ok(stored);
    }
    let mut place = before.len();
    let written = patch
        .iter()
        .filter(|element| directive::written_marker(element).is_none());
    for element in written {
        if place == places {
            break;
        }
        stored.entry(identity(element, Some(key))?).or_insert_with(|| {
            place += 1;
            place
        });
    }
    Ok(stored)
}

/// Removes the elements that a patch deletes.
fn drop_deleted(list: &mut Vec<Value>, patch: &[Value], key: &'static str) -> Result<(), MergeProblem> {
    let mut deleted = Ranks::new();
    for element in patch {
        if directive::written_marker(element).is_some_and(|marker| marker == "delete") {
            deleted.insert(identity(element, Some(key))?, 0);
        }
    }
    list.retain(|element| {
        let value = element.get(key).map(Value::to_string);
        !value.is_some_and(|value| deleted.contains_key(&value))
    });
    Ok(())
}

/// Returns the list in order: elements in `order` as ordered there, the others as stored. If both orders offer a next
/// element, the one of `order` comes first unless the other was stored before it.
pub(super) fn arranged(
    list: Vec<Value>,
    order: &Ranks,
    stored: &Ranks,
    key: Option<&'static str>,
) -> Result<Vec<Value>, MergeError> {
    let (mut named, mut others) = (Vec::new(), Vec::new());
    for element in list {
        let identity = identity(&element, key)?;
        let place = stored.get(&identity).copied();
        match order.get(&identity) {
            Some(rank) => named.push((*rank, place, element)),
            None => others.push((place, element)),
        }
    }
    named.sort_by_key(|(rank, _, _)| *rank);
    others.sort_by_key(|(place, _)| *place);
    let mut arranged = Vec::with_capacity(named.len().saturating_add(others.len()));
    let mut others = others.into_iter().peekable();
    for (_, place, element) in named {
        let is_before = |other: &(Option<usize>, Value)| {
            let both = other.0.zip(place);
            both.is_some_and(|(other, place)| other < place)
        };
        while let Some((_, other)) = others.next_if(is_before) {
            arranged.push(other);
        }
        arranged.push(element);
    }
    arranged.extend(others.map(|(_, element)| element));
    Ok(arranged)
}

/// Checks that the elements of a patch are in the order of its `$setElementOrder`.
pub(super) fn check_order(
    patch: &[Value],
    order: &[Value],
    key: Option<&'static str>,
) -> Result<(), MergeProblem> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut order = order.iter().peekable();
    for element in patch {
        if let Some(marker) = directive::written_marker(element) {
            // Kubernetes ignores other markers while the order continues.
            if marker != "delete" && order.peek().is_none() {
                return Err(MergeProblem::OtherOrder);
            }
            continue;
        }
        let identity_of = |element| identity(element, key);
        let wanted = identity_of(element)?;
        loop {
            let next = order.next().ok_or(MergeProblem::OtherOrder)?;
            if identity_of(next)? == wanted {
                break;
            }
        }
    }
    Ok(())
}
