//! Properties of patches after rewrites: they repeat the rewrites, contain only differences, and leave all other
//! bytes unchanged.

use super::{raw::RawJson, *};
use crate::admission::draft::RewriteError;

/// A member that no change touches; its value differs in each object.
const UNKNOWN: &str = "unknown";
/// Texts of numbers and escapes that are written otherwise once they were parsed.
const ODD: [&str; 6] = [
    "1.0",
    "1E2",
    "-0",
    "123456789012345678901234567890",
    r#""\u0041\/""#,
    r#"{ "a" : [ 1e0 ,null] , "name":"\t" }"#,
];

/// Change inside a parsed value: the positions of members and elements, and the new value.
#[derive(Debug, Clone)]
struct Change {
    way: Vec<usize>,
    act: Act,
}

/// Change of the value at the end of the path; nothing if the value has another type.
#[derive(Debug, Clone)]
enum Act {
    SetMember(String, Value),
    RemoveMember(usize),
    Insert(usize, Value),
    RemoveElement(usize),
    Swap(usize, usize),
    Replace(Value),
}

/// A call of a draft.
#[derive(Debug, Clone)]
enum Call {
    Write(Write),
    Rewrite(Vec<String>, Vec<Change>),
}

impl Change {
    fn apply(&self, value: &mut Value) {
        let mut target = value;
        for step in &self.way {
            let inside = match target {
                Value::Object(members) => {
                    let known = members.iter_mut().filter(|(name, _)| *name != UNKNOWN);
                    known.map(|(_, value)| value).collect::<Vec<_>>()
                }
                Value::Array(elements) => elements.iter_mut().collect(),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return,
            };
            let length = inside.len().max(1);
            let Some(next) = inside.into_iter().nth(step % length) else {
                return;
            };
            target = next;
        }
        match (&self.act, target) {
            (Act::Replace(value), target) => *target = value.clone(),
            (Act::SetMember(name, value), Value::Object(members)) => {
                members.insert(name.clone(), value.clone());
            }
            (Act::RemoveMember(at), Value::Object(members)) => {
                let names: Vec<_> = members.keys().filter(|name| *name != UNKNOWN).cloned().collect();
                names
                    .get(at % names.len().max(1))
                    .map(|name| members.remove(name));
            }
            (Act::Insert(at, value), Value::Array(elements)) => {
                elements.insert(at % (elements.len() + 1), value.clone());
            }
            (Act::RemoveElement(at), Value::Array(elements)) if !elements.is_empty() => {
                elements.remove(at % elements.len());
            }
            (Act::Swap(one, other), Value::Array(elements)) if !elements.is_empty() => {
                let length = elements.len();
                elements.swap(one % length, other % length);
            }
            _ => {}
        }
    }
}

impl Call {
    /// False if the draft refuses it.
    fn record(&self, draft: &mut Draft<'_>) -> bool {
        match self {
            Self::Write(write) => write.record(draft),
            Self::Rewrite(path, changes) => rewrite(draft, path, changes).is_ok(),
        }
    }

    /// Does the same to the parsed object.
    fn apply(&self, object: &mut Value) {
        let Self::Rewrite(path, changes) = self else {
            let Self::Write(write) = self else { return };
            return write.apply(object);
        };
        let there = path
            .iter()
            .try_fold(&mut *object, |value, name| value.get_mut(name));
        let before = there.map(|value| value.clone()).unwrap_or_default();
        let mut after = before.clone();
        for change in changes {
            change.apply(&mut after);
        }
        if after == before {
            return;
        }
        if path.is_empty() {
            *object = after;
        } else if after.is_null() {
            Write::Remove(path.clone()).apply(object);
        } else {
            Write::Set(path.clone(), after).apply(object);
        }
    }
}

fn rewrite(draft: &mut Draft<'_>, path: &[String], changes: &[Change]) -> Result<(), RewriteError> {
    draft.rewrite(&names(path), |value| {
        for change in changes {
            change.apply(value);
        }
        Ok(())
    })
}

/// True if something inside of both is the same at the same pointer.
fn share_something(one: &Value, other: &Value) -> bool {
    let is_shared = |one: &Value, other: &Value| one == other || share_something(one, other);
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => one
            .iter()
            .any(|(name, one)| other.get(name).is_some_and(|other| is_shared(one, other))),
        (Value::Array(one), Value::Array(other)) => {
            one.iter().zip(other).any(|(one, other)| is_shared(one, other))
        }
        _ => false,
    }
}

/// No operation replaces something that is the same before and after.
fn is_minimal(object: &Value, patch: &Patch) {
    let mut value = object.clone();
    for operation in &patch.0 {
        if let PatchOperation::Replace(replace) = operation {
            let before = value.pointer(replace.path.as_str()).unwrap();
            assert!(!share_something(before, &replace.value), "{before} {replace:?}");
            assert_ne!(before, &replace.value);
        }
        json_patch::patch(&mut value, std::slice::from_ref(operation)).unwrap();
    }
}

/// Rewrites the object of a text and returns the patch with the text after it.
fn rewritten(text: &str, path: &[&str], change: impl FnOnce(&mut Value)) -> (Patch, RawJson) {
    let mut draft = Draft::new(Tree::parse(text, 2).unwrap(), None);
    let result: Result<(), RewriteError> = draft.rewrite(path, |value| {
        change(value);
        Ok(())
    });
    result.unwrap();
    let patch = operations(&draft);
    let mut raw = RawJson::new(text);
    raw.patch(&patch);
    let mut value: Value = serde_json::from_str(text).unwrap();
    json_patch::patch(&mut value, &patch).unwrap();
    assert_eq!(Some(value), draft.read(&[]).unwrap());
    (patch, raw)
}

#[test]
fn a_container_in_front_of_others_is_one_operation() {
    let text = r#"{"spec":{"containers":[{"name":"c","cpu":1.0}]}}"#;
    let (patch, mut raw) = rewritten(text, &["spec"], |spec| {
        let containers = spec["containers"].as_array_mut().unwrap();
        containers.insert(0, json!({"name": "side"}));
    });
    insta::assert_json_snapshot!(patch, @r#"
    [
      {
        "op": "add",
        "path": "/spec/containers/0",
        "value": {
          "name": "side"
        }
      }
    ]
    "#);
    let pointer = json_patch::jsonptr::Pointer::from_static("/spec/containers/1");
    assert!(matches!(raw.get(pointer), RawJson::Text(text) if text == r#"{"name":"c","cpu":1.0}"#));
}

#[test]
fn elements_change_inside_then_go_from_the_end_then_move_and_come() {
    let text = r#"{"containers":[{"name":"a"},{"name":"b","x":1},{"name":"c"},{"name":"d"},{"name":"e"}]}"#;
    let (patch, _) = rewritten(text, &["containers"], |containers| {
        *containers = json!([{"name": "d"}, {"name": "new"}, {"name": "b", "x": 2}, {"name": "e"}]);
    });
    insta::assert_json_snapshot!(patch, @r#"
    [
      {
        "op": "replace",
        "path": "/containers/1/x",
        "value": 2
      },
      {
        "op": "remove",
        "path": "/containers/2"
      },
      {
        "op": "remove",
        "path": "/containers/0"
      },
      {
        "op": "move",
        "from": "/containers/1",
        "path": "/containers/0"
      },
      {
        "op": "add",
        "path": "/containers/1",
        "value": {
          "name": "new"
        }
      }
    ]
    "#);
}

#[test]
fn elements_without_names_go_by_position() {
    let text = r#"{"args":["-a","-b","-c"],"tolerations":[{"key":"x"},{"key":"y"}]}"#;
    let (patch, _) = rewritten(text, &[], |object| {
        object["args"] = json!(["-a", "-B", "-b2", "-c"]);
        object["tolerations"] = json!([{"key": "x", "operator": "Exists"}]);
    });
    insta::assert_json_snapshot!(patch, @r#"
    [
      {
        "op": "replace",
        "path": "/args/1",
        "value": "-B"
      },
      {
        "op": "add",
        "path": "/args/2",
        "value": "-b2"
      },
      {
        "op": "add",
        "path": "/tolerations/0/operator",
        "value": "Exists"
      },
      {
        "op": "remove",
        "path": "/tolerations/1"
      }
    ]
    "#);
}

/// A step sets one value; elements with names are set one by one.
#[test]
fn an_array_without_names_that_is_set_is_replaced_whole_and_one_with_names_is_not() {
    let text = r#"{"conditions":[{"type":"a"},{"type":"b"}],"containers":[{"name":"a"},{"name":"b"}]}"#;
    let writes = [
        set(&["conditions"], json!([{"type": "a"}, {"type": "c"}])),
        set(&["containers"], json!([{"name": "a"}, {"name": "c"}])),
    ];
    let (_, patch) = patched(text, &writes);
    insta::assert_json_snapshot!(patch, @r#"
    [
      {
        "op": "replace",
        "path": "/conditions",
        "value": [
          {
            "type": "a"
          },
          {
            "type": "c"
          }
        ]
      },
      {
        "op": "remove",
        "path": "/containers/1"
      },
      {
        "op": "add",
        "path": "/containers/1",
        "value": {
          "name": "c"
        }
      }
    ]
    "#);
}

/// Each operation repeats the way to it; the bytes of a name that a client chose would be there as often as there are
/// members.
#[test]
fn below_a_long_way_members_are_not_patched_one_by_one() {
    let long = "n".repeat(100_000);
    let members: Vec<String> = (0..5_000).map(|at| format!("\"m{at}\":0")).collect();
    for (open, close) in [("", ""), ("[", "]")] {
        let text = format!(r#"{{"a":{open}{{"{long}":{{{}}}}}{close}}}"#, members.join(","));
        let (patch, _) = rewritten(&text, &["a"], |value| {
            let object = if value.is_array() { &mut value[0] } else { value };
            let members = object[&long].as_object_mut().unwrap();
            members.values_mut().for_each(|value| *value = json!(1));
        });
        assert_eq!(patch.0.len(), 1);
    }
}

/// Values with arrays of elements that have names, and some that should have.
fn any_structure(name: impl Strategy<Value = String> + Clone + 'static) -> impl Strategy<Value = Value> {
    any_value().prop_recursive(3, 24, 4, move |inner| {
        let element = (name.clone(), any_name(), inner.clone());
        let element = element.prop_map(|(name, member, value)| {
            let mut element = json!({ member: value });
            element["name"] = name.into();
            element
        });
        prop_oneof![
            1 => proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => proptest::collection::vec(element, 0..5).prop_map(Value::from),
            2 => proptest::collection::btree_map(any_name(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_change(value: impl Strategy<Value = Value> + Clone) -> impl Strategy<Value = Change> {
    let act = prop_oneof![
        3 => (any_name(), value.clone()).prop_map(|(name, value)| Act::SetMember(name, value)),
        1 => (0..8_usize).prop_map(Act::RemoveMember),
        3 => (0..8_usize, value.clone()).prop_map(|(at, value)| Act::Insert(at, value)),
        2 => (0..8_usize).prop_map(Act::RemoveElement),
        2 => (0..8_usize, 0..8_usize).prop_map(|(one, other)| Act::Swap(one, other)),
        1 => value.prop_map(Act::Replace),
    ];
    let way = proptest::collection::vec(0..8_usize, 0..5);
    (way, act).prop_map(|(way, act)| Change { way, act })
}

fn any_call() -> impl Strategy<Value = Call> {
    let value = any_structure("[a-d]".boxed()).boxed();
    let path = proptest::collection::vec(any_name(), 0..4);
    let changes = proptest::collection::vec(any_change(value), 0..5);
    prop_oneof![
        1 => any_write().prop_map(Call::Write),
        2 => (path, changes).prop_map(|(path, changes)| Call::Rewrite(path, changes)),
    ]
}

fn any_object() -> impl Strategy<Value = Value> {
    let value = any_structure("[a-d]".boxed());
    let members = proptest::collection::btree_map(any_name(), value, 0..4);
    members.prop_map(|members| Value::Object(members.into_iter().collect()))
}

/// Gives each element of each array a distinct name, and each object an unknown member, under a number.
fn prepare(value: &mut Value, count: &mut usize) {
    match value {
        Value::Array(elements) => {
            for element in elements {
                if !element.is_object() {
                    *element = json!({ "was": element.take() });
                }
                element["name"] = format!("n{count}").into();
                prepare(element, count);
            }
        }
        Value::Object(members) => {
            members.values_mut().for_each(|member| prepare(member, count));
            members.insert(UNKNOWN.to_owned(), format!("!{count}").into());
            *count += 1;
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The text of an object in which unknown members are odd.
fn odd_text(object: &Value, count: usize) -> String {
    (0..count).fold(object.to_string(), |text, at| {
        let odd = format!("[ {at} , {}]", ODD[at % ODD.len()]);
        text.replace(&format!("\"!{at}\""), &odd)
    })
}

/// True if the elements of all arrays have names of their own.
fn is_named(value: &Value) -> bool {
    match value {
        Value::Array(elements) => array::are_named(elements) && elements.iter().all(is_named),
        Value::Object(members) => members.values().all(is_named),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn unknown(mut raw: RawJson) -> Vec<String> {
    let mut found = Vec::new();
    raw.texts(UNKNOWN, &mut found);
    found.sort();
    found
}

proptest! {
    #[test]
    fn the_patch_does_what_rewrites_and_writes_would_do_to_the_whole_object(
        object in any_object(),
        calls in proptest::collection::vec(any_call(), 0..6),
    ) {
        let text = object.to_string();
        let mut draft = Draft::new(Tree::parse(&text, 2).unwrap(), None);
        let mut expected = object.clone();
        for call in &calls {
            let (before, changes) = (draft.checkpoint(), draft.changes());
            if call.record(&mut draft) {
                call.apply(&mut expected);
            }
            prop_assert_eq!(&draft.read::<Value>(&[]).unwrap().unwrap(), &expected);
            let after = operations(&draft);
            if draft.changes() == changes {
                draft.roll_back(before);
                prop_assert_eq!(operations(&draft), after);
            }
        }
        let patch = operations(&draft);
        let mut actual = object.clone();
        json_patch::patch(&mut actual, &patch).unwrap();
        prop_assert_eq!(&actual, &expected);
        let mut raw = RawJson::new(&text);
        raw.patch(&patch);
        prop_assert!(actual != object || patch.0.is_empty());
        if !calls.iter().any(|call| matches!(call, Call::Write(Write::Set(..)))) {
            is_minimal(&object, &patch);
        }
    }

    #[test]
    fn the_same_rewrite_again_records_nothing_and_one_that_is_rolled_back_leaves_nothing(
        object in any_object(),
        calls in proptest::collection::vec(any_call(), 0..4),
        path in proptest::collection::vec(any_name(), 0..4),
        value in any_structure("[a-d]".boxed()),
    ) {
        let text = object.to_string();
        let mut draft = Draft::new(Tree::parse(&text, 2).unwrap(), None);
        for call in &calls {
            call.record(&mut draft);
        }
        let (before, changes, patch) = (draft.checkpoint(), draft.changes(), operations(&draft));
        let assign = |draft: &mut Draft<'_>| {
            let path = names(&path);
            let result: Result<(), RewriteError> = draft.rewrite(&path, |there| {
                *there = value.clone();
                Ok(())
            });
            result.is_ok()
        };
        if assign(&mut draft) {
            let changes = draft.changes();
            prop_assert!(assign(&mut draft));
            prop_assert_eq!(draft.changes(), changes);
        } else {
            prop_assert_eq!(draft.changes(), changes);
        }
        draft.roll_back(before);
        prop_assert_eq!(operations(&draft), patch);
    }

    #[test]
    fn what_no_rewrite_names_keeps_its_bytes(
        object in any_object(),
        path in proptest::collection::vec(any_name(), 0..3),
        changes in proptest::collection::vec(any_change(Just(json!({"name": "new"}))), 0..6),
    ) {
        let (mut object, mut count) = (object, 0);
        prepare(&mut object, &mut count);
        let text = odd_text(&object, count);
        let mut draft = Draft::new(Tree::parse(&text, 2).unwrap(), None);
        let before = unknown(RawJson::new(&text));
        prop_assert_eq!(before.len(), count);
        let result: Result<(), RewriteError> = draft.rewrite(&names(&path), |value| {
            for change in &changes {
                let before = value.clone();
                change.apply(value);
                if !is_named(value) {
                    *value = before;
                }
            }
            Ok(())
        });
        if result.is_ok() {
            let patch = operations(&draft);
            let mut raw = RawJson::new(&text);
            raw.patch(&patch);
            for text in unknown(raw) {
                prop_assert!(before.contains(&text), "{} is new in {:?}", text, patch);
            }
        }
    }
}
