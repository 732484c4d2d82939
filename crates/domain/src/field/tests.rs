//! Tests of the texts against those of Kubernetes' own package.

use serde_json::json;

use super::*;

fn path() -> Path {
    Path::new("spec").child("replicas")
}

#[test]
fn a_path_joins_names_indices_and_keys() {
    let path = Path::new("spec")
        .child("containers")
        .index(0)
        .child("limits")
        .key("a.b/c");
    assert_eq!(path.to_string(), "spec.containers[0].limits[a.b/c]");
    assert_eq!(
        Path::new("labels").child("koordinator.sh/qosClass").to_string(),
        "labels.koordinator.sh/qosClass"
    );
}

#[test]
fn each_kind_prints_kubernetes_message_with_and_without_detail() {
    for (error, text) in [
        (Error::required(&path(), ""), "spec.replicas: Required value"),
        (
            Error::required(&path(), "must be set"),
            "spec.replicas: Required value: must be set",
        ),
        (Error::forbidden(&path(), ""), "spec.replicas: Forbidden"),
        (
            Error::forbidden(&path(), "not now"),
            "spec.replicas: Forbidden: not now",
        ),
        (
            Error::invalid(&path(), "LS", "field is immutable"),
            r#"spec.replicas: Invalid value: "LS": field is immutable"#,
        ),
        (
            Error::invalid(&path(), -1, ""),
            "spec.replicas: Invalid value: -1",
        ),
        (
            Error::invalid(&path(), true, "no"),
            "spec.replicas: Invalid value: true: no",
        ),
        (
            Error::invalid(&path(), json!({"a": [1, null]}), "no"),
            r#"spec.replicas: Invalid value: {"a":[1,null]}: no"#,
        ),
        (
            Error::invalid(&path(), json!(null), "no"),
            "spec.replicas: Invalid value: null: no",
        ),
        (
            Error::invalid(&path(), json!("text"), "no"),
            r#"spec.replicas: Invalid value: "text": no"#,
        ),
        (
            Error::not_supported(&path(), "c", &["a", "b\""]),
            r#"spec.replicas: Unsupported value: "c": supported values: "a", "b\"""#,
        ),
        (
            Error::not_supported(&path(), "c", &[]),
            r#"spec.replicas: Unsupported value: "c""#,
        ),
        (
            Error::duplicate(&path(), "c"),
            r#"spec.replicas: Duplicate value: "c""#,
        ),
    ] {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn a_text_is_quoted_as_go_does() {
    for (text, quoted) in [
        ("", r#""""#),
        ("a'b`", r#""a'b`""#),
        ("a\"b\\c", r#""a\"b\\c""#),
        ("\u{7}\u{8}\u{c}\n\r\t\u{b}", r#""\a\b\f\n\r\t\v""#),
        ("\0\u{1f}\u{7f}", r#""\x00\x1f\x7f""#),
        ("é漢🦀e\u{301}\u{301}", "\"é漢🦀e\u{301}\u{301}\""),
        ("\u{301}", "\"\u{301}\""),
        (
            "\u{80}\u{a0}\u{ad}\u{200b}\u{3000}\u{feff}",
            r#""\u0080\u00a0\u00ad\u200b\u3000\ufeff""#,
        ),
        ("\u{e000}\u{e0001}\u{10ffff}", r#""\ue000\U000e0001\U0010ffff""#),
    ] {
        assert_eq!(Quoted(text).to_string(), quoted, "{text:?}");
    }
}

#[test]
fn a_list_keeps_its_order_and_has_no_text_twice() {
    let (first, second) = (Error::required(&path(), "b"), Error::forbidden(&path(), "a"));
    let mut errors = Errors::default();
    assert_eq!((errors.is_empty(), errors.to_string().as_str()), (true, "[]"));
    assert_eq!(errors.clone().into_result(), Ok(()));

    errors.push(first.clone());
    errors.push(first.clone());
    assert_eq!(errors.to_string(), "spec.replicas: Required value: b");
    assert_eq!(errors, first.clone().into());

    errors.extend([second.clone(), first.clone()]);
    assert_eq!(
        errors.to_string(),
        "[spec.replicas: Required value: b, spec.replicas: Forbidden: a]"
    );
    assert_eq!(errors.iter().collect::<Vec<_>>(), [&first, &second]);
    let joined: Errors = errors.clone().into_iter().chain([second]).collect();
    assert_eq!(joined, errors);
    assert_eq!(errors.clone().into_result(), Err(errors));
}

#[test]
fn each_error_is_a_cause_with_the_reason_of_its_kind() {
    let errors: Errors = [
        Error::required(&path(), "must be set"),
        Error::invalid(&path().index(1), "x", "no"),
    ]
    .into_iter()
    .collect();
    assert_eq!(
        serde_json::to_value(errors.causes()).unwrap(),
        json!([
            {"reason": "FieldValueRequired", "message": "Required value: must be set", "field": "spec.replicas"},
            {"reason": "FieldValueInvalid", "message": "Invalid value: \"x\": no", "field": "spec.replicas[1]"},
        ])
    );
    assert_eq!(
        Kind::ALL.map(Kind::reason),
        [
            "FieldValueRequired",
            "FieldValueForbidden",
            "FieldValueInvalid",
            "FieldValueNotSupported",
            "FieldValueDuplicate"
        ]
    );
    let error = Error::duplicate(&path(), 7);
    assert_eq!((error.kind(), error.field()), (Kind::Duplicate, "spec.replicas"));
}
