//! Elements of an array of objects in a draft: read member by member, and changed one by one. Members that no step
//! reads are not parsed.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    Draft, Edits, PathValue, Recorder, RewriteError, Tree,
    edits::{ElementEdits, elements_at},
    rewrite::check_size,
};

/// An element of an array, with the writes so far.
#[derive(Clone, Copy)]
pub(crate) struct Element<'d, 'a> {
    tree: &'d Tree<'a>,
    edits: Option<&'d Edits>,
}

impl<'d, 'a> Element<'d, 'a> {
    /// The value of a member; `None` if it is absent or `null`.
    ///
    /// # Errors
    /// It has another shape than `T`.
    pub(crate) fn read<T: DeserializeOwned>(self, name: &str) -> Result<Option<T>, serde_json::Error> {
        self.find(name).read()
    }

    fn find(self, name: &str) -> PathValue<'d, 'a> {
        let path = &[name];
        match self.edits {
            Some(edits) => PathValue::find(self.tree, edits, path),
            None => self.tree.get(path).map_or(PathValue::Nothing, PathValue::Stored),
        }
    }
}

impl<'a> Draft<'a> {
    /// Elements of the array at `path`, if it is part of the request and all of them are objects; empty if it is
    /// absent.
    pub(crate) fn objects(&self, path: &[&str]) -> Option<Vec<Element<'_, 'a>>> {
        let (tree, edits) = match self.find(path) {
            PathValue::Nothing => return Some(Vec::new()),
            PathValue::Stored(tree) if tree.is_null() => return Some(Vec::new()),
            PathValue::Stored(tree) if tree.is_array() => (tree, None),
            PathValue::EditedElements(tree, edits) => (tree, Some(edits)),
            PathValue::Stored(_) | PathValue::Written(..) | PathValue::Edited(..) => return None,
        };
        let elements = tree.elements().iter().enumerate();
        let objects = elements.map(|(at, tree)| {
            let edits = edits.and_then(|edits| edits.get(&at));
            tree.is_object().then_some(Element { tree, edits })
        });
        objects.collect()
    }

    /// Applies `change` to the member `name` of the element at `at` of the array at `list`, as [`Self::rewrite`] does
    /// for a value. The array must be part of the request and contain only objects: [`Self::objects`] checks that.
    ///
    /// # Errors
    /// What `change` returns; a [`RewriteError`] as with [`Self::rewrite`], or if there is no such element.
    pub(crate) fn rewrite_element<E: From<RewriteError>>(
        &mut self,
        (list, at): (&[&str], usize),
        name: &str,
        change: impl FnOnce(&mut Value) -> Result<(), E>,
    ) -> Result<(), E> {
        let shown = [list, &[name]].concat();
        let objects = self.objects(list).unwrap_or_default();
        let element = objects.get(at).ok_or_else(|| RewriteError::NoElement {
            path: list.join("."),
            at,
        })?;
        let before = element.find(name).to_value();
        let before = before.map_err(|source| RewriteError::read(&shown, source))?;
        check_size(&before, &shown)?;
        let mut after = before.clone();
        change(&mut after)?;
        check_size(&after, &shown)?;
        let mark = self.explanation_mark();
        self.explain(|explanation| explanation.note_element((list, at), name, &before, &after));
        if let Err(failure) = self.record_element((list, at), name, &before, after) {
            self.forget_since(mark);
            return Err(failure.into());
        }
        Ok(())
    }

    /// Records the change of a member of an element.
    fn record_element(
        &mut self,
        (list, at): (&[&str], usize),
        name: &str,
        before: &Value,
        mut after: Value,
    ) -> Result<(), RewriteError> {
        if *before == after {
            return Ok(());
        }
        let elements = self.object.get(list).map(Tree::elements).unwrap_or_default();
        let writes = &mut self.writes;
        let edits: Option<&mut ElementEdits> = elements_at(&mut writes.edits, &self.object, list);
        let (Some(tree), Some(edits)) = (elements.get(at), edits) else {
            let path = list.join(".");
            return Err(RewriteError::NoElement { path, at });
        };
        let mut recorder = Recorder {
            tree,
            edits: edits.entry(at).or_default(),
            changes: &mut writes.changes,
        };
        recorder.record_change(&[name], before, &mut after)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::admission::{
        draft::{Fields as _, WriteError},
        patch,
    };

    fn resources() -> impl Strategy<Value = Value> {
        let amounts = prop_oneof![
            1 => Just(Value::Null),
            4 => prop::collection::btree_map("[abc]", prop::sample::select(vec![json!("1"), json!(2)]), 0..3)
                .prop_map(|amounts| json!(amounts)),
        ];
        prop_oneof![
            1 => Just(Value::Null),
            4 => prop::collection::btree_map("(requests|limits)", amounts, 0..3).prop_map(|members| json!(members)),
        ]
    }

    fn text(resources: &[Option<Value>]) -> String {
        let element = |(at, resources): (usize, &Option<Value>)| {
            let mut element = json!({"name": format!("c{at}"), "x": [1, {"y": 1}]});
            if let Some(resources) = resources {
                element["resources"] = resources.clone();
            }
            element
        };
        let elements: Vec<Value> = resources.iter().enumerate().map(element).collect();
        json!({"spec": {"containers": elements, "volumes": []}}).to_string()
    }

    const LIST: [&str; 2] = ["spec", "containers"];

    proptest! {
        #[test]
        fn an_element_becomes_what_it_becomes_where_the_list_is_rewritten(
            stored in prop::collection::vec(prop::option::of(resources()), 1..4),
            changes in prop::collection::vec((0..4_usize, resources()), 0..5),
        ) {
            let text = text(&stored);
            let draft = || Draft::new(Tree::parse(&text, 2).unwrap(), None);
            let (mut by_element, mut whole) = (draft(), draft());
            for draft in [&mut by_element, &mut whole] {
                draft.begin_explanation();
            }
            for (at, value) in &changes {
                let at = at % stored.len();
                by_element
                    .rewrite_element((&LIST, at), "resources", |there| {
                        *there = value.clone();
                        Ok::<(), RewriteError>(())
                    })
                    .unwrap();
                whole
                    .rewrite(&LIST, |list| {
                        let element = list[at].as_object_mut().unwrap();
                        let is_there = element.get("resources").is_some_and(|there| !there.is_null());
                        if value.is_null() && is_there {
                            element.remove("resources");
                        } else if !value.is_null() {
                            element.insert("resources".to_owned(), value.clone());
                        }
                        Ok::<(), RewriteError>(())
                    })
                    .unwrap();
                for name in ["name", "resources", "x"] {
                    let read: Option<Value> = by_element.objects(&LIST).unwrap()[at].read(name).unwrap();
                    let there = whole.read::<Value>(&LIST).unwrap().unwrap()[at].get(name).cloned();
                    prop_assert_eq!(read, there.filter(|there| !there.is_null()));
                }
            }
            for path in [&[][..], &["spec"], &LIST] {
                let read = |draft: &Draft<'_>| draft.read::<Value>(path).unwrap().unwrap();
                prop_assert_eq!(read(&by_element), read(&whole));
            }
            let elements = |draft: &Draft<'_>| draft.with_elements(&LIST, |elements| {
                elements.iter().map(|element| element.to_value().unwrap()).collect::<Vec<_>>()
            });
            prop_assert_eq!(elements(&by_element), elements(&whole));
            prop_assert_eq!(by_element.take_explanation(), whole.take_explanation());
            let operations = |draft| patch::into_operations(draft).0;
            let (by_element, whole) = (operations(by_element), operations(whole));
            let patched = |patch| {
                let mut object: Value = serde_json::from_str(&text).unwrap();
                json_patch::patch(&mut object, patch).unwrap();
                object
            };
            prop_assert_eq!(patched(&by_element), patched(&whole));
            // Of several changes one after the other, each is recorded.
            if changes.len() == 1 {
                let sorted = |patch: &json_patch::Patch| {
                    let mut texts: Vec<String> =
                        patch.0.iter().map(|operation| json!(operation).to_string()).collect();
                    texts.sort_unstable();
                    texts
                };
                prop_assert_eq!(sorted(&by_element), sorted(&whole));
            }
        }
    }

    #[test]
    fn an_array_that_was_written_or_has_other_elements_has_no_objects() {
        let text = r#"{"a": [{}, 1], "b": {"c": 1}, "d": null, "e": [{"x": 1}]}"#;
        let mut draft = Draft::new(Tree::parse(text, 1).unwrap(), None);
        let objects = |draft: &Draft<'_>, name| draft.objects(&[name]).map(|objects| objects.len());
        assert_eq!(
            ["a", "b", "d", "e", "f"].map(|name| objects(&draft, name)),
            [None, None, Some(0), Some(1), Some(0)]
        );
        let change = |draft: &mut Draft<'_>, at| {
            draft.rewrite_element((&["e"], at), "x", |value| {
                *value = json!(2);
                Ok::<(), RewriteError>(())
            })
        };
        assert!(matches!(
            change(&mut draft, 1),
            Err(RewriteError::NoElement { at: 1, .. })
        ));
        change(&mut draft, 0).unwrap();
        assert_eq!(draft.changes(), 1);
        change(&mut draft, 0).unwrap();
        assert_eq!((draft.changes(), objects(&draft, "e")), (1, Some(1)));
        let error: WriteError = draft.set(&["e", "x"], 1).unwrap_err();
        assert_eq!(error.to_string(), "e.x lies inside a value that is not an object");
        draft.set(&["e"], json!([{"x": 3}])).unwrap();
        assert_eq!(objects(&draft, "e"), None);
        draft.remove(&["e"]);
        assert_eq!(draft.read::<Value>(&["e"]).unwrap(), None);
    }
}
