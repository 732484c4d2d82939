//! [`PathValue`]: the value at a path of an object, with the writes applied.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    Edit, Edits, Fields as _, Tree, Written,
    edits::{ElementEdits, edited, edited_elements},
    overlay::Overlay,
};

/// Value found at a path.
pub(super) enum PathValue<'d, 'a> {
    Nothing,
    /// A value that was written, or a part of one.
    Written(&'d Value, &'d Written),
    Stored(&'d Tree<'a>),
    /// An object with writes inside.
    Edited(&'d Tree<'a>, &'d Edits),
    /// An array with writes inside of elements.
    EditedElements(&'d Tree<'a>, &'d ElementEdits),
}

impl<'d, 'a> PathValue<'d, 'a> {
    /// Finds the value at `path` of the object with these writes.
    pub(super) fn find(tree: &'d Tree<'a>, edits: &'d Edits, path: &[&str]) -> Self {
        let (mut tree, mut edits, mut path) = (tree, edits, path);
        while let Some((name, rest)) = path.split_first() {
            let below = tree.get(&[name]);
            match (edits.get(*name), below) {
                (Some(Edit::Set(written)), _) => {
                    let part = rest
                        .iter()
                        .try_fold(written.value(), |value, name| value.get(name));
                    return part.map_or(Self::Nothing, |part| Self::Written(part, written));
                }
                (Some(Edit::Inside(inside)), Some(below)) => (tree, edits, path) = (below, inside, rest),
                (Some(Edit::Elements(elements)), Some(below)) if rest.is_empty() => {
                    return Self::EditedElements(below, elements);
                }
                (None, Some(below)) => return below.get(rest).map_or(Self::Nothing, Self::Stored),
                (Some(Edit::Remove | Edit::Elements(_)) | None, _) | (Some(Edit::Inside(_)), None) => {
                    return Self::Nothing;
                }
            }
        }
        if edits.is_empty() {
            Self::Stored(tree)
        } else {
            Self::Edited(tree, edits)
        }
    }

    /// Reads it; `None` if it is absent or `null`.
    pub(super) fn read<T: DeserializeOwned>(self) -> Result<Option<T>, serde_json::Error> {
        match self {
            Self::Nothing => Ok(None),
            Self::Written(value, _) => Deserialize::deserialize(value),
            Self::Stored(tree) => tree.read(&[]),
            Self::Edited(tree, edits) => Overlay::new(tree, edits).read().map(Some),
            Self::EditedElements(..) => serde_json::from_value(self.to_value()?).map(Some),
        }
    }

    /// The value; `null` if it is absent.
    pub(super) fn to_value(&self) -> Result<Value, serde_json::Error> {
        match self {
            Self::Nothing => Ok(Value::Null),
            Self::Written(value, _) => Ok((*value).clone()),
            Self::Stored(tree) => tree.to_value(),
            Self::Edited(tree, edits) => edited(tree, edits),
            Self::EditedElements(tree, elements) => edited_elements(tree, elements),
        }
    }
}
