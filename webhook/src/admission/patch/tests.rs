//! Tests of patches, compared with the same writes in the parsed object.

mod raw;
mod rewrites;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::admission::draft::Fields;

/// A write, as a step makes it and as a person would make it in a parsed value.
#[derive(Debug, Clone)]
enum Write {
    Set(Vec<String>, Value),
    Remove(Vec<String>),
}

impl Write {
    fn record(&self, draft: &mut Draft<'_>) -> bool {
        match self {
            Self::Set(path, value) => draft.set(&names(path), value.clone()).is_ok(),
            Self::Remove(path) => {
                draft.remove(&names(path));
                true
            }
        }
    }

    fn apply(&self, value: &mut Value) {
        match self {
            Self::Set(path, new) => {
                let target = path.iter().fold(value, |value, name| {
                    if value.is_null() {
                        *value = json!({});
                    }
                    value.as_object_mut().unwrap().entry(name).or_insert(Value::Null)
                });
                *target = new.clone();
            }
            Self::Remove(path) => {
                let (last, parents) = path.split_last().unwrap();
                let parent = parents.iter().try_fold(value, |value, name| value.get_mut(name));
                if let Some(members) = parent.and_then(Value::as_object_mut) {
                    members.remove(last);
                }
            }
        }
    }
}

fn names(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

fn patched(text: &str, writes: &[Write]) -> (Value, Patch) {
    let mut draft = Draft::new(Tree::parse(text, 2).unwrap(), None);
    for write in writes {
        write.record(&mut draft);
    }
    let patch = operations(&draft);
    let mut value: Value = serde_json::from_str(text).unwrap();
    json_patch::patch(&mut value, &patch).unwrap();
    (value, patch)
}

fn set(path: &[&str], value: impl Into<Value>) -> Write {
    Write::Set(path.iter().map(|&name| name.to_owned()).collect(), value.into())
}

#[test]
fn a_missing_annotations_map_is_added_whole_and_keys_are_escaped() {
    let key = "node.koordinator.sh/raw~allocatable";
    let writes = [set(&["metadata", "annotations", key], "x")];
    let (_, absent) = patched(r#"{"metadata":{"name":"n"}}"#, &writes);
    let (_, null) = patched(r#"{"metadata":{"annotations":null}}"#, &writes);
    let (_, there) = patched(r#"{"metadata":{"annotations":{"a":"b"}}}"#, &writes);
    insta::assert_json_snapshot!([absent, null, there], @r#"
    [
      [
        {
          "op": "add",
          "path": "/metadata/annotations",
          "value": {
            "node.koordinator.sh/raw~allocatable": "x"
          }
        }
      ],
      [
        {
          "op": "replace",
          "path": "/metadata/annotations",
          "value": {
            "node.koordinator.sh/raw~allocatable": "x"
          }
        }
      ],
      [
        {
          "op": "add",
          "path": "/metadata/annotations/node.koordinator.sh~1raw~0allocatable",
          "value": "x"
        }
      ]
    ]
    "#);
}

#[test]
fn a_value_written_away_and_back_takes_no_operation() {
    let writes = [
        set(&["a", "b"], 2),
        Write::Remove(vec!["a".to_owned(), "c".to_owned()]),
        set(&["a", "b"], 1),
        set(&["a", "c"], json!({"d": [1]})),
    ];
    let (_, patch) = patched(r#"{"a":{"b":1,"c":{"d":[1]}}}"#, &writes);
    assert_eq!(patch.0, []);
}

/// Few names, so that paths meet; some need escaping in pointers or in JSON.
fn any_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "a/b", "~", "~1", "", "0", "é\"\\"]).prop_map(str::to_owned)
}

fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        (0..3).prop_map(Value::from),
        "[a-c]?".prop_map(Value::from)
    ];
    scalar.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            2 => proptest::collection::btree_map(any_name(), inner.clone(), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
            1 => proptest::collection::vec(inner, 0..3).prop_map(Value::from),
        ]
    })
}

fn any_write() -> impl Strategy<Value = Write> {
    let path = || proptest::collection::vec(any_name(), 1..5);
    prop_oneof![
        2 => (path(), any_value()).prop_map(|(path, value)| Write::Set(path, value)),
        1 => path().prop_map(Write::Remove),
    ]
}

proptest! {
    #[test]
    fn the_patch_does_what_the_writes_would_do_to_the_whole_object(
        members in proptest::collection::btree_map(any_name(), any_value(), 0..4),
        writes in proptest::collection::vec(any_write(), 0..8),
    ) {
        let object = Value::Object(members.into_iter().collect());
        let text = object.to_string();
        let mut draft = Draft::new(Tree::parse(&text, 2).unwrap(), None);
        let mut expected = object.clone();
        for write in &writes {
            if write.record(&mut draft) {
                write.apply(&mut expected);
            }
            prop_assert_eq!(&draft.read::<Value>(&[]).unwrap().unwrap(), &expected);
        }
        let patch = operations(&draft);
        let mut actual = object.clone();
        json_patch::patch(&mut actual, &patch).unwrap();
        prop_assert_eq!(&actual, &expected);
        prop_assert!(actual != object || patch.0.is_empty());
    }
}
