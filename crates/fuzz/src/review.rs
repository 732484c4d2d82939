//! Fuzz target: compares reviews with serde_json, and the writes of steps with serde_json and json-patch.

use std::collections::BTreeSet;

use headroom_webhook::admission::{
    draft::{Draft, Fields as _, Tree},
    patch,
    review::{self, Review},
};
use serde_json::{Map, Value, json, value::RawValue};

/// Names that paths of writes are made of; some need escaping in pointers or in JSON.
const NAMES: [&str; 12] = [
    "metadata",
    "annotations",
    "labels",
    "status",
    "allocatable",
    "conditions",
    "cpu",
    "a",
    "a/b",
    "~1",
    "",
    "é\"\\",
];
/// Writes that are made of one input.
const WRITES: usize = 16;
/// Members and names of a path.
const DEPTH: usize = 4;

/// A write, as a step makes it and as anybody would make it in a parsed value.
enum Write {
    Set(Vec<&'static str>, Value),
    Remove(Vec<&'static str>),
}

/// A body and, after the first zero byte, what steps write.
pub fn check(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (body, script) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let text = str::from_utf8(body);
    let value = text
        .ok()
        .and_then(|text| serde_json::from_str::<Value>(text).ok());
    match review::decode(body) {
        Err(error) => assert_eq!(error.answer().0, 400, "{}", error.reason()),
        Ok(review) => {
            if let Some(value) = &value {
                is_what_was_asked(&review, value);
            }
        }
    }
    let Ok(text) = text else { return };
    match (Tree::parse(text, 4), &value) {
        (Err(error), Some(_)) => panic!("refused: {error}"),
        (Err(_), None) => {}
        (Ok(_), None) => assert!(
            serde_json::from_str::<&RawValue>(text).is_ok(),
            "not JSON, and taken"
        ),
        (Ok(tree), Some(value)) => {
            is_same(&tree, value);
            if value.is_object() {
                does_what_the_writes_would_do(text, value, &writes(script));
            }
        }
    }
}

fn is_what_was_asked(review: &Review<'_>, value: &Value) {
    let Review {
        version,
        request,
        object,
        old_object,
    } = review;
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    assert_eq!(version.name(), text("/apiVersion"));
    assert_eq!(request.operation.name(), text("/request/operation"));
    for (is, pointer) in [
        (&request.uid, "/request/uid"),
        (&request.group, "/request/resource/group"),
        (&request.version, "/request/resource/version"),
        (&request.resource, "/request/resource/resource"),
        (&request.sub_resource, "/request/subResource"),
        (&request.namespace, "/request/namespace"),
        (&request.name, "/request/name"),
        (&request.user.name, "/request/userInfo/username"),
    ] {
        assert_eq!(is, text(pointer), "{pointer}");
    }
    let is_dry_run = value.pointer("/request/dryRun").and_then(Value::as_bool);
    assert_eq!(request.is_dry_run, is_dry_run.unwrap_or_default());
    let groups = value
        .pointer("/request/userInfo/groups")
        .and_then(Value::as_array);
    let groups: Vec<_> = groups.into_iter().flatten().filter_map(Value::as_str).collect();
    assert_eq!(request.user.groups, groups);
    for (is, pointer) in [(object, "/request/object"), (old_object, "/request/oldObject")] {
        let there = value.pointer(pointer).filter(|value| !value.is_null());
        let is = is.as_ref().map(|tree| tree.to_value().expect("a value"));
        assert_eq!(is.as_ref(), there, "{pointer}");
    }
}

/// The same value, found member by member.
fn is_same(tree: &Tree<'_>, value: &Value) {
    assert_eq!(&tree.to_value().expect("a value"), value);
    assert_eq!(tree.is_null(), value.is_null());
    assert_eq!(tree.is_object(), value.is_object());
    let names: BTreeSet<&str> = tree.names(&[]).into_iter().collect();
    let members = value.as_object().into_iter().flatten();
    let expected: BTreeSet<&str> = members.map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, expected);
    for name in names {
        is_same(tree.get(&[name]).expect("a member"), &value[name]);
    }
    let elements = value.as_array().map(Vec::as_slice).unwrap_or_default();
    assert_eq!(tree.elements().len(), elements.len());
    for (tree, value) in tree.elements().iter().zip(elements) {
        is_same(tree, value);
    }
}

/// The recorded writes read as if made in the whole object, and so does the patch; put back, nothing is left of them.
fn does_what_the_writes_would_do(text: &str, object: &Value, writes: &[Write]) {
    let tree = || Tree::parse(text, 2).expect("it was parsed before");
    let mut draft = Draft::new(tree(), Some(tree()));
    let mut expected = object.clone();
    for write in writes {
        if write.record(&mut draft) {
            write.apply(&mut expected);
        }
        let read: Option<Value> = draft.read(&[]).expect("a value");
        assert_eq!(read.as_ref(), Some(&expected));
    }
    let operations = patch::operations(&draft);
    let mut patched = object.clone();
    json_patch::patch(&mut patched, &operations).expect("a patch that applies");
    assert_eq!(patched, expected);
    assert!(patched != *object || operations.0.is_empty(), "{operations:?}");

    let written = expected.as_object().into_iter().flat_map(Map::keys);
    let stored = object.as_object().into_iter().flat_map(Map::keys);
    for name in written.chain(stored).collect::<BTreeSet<_>>() {
        draft.put_back(&[name]).expect("what was there fits");
    }
    assert_eq!(draft.read::<Value>(&[]).expect("a value").as_ref(), Some(object));
    assert_eq!(patch::operations(&draft).0, []);
}

/// Writes as the bytes say.
fn writes(script: &[u8]) -> Vec<Write> {
    let mut bytes = script.iter().copied().map(usize::from);
    let mut writes = Vec::new();
    while let Some(kind) = bytes.next().filter(|_| writes.len() < WRITES) {
        let length = 1 + kind / 2 % DEPTH;
        let path: Vec<_> = bytes
            .by_ref()
            .take(length)
            .filter_map(|byte| NAMES.get(byte % NAMES.len()).copied())
            .collect();
        if path.is_empty() {
            break;
        }
        writes.push(if kind % 2 == 0 {
            Write::Remove(path)
        } else {
            Write::Set(path, value(bytes.next().unwrap_or_default()))
        });
    }
    writes
}

fn value(byte: usize) -> Value {
    match byte % 10 {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(0),
        3 => json!(1.5),
        4 => json!("x"),
        5 => json!([]),
        6 => json!([1, {"a": null}]),
        7 => json!({}),
        8 => json!({"a": {"cpu": "4"}, "": null}),
        _ => json!({"annotations": {"a/b": "~"}}),
    }
}

impl Write {
    /// False if the draft refuses it.
    fn record(&self, draft: &mut Draft<'_>) -> bool {
        match self {
            Self::Set(path, value) => draft.set(path, value.clone()).is_ok(),
            Self::Remove(path) => {
                draft.remove(path);
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
                    let members = value.as_object_mut().expect("the draft took it for an object");
                    members.entry(*name).or_insert(Value::Null)
                });
                *target = new.clone();
            }
            Self::Remove(path) => {
                let Some((last, parents)) = path.split_last() else {
                    return;
                };
                let parent = parents.iter().try_fold(value, |value, name| value.get_mut(*name));
                if let Some(members) = parent.and_then(Value::as_object_mut) {
                    members.remove(*last);
                }
            }
        }
    }
}
