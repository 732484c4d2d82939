//! JSON as text that a patch changes: bytes outside the operations stay, as in the API server.

use std::collections::BTreeMap;

use json_patch::{Patch, PatchOperation, jsonptr::Pointer};
use serde_json::value::RawValue;

/// A value, parsed only on the path of an operation.
#[derive(Debug, Clone)]
pub(super) enum RawJson {
    Text(String),
    Object(BTreeMap<String, RawJson>),
    Array(Vec<RawJson>),
}

impl RawJson {
    pub(super) fn new(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// Applies the operations, each of which must fit.
    pub(super) fn patch(&mut self, patch: &Patch) {
        for operation in &patch.0 {
            match operation {
                PatchOperation::Add(add) => self.add(&add.path, Self::new(&add.value.to_string())),
                PatchOperation::Remove(remove) => drop(self.remove(&remove.path)),
                PatchOperation::Replace(replace) => {
                    *self.get(&replace.path) = Self::new(&replace.value.to_string());
                }
                PatchOperation::Move(moved) => {
                    let value = self.remove(&moved.from);
                    self.add(&moved.path, value);
                }
                PatchOperation::Copy(_) | PatchOperation::Test(_) => panic!("{operation:?}"),
            }
        }
    }

    /// The value at a pointer.
    pub(super) fn get(&mut self, pointer: &Pointer) -> &mut Self {
        pointer.tokens().fold(self, |value, token| {
            value.open();
            match value {
                Self::Object(members) => members.get_mut(token.decoded().as_ref()).unwrap(),
                Self::Array(elements) => &mut elements[token.encoded().parse::<usize>().unwrap()],
                Self::Text(text) => panic!("nothing is inside of {text}"),
            }
        })
    }

    fn parent(&mut self, pointer: &Pointer) -> (&mut Self, String) {
        let (parent, last) = pointer.split_back().unwrap();
        let parent = self.get(parent);
        parent.open();
        (parent, last.decoded().into_owned())
    }

    fn add(&mut self, pointer: &Pointer, value: Self) {
        match self.parent(pointer) {
            (Self::Object(members), name) => assert!(
                members.insert(name, value).is_none(),
                "{pointer} is there and added"
            ),
            (Self::Array(elements), at) => elements.insert(at.parse().unwrap(), value),
            (Self::Text(text), _) => panic!("nothing is inside of {text}"),
        }
    }

    fn remove(&mut self, pointer: &Pointer) -> Self {
        match self.parent(pointer) {
            (Self::Object(members), name) => members.remove(&name).unwrap(),
            (Self::Array(elements), at) => elements.remove(at.parse().unwrap()),
            (Self::Text(text), _) => panic!("nothing is inside of {text}"),
        }
    }

    fn open(&mut self) {
        let Self::Text(text) = self else { return };
        if let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(text) {
            let members = members.into_iter();
            *self = Self::Object(members.map(|(name, raw)| (name, Self::new(raw.get()))).collect());
        } else if let Ok(elements) = serde_json::from_str::<Vec<&RawValue>>(text) {
            *self = Self::Array(elements.into_iter().map(|raw| Self::new(raw.get())).collect());
        }
    }

    /// The texts of all members of that name, wherever they are, parsed as little as possible.
    pub(super) fn texts(&mut self, name: &str, found: &mut Vec<String>) {
        self.open();
        match self {
            Self::Object(members) => {
                for (own, value) in members {
                    match value {
                        Self::Text(text) if own == name => found.push(text.clone()),
                        Self::Text(_) | Self::Object(_) | Self::Array(_) => value.texts(name, found),
                    }
                }
            }
            Self::Array(elements) => elements.iter_mut().for_each(|element| element.texts(name, found)),
            Self::Text(_) => {}
        }
    }
}
