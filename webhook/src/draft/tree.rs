//! A JSON value of a request, borrowed from its bytes and parsed only where somebody looks.

use std::{borrow::Cow, cell::OnceCell, fmt};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    Fields,
    scan::{self, ScanError},
};

/// A JSON value. Reading it never changes it; writes go to a [`Draft`](super::Draft) on top of it.
pub struct Tree<'a> {
    /// The value as it came: valid JSON without space around it.
    pub(super) text: &'a str,
    /// The members, once somebody looked; `None` inside if the value is not an object.
    pub(super) members: OnceCell<Option<Members<'a>>>,
    /// The elements, once somebody looked; empty if the value is not an array.
    pub(super) elements: OnceCell<Box<[Self]>>,
}

/// Up to so many members are looked through for a name; it costs less than putting them in order.
const FEW: usize = 32;

/// Members in the order of the text. Where a name repeats, the last one counts, as in the API server.
#[derive(Default)]
pub(super) struct Members<'a> {
    list: Vec<Member<'a>>,
    /// Positions in the list by name, equal names in the order of the text; made for wide objects only, which a client
    /// can make as wide as a request may be.
    order: OnceCell<Vec<usize>>,
}

/// A name and its value.
pub(super) type Member<'a> = (Cow<'a, str>, Tree<'a>);

impl<'a> Tree<'a> {
    /// Reads a text with that many levels of objects opened at once. Deeper ones open when somebody looks, at the
    /// price of a second pass over them.
    ///
    /// # Errors
    /// If the text is not one JSON value, or nested too deep.
    pub fn parse(text: &'a str, levels: u32) -> Result<Self, ScanError> {
        scan::document(text, levels)
    }

    /// The elements of an array; nothing for other values.
    pub fn elements(&self) -> &[Self] {
        let open = || scan::elements(self.text).unwrap_or_default().into();
        self.elements.get_or_init(open)
    }

    /// The value at `path`, one member name for each step; the value itself for an empty path.
    pub fn get(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |tree, name| tree.member(name))
    }

    /// Takes a member out of an object; `null` is nothing.
    pub fn take(&mut self, name: &str) -> Option<Self> {
        self.members();
        let tree = self.members.get_mut()?.as_mut()?.take(name)?;
        (!tree.is_null()).then_some(tree)
    }

    /// True for `null`, which the API treats like an absent member.
    pub fn is_null(&self) -> bool {
        self.text == "null"
    }

    /// True for an object.
    pub fn is_object(&self) -> bool {
        self.text.starts_with('{')
    }

    /// The members in the order of the text, a name as often as it is there; nothing for other values than objects.
    pub(super) fn list(&self) -> &[Member<'a>] {
        self.members().map(Members::list).unwrap_or_default()
    }

    /// True if both are the same text; false says nothing, as the same value can be written in many ways.
    pub fn is_verbatim(&self, other: &Tree<'_>) -> bool {
        self.text == other.text
    }

    /// The value, parsed whole.
    ///
    /// # Errors
    /// If it holds a number that no float can represent, or an escape that stands for no character.
    pub fn to_value(&self) -> Result<Value, serde_json::Error> {
        serde_json::from_str(self.text)
    }

    fn member(&self, name: &str) -> Option<&Self> {
        self.members()?.get(name)
    }

    /// The members, opened if nobody looked before; nothing for other values than objects.
    pub(super) fn members(&self) -> Option<&Members<'a>> {
        let open = || scan::document(self.text, 1).ok()?.members.into_inner().flatten();
        self.members
            .get_or_init(|| if self.is_object() { open() } else { None })
            .as_ref()
    }
}

impl<'a> Members<'a> {
    /// None yet, with room for so many.
    pub(super) fn with_capacity(members: usize) -> Self {
        Self {
            list: Vec::with_capacity(members),
            order: OnceCell::new(),
        }
    }

    /// Adds what comes next in the text.
    pub(super) fn push(&mut self, member: Member<'a>) {
        self.order.take();
        self.list.push(member);
    }

    /// All, in the order of the text.
    pub(super) fn list(&self) -> &[Member<'a>] {
        &self.list
    }

    fn get(&self, name: &str) -> Option<&Tree<'a>> {
        self.list.get(self.position(name)?).map(|(_, tree)| tree)
    }

    fn take(&mut self, name: &str) -> Option<Tree<'a>> {
        let position = self.position(name)?;
        self.order.take();
        // Not by swapping: what repeats a name must stay in order.
        Some(self.list.remove(position).1)
    }

    fn position(&self, name: &str) -> Option<usize> {
        if self.list.len() <= FEW {
            return self.list.iter().rposition(|(own, _)| own == name);
        }
        let own = |position: &usize| self.list.get(*position).map(|(own, _)| own.as_ref());
        let order = self.order.get_or_init(|| {
            let mut order: Vec<usize> = (0..self.list.len()).collect();
            order.sort_by_key(own);
            order
        });
        let end = order.partition_point(|position| own(position) <= Some(name));
        let last = order.get(end.checked_sub(1)?)?;
        (own(last) == Some(name)).then_some(*last)
    }
}

impl Fields for Tree<'_> {
    fn read<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Option<T>, serde_json::Error> {
        self.get(path)
            .map_or(Ok(None), |tree| serde_json::from_str(tree.text))
    }

    fn names(&self, path: &[&str]) -> Vec<&str> {
        let members = self.get(path).map(Self::list).unwrap_or_default();
        members.iter().map(|(name, _)| name.as_ref()).collect()
    }

    fn with_elements<R>(&self, path: &[&str], look: impl FnOnce(&[Tree<'_>]) -> R) -> R {
        look(self.get(path).map(Self::elements).unwrap_or_default())
    }
}

impl fmt::Debug for Tree<'_> {
    /// The size only: bodies of objects do not belong into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tree({} bytes)", self.text.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn tree(text: &str) -> Tree<'_> {
        Tree::parse(text, 2).unwrap()
    }

    #[test]
    fn a_value_is_found_by_its_path_on_every_level() {
        let node =
            tree(r#"{"metadata":{"annotations":{"a/b":"1","c\u0041":{"x":[1,{"y":2}]}}},"status":null}"#);
        assert_eq!(
            node.read(&["metadata", "annotations", "a/b"]).unwrap(),
            Some("1".to_owned())
        );
        let inner = node.get(&["metadata", "annotations", "cA", "x"]).unwrap();
        assert_eq!(inner.to_value().unwrap(), json!([1, {"y": 2}]));
        assert!(node.get(&["metadata", "annotations", "a/b", "deeper"]).is_none());
        assert!(node.get(&["metadata", "labels"]).is_none());
        assert!(node.get(&["status"]).unwrap().is_null());
        assert_eq!(node.names(&["metadata", "annotations"]), ["a/b", "cA"]);
    }

    #[test]
    fn the_elements_of_an_array_are_found_in_order() {
        let array = tree(r#"[ {"a":[1]} , "x", null,[],{} ]"#);
        let values: Vec<Value> = array
            .elements()
            .iter()
            .map(|tree| tree.to_value().unwrap())
            .collect();
        assert_eq!(json!(values), json!([{"a": [1]}, "x", null, [], {}]));
        assert_eq!(array.elements()[0].names(&[]), ["a"]);
        for text in ["[]", "{}", "7", "\"[1]\""] {
            assert_eq!(tree(text).elements().len(), 0, "{text}");
        }
    }

    #[test]
    fn the_last_of_two_equal_members_counts() {
        let mut node = tree(r#"{"a":{"b":1,"b":{"c":1,"\u0063":2}},"x":0,"x":{"y":3}}"#);
        assert_eq!(node.read(&["a", "b", "c"]).unwrap(), Some(2));
        assert_eq!(node.read(&["x", "y"]).unwrap(), Some(3));
        assert_eq!(
            node.to_value().unwrap(),
            json!({"a": {"b": {"c": 2}}, "x": {"y": 3}})
        );
        assert_eq!(node.take("x").unwrap().to_value().unwrap(), json!({"y": 3}));
        let mut node = tree(r#"{"a":0,"b":1,"b":2}"#);
        assert!(node.take("a").is_some() && node.take("c").is_none());
        assert_eq!(node.take("b").unwrap().to_value().unwrap(), json!(2));
    }

    #[test]
    fn a_wide_object_is_read_and_taken_from_as_a_narrow_one() {
        let members = (0..50_000).chain([7, 7]).enumerate();
        let members: Vec<String> = members.map(|(at, name)| format!("\"n{name}\":{at}")).collect();
        let text = format!("{{{}}}", members.join(","));
        let mut wide = tree(&text);
        // Takes minutes if each of them is looked for among all.
        for name in wide.names(&[]) {
            let at: usize = wide.read(&[name]).unwrap().unwrap();
            assert_eq!(format!("n{}", if at < 50_000 { at } else { 7 }), name);
        }
        assert!(wide.get(&["n"]).is_none() && wide.get(&["n50000"]).is_none() && wide.get(&["o"]).is_none());
        for last in [50_001, 50_000, 7] {
            assert_eq!(wide.take("n7").unwrap().to_value().unwrap(), json!(last));
        }
        assert!(wide.take("n7").is_none());
        assert_eq!(wide.read(&["n49999"]).unwrap(), Some(49_999));
    }

    #[test]
    fn a_value_of_another_shape_is_an_error_and_not_absent() {
        let node = tree(r#"{"a":{"b":7,"c":1e999}}"#);
        assert!(node.read::<String>(&["a", "b"]).is_err());
        assert!(node.get(&["a", "c"]).unwrap().to_value().is_err());
    }

    fn any_json() -> impl Strategy<Value = Value> {
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

    /// Every object in `tree` has the members of `value`, all the way down.
    fn agrees(tree: &Tree<'_>, value: &Value) -> bool {
        let members = value.as_object().into_iter().flatten();
        let all = members
            .into_iter()
            .all(|(name, inner)| tree.get(&[name]).is_some_and(|tree| agrees(tree, inner)));
        all && tree.to_value().unwrap() == *value
    }

    proptest! {
        #[test]
        fn a_tree_is_the_value_it_was_read_from(value in any_json(), levels in 0_u32..5, is_pretty in any::<bool>()) {
            let text = if is_pretty { format!("{value:#}") } else { value.to_string() };
            prop_assert!(agrees(&Tree::parse(&text, levels).unwrap(), &value));
        }

        #[test]
        fn twins_change_nothing(value in any_json(), other in any_json(), levels in 0_u32..5) {
            let pair = json!({"a": &value, "b": &value, "c": &other, "d": &value});
            let text = pair.to_string();
            prop_assert!(agrees(&Tree::parse(&text, levels).unwrap(), &pair));
        }
    }
}
