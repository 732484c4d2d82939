//! A JSON object of a request, borrowed from its bytes and parsed only where somebody looks.

use std::{borrow::Cow, cell::OnceCell, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeOwned, DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor,
        value::SeqAccessDeserializer,
    },
};
use serde_json::{Value, value::RawValue};

use super::Fields;

/// Levels of a value that are opened while the request is decoded: the object itself and `metadata`, `spec`
/// and `status`. What is below stays text, so that each byte is scanned once.
const OPENED: u8 = 2;

/// Deepest nesting that a value below the opened levels may have: the deepest that can be parsed later without
/// risk to the stack. Objects of the API are far shallower.
pub const MAX_DEPTH: usize = 127;

/// Room for the members that most objects have, so that their list seldom moves.
const USUAL_MEMBERS: usize = 16;

/// A JSON value. Reading it never changes it; writes go to a [`Draft`](super::Draft) on top of it.
pub struct Tree<'a>(Form<'a>);

enum Form<'a> {
    /// Valid JSON text and, once somebody looked inside, its members if it is an object.
    Text(&'a str, OnceCell<Option<Members<'a>>>),
    /// An object opened while decoding.
    Object(Members<'a>),
    /// Something else on a level that was opened while decoding.
    Value(Value),
}

/// Members in the order of the text. Where a name repeats, the last one counts, as in the API server.
type Members<'a> = Vec<(Name<'a>, Tree<'a>)>;

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Tree<'a> {
    /// The value at `path`, one member name for each step; the value itself for an empty path.
    pub fn get(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |tree, name| tree.member(name))
    }

    /// True for `null`, which the API treats like an absent member.
    pub fn is_null(&self) -> bool {
        match &self.0 {
            Form::Text(text, _) => *text == "null",
            Form::Object(_) => false,
            Form::Value(value) => value.is_null(),
        }
    }

    /// True if both are text and the same to the byte; false says nothing.
    pub fn is_verbatim(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Form::Text(text, _), Form::Text(other, _)) => text == other,
            (Form::Text(..) | Form::Object(_) | Form::Value(_), _) => false,
        }
    }

    /// True for an object.
    pub fn is_object(&self) -> bool {
        self.members().is_some()
    }

    /// The value, parsed whole.
    ///
    /// # Errors
    /// If it holds a number that no float can represent.
    pub fn to_value(&self) -> Result<Value, serde_json::Error> {
        self.0.to_value()
    }

    fn member(&self, name: &str) -> Option<&Self> {
        self.members()?
            .iter()
            .rev()
            .find(|(Name(own), _)| own == name)
            .map(|(_, tree)| tree)
    }

    fn members(&self) -> Option<&Members<'a>> {
        match &self.0 {
            Form::Text(text, members) => members.get_or_init(|| open(text)).as_ref(),
            Form::Object(members) => Some(members),
            Form::Value(_) => None,
        }
    }
}

impl Form<'_> {
    fn to_value(&self) -> Result<Value, serde_json::Error> {
        match self {
            Self::Text(text, _) => serde_json::from_str(text),
            Self::Value(value) => Ok(value.clone()),
            Self::Object(members) => members
                .iter()
                .map(|(Name(name), tree)| Ok((name.clone().into_owned(), tree.to_value()?)))
                .collect::<Result<_, _>>()
                .map(Value::Object),
        }
    }
}

impl Fields for Tree<'_> {
    fn read<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Option<T>, serde_json::Error> {
        match self.get(path).map(|tree| &tree.0) {
            None => Ok(None),
            Some(Form::Text(text, _)) => serde_json::from_str(text),
            Some(Form::Value(value)) => Deserialize::deserialize(value),
            Some(form @ Form::Object(_)) => Deserialize::deserialize(form.to_value()?),
        }
    }

    fn names(&self, path: &[&str]) -> Vec<String> {
        let members = self.get(path).and_then(Self::members);
        members
            .into_iter()
            .flatten()
            .map(|(Name(name), _)| name.clone().into_owned())
            .collect()
    }
}

/// The members of an object; `None` for any other value.
fn open(text: &str) -> Option<Members<'_>> {
    if !text.starts_with('{') {
        return None;
    }
    let mut parser = serde_json::Deserializer::from_str(text);
    match (Levels(1, PhantomData).deserialize(&mut parser).ok()?).0 {
        Form::Object(members) => Some(members),
        Form::Text(..) | Form::Value(_) => None,
    }
}

/// True if brackets are nested deeper than [`MAX_DEPTH`] in a valid JSON text.
fn is_too_deep(text: &str) -> bool {
    let mut rest = text.as_bytes();
    // Nesting that deep closes as often; counting alone settles it for nearly every value.
    if memchr::memchr2_iter(b']', b'}', rest).nth(MAX_DEPTH).is_none() {
        return false;
    }
    let mut depth = 0_usize;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match byte {
            b'"' => rest = after_string(tail),
            b'[' | b'{' if depth == MAX_DEPTH => return true,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// What follows the string that `text` is the inside of.
fn after_string(mut text: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', text) {
        let is_escape = text.get(at) == Some(&b'\\');
        text = text.get(at + 1 + usize::from(is_escape)..).unwrap_or_default();
        if !is_escape {
            break;
        }
    }
    text
}

/// Reads a value with that many levels opened. The lifetime is the tree's, which must not outlive the text's.
struct Levels<'a>(u8, PhantomData<&'a str>);

impl<'de: 'a, 'a> DeserializeSeed<'de> for Levels<'a> {
    type Value = Tree<'a>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree<'a>, D::Error> {
        if self.0 > 0 {
            return deserializer.deserialize_any(self);
        }
        let text = <&'a RawValue>::deserialize(deserializer)?.get();
        if is_too_deep(text) {
            return Err(D::Error::custom(format_args!(
                "a value is nested deeper than {MAX_DEPTH} levels"
            )));
        }
        Ok(Tree(Form::Text(text, OnceCell::new())))
    }
}

impl<'de: 'a, 'a> Visitor<'de> for Levels<'a> {
    type Value = Tree<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree<'a>, A::Error> {
        let mut members = Members::with_capacity(USUAL_MEMBERS);
        while let Some(name) = map.next_key()? {
            members.push((name, map.next_value_seed(Self(self.0 - 1, PhantomData))?));
        }
        Ok(Tree(Form::Object(members)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Tree<'a>, A::Error> {
        Value::deserialize(SeqAccessDeserializer::new(seq)).map(|value| Tree(Form::Value(value)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree<'a>, E> {
        Ok(Tree(Form::Value(text.into())))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree<'a>, E> {
        Ok(Tree(Form::Value(value.into())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree<'a>, E> {
        Ok(Tree(Form::Value(number.into())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree<'a>, E> {
        Ok(Tree(Form::Value(number.into())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Tree<'a>, E> {
        Ok(Tree(Form::Value(number.into())))
    }

    fn visit_unit<E>(self) -> Result<Tree<'a>, E> {
        Ok(Tree(Form::Value(Value::Null)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Tree<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Levels(OPENED, PhantomData).deserialize(deserializer)
    }
}

impl fmt::Debug for Tree<'_> {
    /// The kind only: bodies of objects do not belong into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Form::Text(..) => "Tree(text)",
            Form::Object(_) => "Tree(object)",
            Form::Value(_) => "Tree(value)",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn tree(text: &str) -> Tree<'_> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_value_is_found_by_its_path_on_every_level() {
        let node =
            tree(r#"{"metadata":{"annotations":{"a/b":"1","c\u0041":{"x":[1,{"y":2}]}}},"status":null}"#);
        assert_eq!(
            node.read(&["metadata", "annotations", "a/b"]).unwrap(),
            Some("1".to_owned())
        );
        assert_eq!(
            node.get(&["metadata", "annotations", "cA", "x"])
                .unwrap()
                .to_value()
                .unwrap(),
            json!([1, {"y": 2}])
        );
        assert!(node.get(&["metadata", "annotations", "a/b", "deeper"]).is_none());
        assert!(node.get(&["metadata", "labels"]).is_none());
        assert!(node.get(&["status"]).unwrap().is_null());
        assert_eq!(node.names(&["metadata", "annotations"]), ["a/b", "cA"]);
    }

    #[test]
    fn the_last_of_two_equal_members_counts() {
        let node = tree(r#"{"a":{"b":1,"b":{"c":1,"\u0063":2}},"x":0,"x":{"y":3}}"#);
        assert_eq!(node.read(&["a", "b", "c"]).unwrap(), Some(2));
        assert_eq!(node.read(&["x", "y"]).unwrap(), Some(3));
        assert_eq!(
            node.to_value().unwrap(),
            json!({"a": {"b": {"c": 2}}, "x": {"y": 3}})
        );
    }

    #[test]
    fn a_value_of_another_shape_is_an_error_and_not_absent() {
        let node = tree(r#"{"a":{"b":7,"c":1e999}}"#);
        assert!(node.read::<String>(&["a", "b"]).is_err());
        assert!(node.get(&["a", "c"]).unwrap().to_value().is_err());
    }

    #[test]
    fn nesting_up_to_the_limit_is_read_and_beyond_it_refused() {
        let nested = |depth: usize| format!(r#"{{"a":{{"b":{}{}}}}}"#, "[".repeat(depth), "]".repeat(depth));
        let text = nested(MAX_DEPTH);
        assert!(tree(&text).to_value().is_ok());
        let error = serde_json::from_str::<Tree<'_>>(&nested(MAX_DEPTH + 1)).unwrap_err();
        assert!(
            error.to_string().contains("nested deeper than 127 levels"),
            "{error}"
        );
        assert!(serde_json::from_str::<Tree<'_>>(&nested(100_000)).is_err());
        assert!(serde_json::from_str::<Tree<'_>>(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn brackets_in_strings_do_not_count_as_nesting() {
        let strings = format!(
            r#"{{"a":{{"b":["{}","\"{}"]}}}}"#,
            "[".repeat(500),
            "]".repeat(500)
        );
        assert!(serde_json::from_str::<Tree<'_>>(&strings).is_ok());
        let wide = format!(r#"{{"a":{{"b":[{}]}}}}"#, vec!["{}"; 500].join(","));
        assert!(serde_json::from_str::<Tree<'_>>(&wide).is_ok());
    }

    pub(crate) fn any_json() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,6}".prop_map(Value::from),
        ];
        scalar.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::hash_map(".{0,3}", inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_tree_is_the_value_it_was_read_from(value in any_json()) {
            let text = value.to_string();
            let read = tree(&text);
            prop_assert_eq!(read.to_value().unwrap(), value.clone());
            if let Value::Object(members) = &value {
                for (name, inner) in members {
                    prop_assert_eq!(&read.get(&[name]).unwrap().to_value().unwrap(), inner);
                }
            }
        }
    }
}
