//! [`Draft::rewrite_each`]: several changes of a draft, each all or nothing. Only the parts that they may write are read, once for
//! all of them.

use headroom_rules::explain::Explanation;
use serde_json::{Map, Value};

use super::{
    Draft, PathValue,
    rewrite::{Detail, RewriteError, check_size},
};

/// Most parts that are read and recorded one by one; beyond, the object is read whole.
const MOST_PARTS: usize = 256;

/// Places in an object in order, none inside of another one, each as names from the outside in.
struct Parts<'p>(Vec<&'p [String]>);

impl<'p> Parts<'p> {
    fn new(places: impl IntoIterator<Item = &'p [String]>) -> Self {
        let mut parts: Vec<&[String]> = places.into_iter().collect();
        parts.sort_unstable();
        // A place stands behind those around it.
        parts.dedup_by(|place, around| place.starts_with(around));
        if parts.len() > MOST_PARTS {
            parts = vec![&[]];
        }
        Self(parts)
    }
}

impl Draft<'_> {
    /// Applies each of `changes` to the object, with the results of those before it. A failed change leaves nothing;
    /// the results of the others are recorded once. The effect equals one [`rewrite`](Self::rewrite) for each.
    ///
    /// The changes see the values at `places` and the objects around them, and their writes elsewhere are lost. A
    /// place is a list of names, outermost first; without names it is the whole object. `note` explains the effect of
    /// the change of that place in their order.
    ///
    /// # Errors
    /// A [`RewriteError`] if a value cannot be read, or there is no place for the new one: nothing is recorded then. What one
    /// change returns, or why its value is not taken, is its own result.
    pub fn rewrite_each<'p, T, E: From<RewriteError>>(
        &mut self,
        places: impl IntoIterator<Item = &'p [String]>,
        changes: impl IntoIterator<Item = impl FnOnce(&mut Value) -> Result<T, E>>,
        note: impl Fn(&mut Explanation, usize, &Value, &Value),
    ) -> Result<Vec<Result<T, E>>, RewriteError> {
        let parts = Parts::new(places);
        let before = self.view(&parts)?;
        check_size(&before, &[])?;
        let mut after: Option<Value> = None;
        let mut results = Vec::new();
        let mark = self.explanation_mark();
        for (index, change) in changes.into_iter().enumerate() {
            let mut changed = after.as_ref().unwrap_or(&before).clone();
            let result = change(&mut changed);
            let result = result.and_then(|done| {
                if !changed.is_object() {
                    return Err(RewriteError::NoObject.into());
                }
                check_size(&changed, &[])?;
                Ok(done)
            });
            if result.is_ok() {
                let last = after.as_ref().unwrap_or(&before);
                self.explain(|explanation| note(explanation, index, last, &changed));
                after = Some(changed);
            }
            results.push(result);
        }
        if let Some(mut after) = after {
            let checkpoint = self.checkpoint();
            if let Err(failure) = self.record_parts(&parts, &before, &mut after) {
                self.roll_back(checkpoint);
                self.forget_since(mark);
                return Err(failure);
            }
        }
        Ok(results)
    }

    /// Object reduced to some parts.
    fn view(&self, Parts(parts): &Parts<'_>) -> Result<Value, RewriteError> {
        let mut view = Value::Object(Map::new());
        let mut way = Vec::new();
        for part in parts {
            self.show(&mut view, &mut way, part)?;
        }
        Ok(view)
    }

    /// Adds the value behind `way` to the view. If a value on the path is not an object, the view contains that
    /// value.
    fn show<'p>(
        &self,
        view: &mut Value,
        way: &mut Vec<&'p str>,
        behind: &'p [String],
    ) -> Result<(), RewriteError> {
        let is_object = match self.find(way) {
            PathValue::Nothing => return Ok(()),
            PathValue::Written(value, _) => value.is_object(),
            PathValue::Stored(tree) => tree.is_object(),
            PathValue::Edited(..) => true,
            PathValue::EditedElements(..) => false,
        };
        let Some((name, rest)) = behind.split_first().filter(|_| is_object) else {
            *view = self.value(way)?;
            return Ok(());
        };
        if view.is_null() {
            *view = Value::Object(Map::new());
        }
        let Value::Object(members) = view else {
            return Ok(());
        };
        way.push(name);
        let shown = match self.find(way) {
            PathValue::Nothing => Ok(()),
            PathValue::Written(..)
            | PathValue::Stored(_)
            | PathValue::Edited(..)
            | PathValue::EditedElements(..) => {
                self.show(members.entry(name).or_insert(Value::Null), way, rest)
            }
        };
        way.pop();
        shown
    }

    /// Records the change of each part.
    fn record_parts(
        &mut self,
        Parts(parts): &Parts<'_>,
        before: &Value,
        after: &mut Value,
    ) -> Result<(), RewriteError> {
        let detail = Detail::new(before, after);
        for part in parts {
            let mut way = part.iter().map(String::as_str).collect();
            let before = part
                .iter()
                .try_fold(before, |value, name| value.get(name.as_str()));
            let after = part
                .iter()
                .try_fold(&mut *after, |value, name| value.get_mut(name.as_str()));
            self.recorder().record_part(&mut way, before, after, detail)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::admission::{
        draft::{Fields as _, Tree},
        patch,
    };

    const POD: &str =
        r#"{"metadata":{"name":"p","labels":{"a":"1"}},"spec":{"containers":[{"name":"c"}],"nodeName":""}}"#;

    fn draft() -> Draft<'static> {
        Draft::new(Tree::parse(POD, 2).unwrap(), None)
    }

    /// Typical changes of profiles, and two that fail.
    fn change(kind: usize, object: &mut Value) -> Result<(), RewriteError> {
        match kind {
            0 => object["metadata"]["labels"]["b"] = json!("2"),
            1 => object["metadata"]["labels"] = Value::Null,
            2 => object["spec"]["containers"]
                .as_array_mut()
                .unwrap()
                .push(json!({"name": "d"})),
            3 => object["spec"]["priority"] = json!(7),
            4 => object["metadata"]["annotations"] = json!({"x": "y"}),
            5 => *object = json!([]),
            _ => {
                object["spec"] = Value::Null;
                return Err(RewriteError::NoObject);
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn many_changes_at_once_are_as_one_after_the_other(kinds in prop::collection::vec(0..7_usize, 0..8)) {
            let (mut at_once, mut each) = (draft(), draft());
            let changes = kinds.iter().map(|&kind| move |object: &mut Value| change(kind, object));
            let results = at_once.rewrite_each([&[][..]], changes, |_, _, _, _| {}).unwrap();
            let results: Vec<bool> = results.iter().map(Result::is_ok).collect();
            let expected: Vec<bool> =
                kinds.iter().map(|&kind| each.rewrite(&[], |object| change(kind, object)).is_ok()).collect();
            prop_assert_eq!(results, expected);
            let whole = |draft: &Draft<'_>| draft.read::<Value>(&[]).unwrap().unwrap();
            prop_assert_eq!(whole(&at_once), whole(&each));
            let operations = |draft| serde_json::to_value(patch::into_operations(draft).0).unwrap();
            prop_assert_eq!(operations(at_once), operations(each));
        }
    }

    /// Sets a member of metadata or of the specification, if the parent has the right type.
    fn set(object: &mut Value, [outer, inner]: [&str; 2], value: &Value) -> Result<(), RewriteError> {
        let members = object.as_object_mut().ok_or(RewriteError::NoObject)?;
        let outer = members.entry(outer).or_insert(Value::Null);
        if outer.is_null() {
            *outer = json!({});
        }
        let members = outer.as_object_mut().ok_or(RewriteError::NoObject)?;
        if value.is_null() {
            members.remove(inner);
        } else {
            members.insert(inner.to_owned(), value.clone());
        }
        Ok(())
    }

    fn part() -> impl Strategy<Value = Value> {
        let member = prop_oneof![
            Just(Value::Null),
            Just(json!("x")),
            Just(json!({"c": "1"})),
            Just(json!([{"name": "c"}])),
        ];
        let object = prop::collection::btree_map("[ab]", member, 0..3).prop_map(|members| json!(members));
        prop_oneof![4 => object, 1 => Just(Value::Null), 1 => Just(json!("scalar"))]
    }

    proptest! {
        #[test]
        fn changes_that_see_a_part_come_to_what_they_come_to_with_the_whole(
            object in prop::collection::btree_map("(metadata|spec|status)", part(), 0..4),
            written in prop::option::of(part()),
            sets in prop::collection::vec((prop::sample::select(vec!["metadata", "spec"]), "[abc]", part()), 0..6),
        ) {
            let text = json!(object).to_string();
            let draft = || {
                let mut draft = Draft::new(Tree::parse(&text, 2).unwrap(), None);
                if let Some(value) = &written {
                    drop(draft.set(&["spec", "a"], value.clone()));
                }
                draft
            };
            let (mut partly, mut whole) = (draft(), draft());
            let changes = || sets.iter().map(|(outer, inner, value)| {
                move |object: &mut Value| set(object, [outer, inner], value)
            });
            let places: Vec<[String; 2]> =
                sets.iter().map(|(outer, inner, _)| [(*outer).to_owned(), inner.clone()]).collect();
            let of_part: Vec<bool> =
                partly.rewrite_each(places.iter().map(|place| &place[..]), changes(), |_, _, _, _| {}).unwrap().iter().map(Result::is_ok).collect();
            let of_whole: Vec<bool> =
                whole.rewrite_each([&[][..]], changes(), |_, _, _, _| {}).unwrap().iter().map(Result::is_ok).collect();
            prop_assert_eq!(of_part, of_whole);
            // An object that is created for nothing is not recorded.
            let content = |draft: &Draft<'_>| {
                let mut content = draft.read::<Value>(&[]).unwrap().unwrap();
                let members = content.as_object_mut().unwrap();
                members.retain(|_, member| !(member.is_null() || *member == json!({})));
                content
            };
            prop_assert_eq!(content(&partly), content(&whole));
        }
    }

    #[test]
    fn a_change_that_writes_nowhere_sees_an_empty_object() {
        let changes = [|object: &mut Value| -> Result<bool, RewriteError> { Ok(*object == json!({})) }];
        let mut draft = draft();
        let results = draft.rewrite_each([], changes, |_, _, _, _| {}).unwrap();
        assert!(matches!(results.as_slice(), [Ok(true)]));
        assert_eq!(draft.changes(), 0);
    }

    #[test]
    fn too_many_parts_are_the_whole() {
        let names: Vec<String> = (0..=MOST_PARTS).map(|index| index.to_string()).collect();
        let Parts(parts) = Parts::new(names.iter().map(slice::from_ref));
        assert_eq!(parts, [&[""; 0][..]]);
        let places = ["a.b", "b", "a", "b.c", "a.d", "a"];
        let places = places.map(|place| place.split('.').map(str::to_owned).collect::<Vec<_>>());
        let Parts(parts) = Parts::new(places.iter().map(Vec::as_slice));
        assert_eq!(parts, [&["a".to_owned()], &["b".to_owned()]]);
    }

    #[test]
    fn without_a_change_that_succeeds_nothing_is_recorded() {
        let mut draft = draft();
        let changes = [5, 6].map(|kind| move |object: &mut Value| change(kind, object));
        let results = draft.rewrite_each([&[][..]], changes, |_, _, _, _| {}).unwrap();
        assert!(results.iter().all(Result::is_err));
        assert_eq!(draft.changes(), 0);
    }
}
