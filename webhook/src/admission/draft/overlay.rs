//! [`Overlay`]: reads an object with writes on top. Each member is read where it is, and the object is not built.

use std::ptr;

use serde::de::{
    Deserialize, Deserializer, Error as _, IntoDeserializer, Unexpected, Visitor,
    value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer},
};
use serde_json::{Error, Value};

use super::{
    edits::{Edit, Edits, ElementEdits},
    tree::Tree,
};

/// An object of a request, and the writes inside of it.
#[derive(Clone, Copy)]
pub(super) struct Overlay<'d, 'a> {
    tree: &'d Tree<'a>,
    edits: &'d Edits,
}

enum Part<'d, 'a> {
    /// Text as sent: valid JSON.
    Stored(&'d str),
    Written(&'d Value),
    Edited(Overlay<'d, 'a>),
    /// An array with writes inside of elements.
    Elements(&'d Tree<'a>, &'d ElementEdits),
}

impl<'d, 'a> Overlay<'d, 'a> {
    pub(super) const fn new(tree: &'d Tree<'a>, edits: &'d Edits) -> Self {
        Self { tree, edits }
    }

    /// Reads the object.
    ///
    /// # Errors
    /// It has another shape than `T`, or is too wide.
    pub(super) fn read<T: Deserialize<'d>>(self) -> Result<T, Error> {
        self.tree.readable()?;
        T::deserialize(Part::Edited(self))
    }

    /// The members that there are, in the order of the text, and behind them the new ones.
    fn members(self) -> impl Iterator<Item = (&'d str, Part<'d, 'a>)> {
        let Self { tree, edits } = self;
        // Of repeated names the last counts.
        let counts = move |name: &str, member| tree.get(&[name]).is_some_and(|last| ptr::eq(last, member));
        let stored = tree.list().iter().filter_map(move |(name, member)| {
            let part = match edits.get(name.as_ref()) {
                None => Part::Stored(member.text),
                Some(Edit::Remove) => return None,
                Some(Edit::Set(written)) => Part::Written(written.value()),
                Some(Edit::Inside(edits)) => Part::Edited(Overlay::new(member, edits)),
                Some(Edit::Elements(elements)) => Part::Elements(member, elements),
            };
            counts(name, member).then_some((name.as_ref(), part))
        });
        let new = edits.iter().filter_map(move |(name, edit)| match edit {
            Edit::Set(written) if tree.get(&[name]).is_none() => {
                Some((name.as_str(), Part::Written(written.value())))
            }
            Edit::Set(_) | Edit::Remove | Edit::Inside(_) | Edit::Elements(_) => None,
        });
        stored.chain(new)
    }
}

/// The elements of an array, in their order.
fn elements<'d, 'a>(tree: &'d Tree<'a>, edits: &'d ElementEdits) -> impl Iterator<Item = Part<'d, 'a>> {
    let elements = tree.elements().iter().enumerate();
    elements.map(|(at, element)| match edits.get(&at) {
        Some(edits) => Part::Edited(Overlay::new(element, edits)),
        None => Part::Stored(element.text),
    })
}

impl<'de, 'a: 'de> IntoDeserializer<'de, Error> for Part<'de, 'a> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de, 'a: 'de> Deserializer<'de> for Part<'de, 'a> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Stored(text) => serde_json::Deserializer::from_str(text).deserialize_any(visitor),
            Self::Written(value) => value.deserialize_any(visitor),
            Self::Edited(overlay) => MapDeserializer::new(overlay.members()).deserialize_any(visitor),
            Self::Elements(tree, edits) => {
                SeqDeserializer::new(elements(tree, edits)).deserialize_any(visitor)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Stored("null") | Self::Written(Value::Null) => visitor.visit_none(),
            Self::Stored(_) | Self::Written(_) | Self::Edited(_) | Self::Elements(..) => {
                visitor.visit_some(self)
            }
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self {
            Self::Stored(text) => {
                serde_json::Deserializer::from_str(text).deserialize_newtype_struct(name, visitor)
            }
            Self::Written(value) => value.deserialize_newtype_struct(name, visitor),
            Self::Edited(_) | Self::Elements(..) => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self {
            Self::Stored(text) => {
                serde_json::Deserializer::from_str(text).deserialize_enum(name, variants, visitor)
            }
            Self::Written(value) => value.deserialize_enum(name, variants, visitor),
            Self::Edited(overlay) => {
                let members = MapDeserializer::new(overlay.members());
                MapAccessDeserializer::new(members).deserialize_enum(name, variants, visitor)
            }
            Self::Elements(..) => Err(Error::invalid_type(Unexpected::Seq, &visitor)),
        }
    }

    /// Unread values are skipped.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::admission::draft::{Draft, edits::edited};

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    #[derive(Default)]
    struct Read {
        metadata: Option<Metadata>,
        spec: Spec,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Metadata {
        labels: Option<BTreeMap<String, String>>,
        size: Size,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Spec {
        priority: Option<i32>,
        share: f64,
        list: Vec<Choice>,
        kind: Option<Choice>,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    struct Size(u8);

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase")]
    enum Choice {
        Plain,
        WithNumber(u8),
    }

    const OBJECT: &str = r#"{"metadata": {"labels": {"a": "1", "a": "2"}, "name": "x", "size": 3, "big": 1e999},
        "spec": {"priority": 7, "share": 1, "list": ["plain", {"withNumber": 2}], "kind": "plain"}, "status": null}"#;

    fn draft() -> Draft<'static> {
        Draft::new(Tree::parse(OBJECT, 2).unwrap(), None)
    }

    fn overlaid(draft: &Draft<'_>) -> Read {
        Overlay::new(draft.object(), draft.edits()).read().unwrap()
    }

    #[test]
    fn members_are_read_where_they_are() {
        let mut draft = draft();
        draft.set(&["metadata", "labels", "b"], "3").unwrap();
        draft.remove(&["spec", "priority"]);
        draft.set(&["spec", "kind"], json!({"withNumber": 9})).unwrap();
        let Read { metadata, spec } = overlaid(&draft);
        let Metadata { labels, size } = metadata.unwrap();
        let labels = labels.unwrap();
        assert_eq!((labels["a"].as_str(), labels["b"].as_str()), ("2", "3"));
        assert_eq!(size, Size(3));
        assert_eq!((spec.priority, spec.share), (None, 1.0));
        assert_eq!(spec.list, [Choice::Plain, Choice::WithNumber(2)]);
        assert_eq!(spec.kind, Some(Choice::WithNumber(9)));
        draft.remove(&["spec", "kind"]);
        draft.set(&["spec", "kind", "withNumber"], 4).unwrap();
        assert_eq!(overlaid(&draft).spec.kind, Some(Choice::WithNumber(4)));
    }

    #[test]
    fn another_shape_is_an_error() {
        let mut draft = draft();
        draft.set(&["spec", "priority"], "high").unwrap();
        let read: Result<Read, _> = Overlay::new(draft.object(), draft.edits()).read();
        assert!(
            read.unwrap_err()
                .to_string()
                .contains("invalid type: string \"high\"")
        );
    }

    fn path() -> impl Strategy<Value = Vec<&'static str>> {
        prop::collection::vec(
            prop::sample::select(vec!["metadata", "labels", "a", "spec", "b"]),
            1..4,
        )
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_would_be_built(writes in prop::collection::vec((path(), 0..3_u8), 0..6)) {
            let text = OBJECT.replace("1e999", "1");
            let mut draft = Draft::new(Tree::parse(&text, 2).unwrap(), None);
            for (path, kind) in writes {
                match kind {
                    0 => draft.remove(&path),
                    1 => drop(draft.set(&path, "x")),
                    _ => drop(draft.set(&path, json!({"a": {"b": null}}))),
                }
            }
            let read: Value = Overlay::new(draft.object(), draft.edits()).read().unwrap();
            prop_assert_eq!(read, edited(draft.object(), draft.edits()).unwrap());
        }
    }
}
