//! Tests of rewrites: their input, their records, and their refusals.

use allocation_counter::AllocationInfo;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::admission::{
    draft::{Fields as _, Tree},
    patch,
};

const POD: &str =
    r#"{"metadata":{"name":"p","labels":null,"x":1.0},"spec":{"containers":[{"name":"c"}],"nodeName":""}}"#;

fn draft(text: &str) -> Draft<'_> {
    Draft::new(Tree::parse(text, 2).unwrap(), None)
}

/// Result of a closure that cannot fail.
const DONE: Result<(), RewriteError> = Ok(());

fn whole(draft: &Draft<'_>) -> Value {
    draft.read(&[]).unwrap().unwrap()
}

#[test]
fn a_rewrite_sees_what_was_written_and_later_calls_see_what_it_wrote() {
    let mut draft = draft(POD);
    draft.set(&["spec", "priority"], 7).unwrap();
    draft.remove(&["spec", "nodeName"]);
    let seen: Result<Value, RewriteError> = draft.rewrite(&["spec"], |spec| {
        let seen = spec.clone();
        spec["containers"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "d"}));
        spec["nodeName"] = json!("n");
        Ok(seen)
    });
    assert_eq!(
        seen.unwrap(),
        json!({"containers": [{"name": "c"}], "priority": 7})
    );
    let names = |draft: &Draft<'_>| {
        draft.with_elements(&["spec", "containers"], |containers| {
            let names = containers
                .iter()
                .map(|container| container.read::<String>(&["name"]));
            names.map(|name| name.unwrap().unwrap()).collect::<Vec<_>>()
        })
    };
    assert_eq!(names(&draft), ["c", "d"]);
    draft.set(&["spec", "nodeName"], "m").unwrap();
    let removed: Result<Value, RewriteError> = draft.rewrite(&["spec", "containers"], |containers| {
        Ok(containers.as_array_mut().unwrap().remove(0))
    });
    assert_eq!(removed.unwrap(), json!({"name": "c"}));
    assert_eq!(names(&draft), ["d"]);
    let spec = json!({"containers": [{"name": "d"}], "nodeName": "m", "priority": 7});
    assert_eq!(draft.read(&["spec"]).unwrap(), Some(spec));
}

#[test]
fn what_is_absent_is_null_and_what_becomes_null_is_absent() {
    let mut draft = draft(POD);
    for path in [
        &["metadata", "labels"][..],
        &["metadata", "annotations"],
        &["status", "x", "y"],
    ] {
        let seen: Result<Value, RewriteError> = draft.rewrite(path, |value| Ok(value.clone()));
        assert_eq!(seen.unwrap(), Value::Null);
    }
    assert_eq!(draft.changes(), 0);
    for path in [&["metadata", "labels"][..], &["status", "x", "y"]] {
        draft
            .rewrite(path, |value| {
                value["a"] = json!("b");
                DONE
            })
            .unwrap();
        assert_eq!(draft.read(path).unwrap(), Some(json!({"a": "b"})));
        draft
            .rewrite(path, |value| {
                value.take();
                DONE
            })
            .unwrap();
        assert!(draft.read::<Value>(path).unwrap().is_none());
    }
    let metadata: Value = draft.read(&["metadata"]).unwrap().unwrap();
    assert!(metadata.get("labels").is_none());
}

#[test]
fn only_members_that_differ_are_recorded() {
    let mut draft = draft(POD);
    draft
        .rewrite(&[], |pod| {
            pod["metadata"]["name"] = json!("q");
            pod["spec"]["containers"] = json!([{"name": "c"}]);
            DONE
        })
        .unwrap();
    assert_eq!(draft.changes(), 1);
    let replaces = serde_json::to_value(patch::operations(&draft)).unwrap();
    assert_eq!(
        replaces,
        json!([{"op": "replace", "path": "/metadata/name", "value": "q"}])
    );
    draft
        .rewrite(&[], |pod| {
            pod["metadata"]["name"] = json!("q");
            DONE
        })
        .unwrap();
    assert_eq!(draft.changes(), 1);
}

#[test]
fn a_rewrite_that_fails_records_nothing() {
    let mut draft = draft(POD);
    draft.set(&["spec", "priority"], 7).unwrap();
    let (before, changes) = (whole(&draft), draft.changes());
    let result: Result<(), Box<dyn std::error::Error>> = draft.rewrite(&["spec"], |spec| {
        spec["priority"] = json!(8);
        Err("no such class".into())
    });
    assert_eq!(result.unwrap_err().to_string(), "no such class");
    for (path, value) in [
        (&["metadata", "name", "x"][..], json!(1)),
        (&["spec", "containers", "0"], json!({})),
        (&[], json!([])),
        (&[], Value::Null),
    ] {
        let error = draft.rewrite(path, |there| {
            *there = value;
            DONE
        });
        let expected = match path {
            [] => "the result would not be an object".to_owned(),
            path => format!("{} lies inside a value that is not an object", path.join(".")),
        };
        assert_eq!(error.unwrap_err().to_string(), expected);
    }
    assert_eq!((whole(&draft), draft.changes()), (before, changes));
}

#[test]
fn what_cannot_be_read_is_not_rewritten() {
    let mut draft = draft(r#"{"a":{"b":1e999}}"#);
    let error = draft.rewrite(&["a"], |_| DONE).unwrap_err();
    assert_eq!(error.to_string(), "a cannot be read");
    let error = draft.rewrite(&[], |_| DONE).unwrap_err();
    assert_eq!(error.to_string(), "the object cannot be read");
    assert_eq!(draft.changes(), 0);
}

#[test]
fn what_is_too_wide_is_not_rewritten_and_that_is_found_out() {
    let text = format!(r#"{{"a":{{"b":[{}0]}}}}"#, "0,".repeat(MAX_OPENED));
    let mut draft = draft(&text);
    assert!(draft.rewrite(&["a", "b"], |_| DONE).is_err());
    assert_eq!(draft.too_wide().as_deref(), Some("a.b"));
}

/// An array in arrays, as deep as that.
fn nested(depth: u32) -> Value {
    (0..depth).fold(json!(0), |inner, _| json!([inner]))
}

#[rstest]
#[case::wide(json!(vec![0; MOST_VALUES]), json!(vec![0; MOST_VALUES + 1]), "s.x cannot be changed, with more than 8192 values")]
#[case::empty(json!(vec![json!({}); MOST_VALUES / 2]), json!(vec![json!({}); MOST_VALUES / 2 + 1]), "s.x cannot be changed, with more than 8192 values")]
#[case::deep(nested(MAX_DEPTH - 2), nested(MAX_DEPTH - 1), "s.x would be nested deeper than 127 levels")]
fn what_is_rewritten_can_be_read_again_or_is_refused(
    #[case] most: Value,
    #[case] more: Value,
    #[case] reason: &str,
) {
    let mut draft = draft("{}");
    draft
        .rewrite(&["s", "x"], |value| {
            *value = most.clone();
            DONE
        })
        .unwrap();
    let error = draft
        .rewrite(&["s", "x"], |value| {
            *value = more;
            DONE
        })
        .unwrap_err();
    assert_eq!(error.to_string(), reason);
    assert_eq!(draft.read(&["s", "x"]).unwrap().as_ref(), Some(&most));
    let elements = draft.with_elements(&["s", "x"], |elements| elements.len());
    assert_eq!(elements, most.as_array().unwrap().len());
    let text = whole(&draft).to_string();
    assert!(
        Tree::parse(&text, 2)
            .unwrap()
            .get(&["s", "x"])
            .unwrap()
            .to_value()
            .is_ok()
    );
}

#[test]
fn memory_is_bounded_whatever_an_object_consists_of() {
    let long = "n".repeat(170);
    for (open, values, element, close) in [
        ("[", 1, r#""v""#.to_owned(), "]"),
        ("[", 2, r#"{"a":"v"}"#.to_owned(), "]"),
        ("[", 3, format!(r#"{{"name":"@","{long}":"v"}}"#), "]"),
        ("{", 1, format!(r#""{long}@":"v""#), "}"),
        ("{", 2, r#""@":{"a":"v"}"#.to_owned(), "}"),
        ("{", 3, r#""@":{"a":{"b":"v"}}"#.to_owned(), "}"),
    ] {
        let count = MOST_VALUES / values - 1;
        let inside = (0..count).map(|at| element.replace('@', &at.to_string()));
        let text = format!(
            r#"{{"spec":{open}{}{close}}}"#,
            inside.collect::<Vec<_>>().join(",")
        );
        for path in [&["spec"][..], &[]] {
            let AllocationInfo { bytes_max, .. } = allocation_counter::measure(|| {
                let mut draft = draft(&text);
                let changed = draft.rewrite(path, |value| {
                    change_texts(value);
                    DONE
                });
                changed.unwrap();
                let (patch, _) = patch::into_operations(draft);
                assert_eq!(patch.len(), count);
            });
            assert!(bytes_max <= 16 << 20, "{bytes_max} for {element}");
        }
    }
}

/// Changes every text that is `v`.
fn change_texts(value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(change_texts),
        Value::Object(members) => members.values_mut().for_each(change_texts),
        Value::String(text) if text == "v" => "w".clone_into(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
