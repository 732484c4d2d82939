//! [`Edits`]: recorded writes to the members of an object, and the object with them applied.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{tree::Tree, written::Written};

/// Recorded writes to the members of one object.
pub(crate) type Edits = BTreeMap<String, Edit>;

/// Recorded writes to the members of elements of an array, by their places.
pub(crate) type ElementEdits = BTreeMap<usize, Edits>;

/// A recorded write to one member.
#[derive(Debug, Clone)]
pub(crate) enum Edit {
    /// The member has this value, replacing any earlier one.
    Set(Written),
    /// The member existed before and is removed.
    Remove,
    /// The member was an object before and has writes inside.
    Inside(Edits),
    /// The member was an array before, with objects at these places, and has writes inside of them.
    Elements(ElementEdits),
}

/// Records that `path` below `tree` becomes `written`; `None` if something on the way has no members.
pub(super) fn place(edits: &mut Edits, tree: &Tree<'_>, path: &[&str], written: Written) -> Option<()> {
    let (name, rest) = path.split_first()?;
    if rest.is_empty() {
        edits.insert((*name).to_owned(), Edit::Set(written));
        return Some(());
    }
    let below = tree.get(&[name]);
    match (edits.get_mut(*name), below) {
        (Some(Edit::Set(there)), _) => place_in(there.value_mut(), rest, written.into_value()),
        (Some(Edit::Inside(inside)), Some(below)) => place(inside, below, rest, written),
        (None, Some(below)) if below.is_object() => {
            let mut inside = Edits::new();
            place(&mut inside, below, rest, written)?;
            edits.insert((*name).to_owned(), Edit::Inside(inside));
            Some(())
        }
        (None, Some(below)) if !below.is_null() => None,
        (Some(Edit::Elements(_)), _) => None,
        (Some(Edit::Remove | Edit::Inside(_)) | None, _) => {
            let (mut created, kind) = (Value::Null, written.kind());
            place_in(&mut created, rest, written.into_value())?;
            edits.insert((*name).to_owned(), Edit::Set(Written::new(created, kind)));
            Some(())
        }
    }
}

/// Writes into a value that is ours already.
fn place_in(there: &mut Value, path: &[&str], value: Value) -> Option<()> {
    let Some((name, rest)) = path.split_first() else {
        *there = value;
        return Some(());
    };
    if there.is_null() {
        *there = Value::Object(Map::new());
    }
    place_in(
        there.as_object_mut()?.entry(*name).or_insert(Value::Null),
        rest,
        value,
    )
}

/// Records the removal of the existing member at `path` below `tree`.
pub(super) fn record_removal(edits: &mut Edits, tree: &Tree<'_>, path: &[&str]) {
    let Some((name, rest)) = path.split_first() else {
        return;
    };
    let below = tree.get(&[name]);
    match (edits.get_mut(*name), below) {
        (_, Some(_)) if rest.is_empty() => drop(edits.insert((*name).to_owned(), Edit::Remove)),
        (_, None) if rest.is_empty() => drop(edits.remove(*name)),
        (Some(Edit::Set(there)), _) => {
            let (last, parents) = rest.split_last().unwrap_or((name, &[]));
            let parent = parents
                .iter()
                .try_fold(there.value_mut(), |value, name| value.get_mut(name));
            if let Some(members) = parent.and_then(Value::as_object_mut) {
                members.remove(*last);
            }
        }
        (Some(Edit::Inside(inside)), Some(below)) => record_removal(inside, below, rest),
        (None, Some(below)) => {
            let mut inside = Edits::new();
            record_removal(&mut inside, below, rest);
            edits.insert((*name).to_owned(), Edit::Inside(inside));
        }
        (Some(Edit::Remove | Edit::Inside(_) | Edit::Elements(_)) | None, _) => {}
    }
}

/// The recorded writes of elements of the array at `path` below `tree`, which is there and was not written.
pub(super) fn elements_at<'e>(
    edits: &'e mut Edits,
    tree: &Tree<'_>,
    path: &[&str],
) -> Option<&'e mut ElementEdits> {
    let (name, rest) = path.split_first()?;
    let below = tree.get(&[name])?;
    let new = || {
        if rest.is_empty() {
            Edit::Elements(ElementEdits::new())
        } else {
            Edit::Inside(Edits::new())
        }
    };
    match edits.entry((*name).to_owned()).or_insert_with(new) {
        Edit::Inside(inside) => elements_at(inside, below, rest),
        Edit::Elements(elements) if rest.is_empty() => Some(elements),
        Edit::Set(_) | Edit::Remove | Edit::Elements(_) => None,
    }
}

/// An object with the writes inside it applied.
pub(super) fn edited(tree: &Tree<'_>, edits: &Edits) -> Result<Value, serde_json::Error> {
    let mut value = tree.to_value()?;
    apply(&mut value, edits);
    Ok(value)
}

/// An array with the writes inside of its elements applied.
pub(super) fn edited_elements(tree: &Tree<'_>, elements: &ElementEdits) -> Result<Value, serde_json::Error> {
    let mut value = tree.to_value()?;
    apply_elements(&mut value, elements);
    Ok(value)
}

fn apply_elements(value: &mut Value, elements: &ElementEdits) {
    for (at, edits) in elements {
        if let Some(element) = value.get_mut(*at) {
            apply(element, edits);
        }
    }
}

fn apply(value: &mut Value, edits: &Edits) {
    let Some(members) = value.as_object_mut() else {
        return;
    };
    for (name, edit) in edits {
        match edit {
            Edit::Set(new) => drop(members.insert(name.clone(), new.value().clone())),
            Edit::Remove => drop(members.remove(name)),
            Edit::Inside(inside) => {
                if let Some(member) = members.get_mut(name) {
                    apply(member, inside);
                }
            }
            Edit::Elements(elements) => {
                if let Some(member) = members.get_mut(name) {
                    apply_elements(member, elements);
                }
            }
        }
    }
}
