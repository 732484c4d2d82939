//! Fuzz target: compares parsed reviews with serde_json, and writes of steps with serde_json and json-patch.

mod alphabet;
mod rewrite;
mod write;

use std::collections::BTreeSet;

use headroom_webhook::admission::{
    draft::{Draft, Fields as _, Tree},
    patch,
    review::{self, Review},
};
use json_patch::{Patch, PatchOperation};
use serde_json::{Map, Value, value::RawValue};

use self::write::{Write, writes};

/// Maximum length of paths in minimal patches, in bytes: a value at a longer path may be replaced as a whole.
const LONGEST_PATH: usize = 512;
/// Maximum length of arrays in minimal patches: a longer array may be replaced as a whole if its order changed.
const MOST_MOVES: usize = 256;

/// The input is a body and, after the first zero byte, a script of writes.
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
                check_fields(&review, value);
            }
        }
    }
    let Ok(text) = text else { return };
    match (Tree::parse(text, 4), &value) {
        (Err(error), Some(_)) => panic!("refused: {error}"),
        (Err(_), None) => {}
        (Ok(_), None) => assert!(
            serde_json::from_str::<&RawValue>(text).is_ok(),
            "accepted text that is not JSON"
        ),
        (Ok(tree), Some(value)) => {
            check_same(&tree, value);
            if value.is_object() {
                check_writes(text, value, &writes(script));
            }
        }
    }
}

fn check_fields(review: &Review<'_>, value: &Value) {
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

/// Checks that the tree equals the value, member by member.
fn check_same(tree: &Tree<'_>, value: &Value) {
    assert_eq!(&tree.to_value().expect("a value"), value);
    assert_eq!(tree.is_null(), value.is_null());
    assert_eq!(tree.is_object(), value.is_object());
    let names: BTreeSet<&str> = tree.names(&[]).into_iter().collect();
    let members = value.as_object().into_iter().flatten();
    let expected: BTreeSet<&str> = members.map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, expected);
    for name in names {
        check_same(tree.get(&[name]).expect("a member"), &value[name]);
    }
    let elements = value.as_array().map(Vec::as_slice).unwrap_or_default();
    assert_eq!(tree.elements().len(), elements.len());
    for (tree, value) in tree.elements().iter().zip(elements) {
        check_same(tree, value);
    }
}

/// Checks that recorded writes and the patch have the same effect as writes to the complete object, and that `put_back` undoes
/// them.
fn check_writes(text: &str, object: &Value, writes: &[Write]) {
    let tree = || Tree::parse(text, 2).expect("the text was parsed before");
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
    if !writes.iter().any(|write| matches!(write, Write::Set(..))) {
        check_minimal(object, &operations);
    }

    let written = expected.as_object().into_iter().flat_map(Map::keys);
    let stored = object.as_object().into_iter().flat_map(Map::keys);
    for name in written.chain(stored).collect::<BTreeSet<_>>() {
        draft.put_back(&[name]).expect("stored members can be put back");
    }
    assert_eq!(draft.read::<Value>(&[]).expect("a value").as_ref(), Some(object));
    assert_eq!(patch::operations(&draft).0, []);
}

/// Checks that no operation replaces unchanged members, except at long paths and in long arrays.
fn check_minimal(object: &Value, operations: &Patch) {
    let mut value = object.clone();
    let is_exempt = |before: &Value, path: &str| {
        path.len() > LONGEST_PATH
            || before
                .as_array()
                .is_some_and(|elements| elements.len() > MOST_MOVES)
    };
    for operation in &operations.0 {
        if let PatchOperation::Replace(replace) = operation {
            let before = value
                .pointer(replace.path.as_str())
                .expect("something to replace");
            assert!(
                is_exempt(before, replace.path.as_str()) || !have_common(before, &replace.value),
                "{before} becomes {operation:?}"
            );
        }
        json_patch::patch(&mut value, std::slice::from_ref(operation)).expect("an operation that applies");
    }
}

/// True if both values have an equal member or element at the same pointer.
fn have_common(one: &Value, other: &Value) -> bool {
    one == other
        || match (one, other) {
            (Value::Object(one), Value::Object(other)) => one
                .iter()
                .any(|(name, one)| other.get(name).is_some_and(|other| have_common(one, other))),
            (Value::Array(one), Value::Array(other)) => {
                one.iter().zip(other).any(|(one, other)| have_common(one, other))
            }
            _ => false,
        }
}
