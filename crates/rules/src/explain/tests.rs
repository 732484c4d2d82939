//! Tests of what is noted of a pod, and of the bounds of an explanation.

use rstest::rstest;
use serde_json::json;

use super::*;

fn noted(before: &Value, after: &Value) -> Vec<(String, Option<String>)> {
    let mut explanation = Explanation::default();
    explanation.note_change(&[""; 0], before, after);
    let writes = explanation.writes().into_iter();
    writes.map(|write| (write.path, write.value)).collect()
}

#[rstest]
#[case::nothing(json!({"a": [1, {"b": null}]}), json!({"a": [1, {}]}), &[])]
#[case::member(json!({"metadata": {"labels": {"a": "1"}}}), json!({"metadata": {"labels": {"a": "2", "b/c.d": "3"}}}),
    &[("metadata.labels.a", Some("\"2\"")), ("metadata.labels[b/c.d]", Some("\"3\""))])]
#[case::created(json!({}), json!({"metadata": {"annotations": {"x": "y"}}, "spec": {}}),
    &[("metadata.annotations.x", Some("\"y\"")), ("spec", Some("{}"))])]
#[case::removed(json!({"spec": {"a": 1, "b": {"c": 2}}}), json!({"spec": {"b": {}}}),
    &[("spec.a", None), ("spec.b.c", None)])]
#[case::element(json!({"c": [{"name": "x", "i": 1}, {"name": "y"}]}), json!({"c": [{"name": "x", "i": 2}, {"name": "y"}]}),
    &[("c[0].i", Some("2"))])]
#[case::in_front(json!({"c": [{"name": "x", "i": 1}]}), json!({"c": [{"name": "a"}, {"name": "x", "i": 1}]}),
    &[("c[0]", Some(r#"{"name":"a"}"#))])]
#[case::gone(json!({"c": [{"name": "x"}, {"name": "y"}]}), json!({"c": [{"name": "y"}]}), &[("c.x", None)])]
#[case::plain_list(json!({"c": [1]}), json!({"c": [1, 2]}), &[("c", Some("[1,2]"))])]
fn differences_are_noted_by_field(
    #[case] before: Value,
    #[case] after: Value,
    #[case] expected: &[(&str, Option<&str>)],
) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(path, value)| ((*path).to_owned(), value.map(str::to_owned)))
        .collect();
    assert_eq!(noted(&before, &after), expected);
}

#[test]
fn texts_are_cut_at_characters() {
    let long = "ä".repeat(100_000);
    let mut explanation = Explanation::default();
    explanation.begin(Writer::Profile(long.as_str().into()));
    explanation.note_change(&["spec"], &Value::Null, &json!({ (long.as_str()): [long, long] }));
    explanation.note_profile(&long, VerdictKind::Failed, |why| why.write_str(&long));
    let text = format!("{:?}{:?}", explanation.profiles(), explanation.writes());
    assert!(text.len() < 2_000 && text.contains("ä..."), "{}", text.len());
    let value = explanation.writes()[0].value.clone().unwrap();
    assert!(value.starts_with("[\"ää") && value.ends_with("ä..."), "{value}");
}

#[test]
fn an_explanation_is_bounded_and_counts_what_it_leaves_out() {
    let mut explanation = Explanation::default();
    let labels: serde_json::Map<String, Value> = (0..5_000)
        .map(|label| (format!("label-{label}"), Value::from("x".repeat(60))))
        .collect();
    explanation.note_change(&["metadata", "labels"], &Value::Null, &Value::Object(labels));
    for profile in 0..1_000 {
        explanation.note_profile(&format!("p{profile}"), VerdictKind::OtherLabels, |why| {
            why.write_str("why")
        });
    }
    let noted = explanation.writes().len() + explanation.profiles().len();
    assert_eq!(noted + explanation.left_out(), 6_000);
    assert!(noted > 50, "{noted}");
    assert!(
        explanation.bytes() < MOST_BYTES + 1_024,
        "{}",
        explanation.bytes()
    );
}

#[test]
fn dropped_notes_leave_no_trace() {
    let mut explanation = Explanation::default();
    explanation.note_change(&["a"], &Value::Null, &json!(1));
    let (before, mark) = (explanation.clone(), explanation.mark());
    explanation.note_change(&["b"], &Value::Null, &json!({"c": 1, "d": 2}));
    explanation.note_profile("p", VerdictKind::Applied, |_| Ok(()));
    assert_eq!((explanation.writes().len(), explanation.profiles().len()), (3, 1));
    explanation.drop_since(mark);
    assert_eq!(explanation, before);
}
