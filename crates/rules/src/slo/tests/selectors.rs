//! Tests of selectors and names of entries, and of nodes that two entries select.

use rstest::rstest;

use super::*;

/// Entries such as `a: x=1, y In 1 2, z Exists | b: y=1`.
fn entries(written: &str) -> String {
    let entries = written.split(" | ").map(|entry| {
        let (name, terms) = entry.split_once(": ").unwrap();
        let mut labels = Vec::new();
        let mut expressions = Vec::new();
        for term in terms.split(", ") {
            if let Some((key, value)) = term.split_once('=') {
                labels.push(format!(r#""{key}":"{value}""#));
                continue;
            }
            let mut words = term.split(' ');
            let (key, operator) = (words.next().unwrap(), words.next().unwrap());
            let values: Vec<String> = words.map(|word| format!("\"{word}\"")).collect();
            let values = values.join(",");
            expressions.push(format!(r#"{{"key":"{key}","operator":"{operator}","values":[{values}]}}"#));
        }
        let (labels, expressions) = (labels.join(","), expressions.join(","));
        format!(
            r#"{{"name":"{name}","nodeSelector":{{"matchLabels":{{{labels}}},"matchExpressions":[{expressions}]}}}}"#
        )
    });
    entries.collect::<Vec<_>>().join(",")
}

pub(super) fn colocation(written: &str) -> String {
    format!(r#"{{"nodeConfigs":[{}]}}"#, entries(written))
}

fn overlap(names: &[&str]) -> String {
    let names = serde_json::to_string(names).unwrap();
    format!(
        r#"___{{"reason":"NodeStrategiesOverlap","message":{{"config":"colocation-config","strategies":{names}}}}}___"#
    )
}

fn conflict(names: &[&str], node: &str) -> String {
    let names = serde_json::to_string(names).unwrap();
    format!(
        r#"___{{"reason":"ExistNodeConfict","message":{{"config":"colocation-config","strategies":{names},"exampleNodes":["{node}"]}}}}___"#
    )
}

const EMPTY: &str = r#"___{"reason":"ConfigParamInvalid","message":"nodeConfigs NodeSelector must not empty error! configType: colocation-config,nodeConfig name:a"}___"#;

#[rstest]
#[case::c152(r#"{"nodeConfigs":[{"name":"a"}]}"#, EMPTY)]
#[case::c152_empty(r#"{"nodeConfigs":[{"name":"a","nodeSelector":{}}]}"#, EMPTY)]
#[case::c152_null(r#"{"nodeConfigs":[{"name":"a","nodeSelector":null}]}"#, EMPTY)]
#[case::c153(r#"{"degradeTimeMinutes":0,"nodeConfigs":[{"name":"a"}]}"#, EMPTY)]
#[case::c154(&colocation("a: k Foo 1"), r#"failed to parse node selector \u0026LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:Foo,Values:[1],},},},configType: colocation-config,nodeConfig name:a, err: \"Foo\" is not a valid label selector operator"}___"#)]
#[case::c154_case(&colocation("a: k in 1"), r#"err: \"in\" is not a valid label selector operator"#)]
#[case::c155(&colocation("a: k In"), "err: values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty")]
#[case::c155_exists(&colocation("a: k Exists 1"), r#"err: values: Invalid value: [\"1\"]: values set must be empty for exists and does not exist"#)]
#[case::c156(
    r#"{"nodeConfigs":[{"name":"a","nodeSelector":{"matchLabels":{"a b":"1"}}}]}"#,
    r#"err: key: Invalid value: \"a b\": name part must consist of"#
)]
#[case::c156_value(r#"{"nodeConfigs":[{"name":"a","nodeSelector":{"matchLabels":{"a":"x y"}}}]}"#, r#"failed to parse node selector \u0026LabelSelector{MatchLabels:map[string]string{a: x y,},MatchExpressions:[]LabelSelectorRequirement{},},configType: colocation-config,nodeConfig name:a, err: values[0][a]: Invalid value: \"x y\": a valid label must be"#)]
#[case::c156_key(
    r#"{"nodeConfigs":[{"nodeSelector":{"matchLabels":{"":"1"}}}]}"#,
    "name part must be non-empty"
)]
#[case::c157(r#"{"nodeConfigs":[{"nodeSelector":{"matchLabels":{"a":""}}}]}"#, "OK")]
#[case::c158(
    r#"{"nodeConfigs":[{"nodeSelector":{"matchLabels":{"a":1}}}]}"#,
    "ParseConfigFail"
)]
#[case::expressions_of_another_type(
    r#"{"nodeConfigs":[{"nodeSelector":{"matchExpressions":{}}}]}"#,
    "of type []v1.LabelSelectorRequirement"
)]
fn selectors(#[case] text: &str, #[case] expected: &str) {
    Case::new([(COLO, text)]).is(expected);
}

#[rstest]
#[case::c159(
    r#"{"nodeConfigs":[{"nodeSelector":{"matchLabels":{"x":"1"}}}]}"#,
    r#"___{"reason":"ConfigParamInvalid","message":"nodeConfig Name need! configType:colocation-config"}___"#
)]
#[case::c160(&colocation("a: x=1 | a: x=2"), r#"___{"reason":"ConfigParamInvalid","message":"nodeConfig Name confilict, configType:colocation-config,nodeConfig Name:a! "}___"#)]
#[case::c162(
    r#"{"degradeTimeMinutes":0,"nodeConfigs":[{"nodeSelector":{"matchLabels":{"x":"1"}}}]}"#,
    "DegradeTimeMinutes"
)]
#[case::c163(&colocation("a: x=1 | a: x=1"), "nodeConfig Name confilict")]
fn names(#[case] text: &str, #[case] expected: &str) {
    Case::new([(COLO, text)]).with_names().is(expected);
}

#[test]
fn c161_names_need_not_differ() {
    Case::new([(COLO, &colocation("a: x=1 | a: x=2"))]).is("OK");
}

#[rstest]
#[case::c164("a: x=1 | b: x=1", &["a", "b"])]
#[case::c165("a: x=1 | b: x=1, y=1", &["a", "b"])]
#[case::c166(": x=1 | : x=1", &["", ""])]
#[case::c167("a: x=1 | b: x=1, y=1 | c: x Exists", &["a", "c"])]
#[case::c168("a: x=1 | b: y=1", &[])]
#[case::c170("a: x In 1 2 | b: x In 2 3", &["a", "b"])]
#[case::c172("a: x In 1 2 3, y In 1 2 | b: x In 3 9, y In 8 2", &["a", "b"])]
#[case::c174("a: x DoesNotExist | b: y DoesNotExist", &["a", "b"])]
#[case::c176("a: x=1 | b: x NotIn 2", &["a", "b"])]
#[case::c177("a: x Exists | b: x=9", &["a", "b"])]
#[case::c178("a: x=1, y DoesNotExist | b: x=1, y=2", &[])]
#[case::c179("a: y DoesNotExist | b: x=1", &["a", "b"])]
#[case::c180("a: x DoesNotExist | b: x Exists", &[])]
#[case::c181("a: x In a b | b: x NotIn a", &["a", "b"])]
#[case::c182("a: x=1, x In 2 | b: x=2", &[])]
#[case::c186("a: x=1", &[])]
fn overlaps(#[case] written: &str, #[case] names: &[&str]) {
    let expected = if names.is_empty() {
        "OK".to_owned()
    } else {
        overlap(names)
    };
    Case::new([(COLO, &colocation(written))]).is(&expected);
}

#[rstest]
#[case::c171("a: x In 1 2, y In 1 2 | b: x In 1 5, y In 6 2")]
#[case::c173("a: x Exists | b: x Exists")]
#[case::c175("a: x NotIn 1 | b: x NotIn 2")]
#[case::c175_same("a: x NotIn 1 | b: x NotIn 1")]
fn overlaps_that_koordinator_misses(#[case] written: &str) {
    let case = Case::new([(COLO, &colocation(written))]);
    case.is_upstream("OK");
    case.is_ours(&overlap(&["a", "b"]));
}

#[test]
fn c169_a_node_that_is_there_is_named() {
    let case = Case::new([(COLO, &colocation("a: x=1 | b: y=1"))]);
    let case = case
        .with_node("n2", &[("x", "1"), ("y", "1")])
        .with_node("n1", &[("x", "1"), ("y", "1")]);
    case.is(&conflict(&["a", "b"], "n1"));
}

#[test]
fn three_nodes_are_named_and_the_others_counted() {
    let mut case = Case::new([(COLO, &colocation("a: x=1 | b: y=1"))]);
    for name in ["n4", "n2", "n5", "n1", "n3"] {
        case = case.with_node(name, &[("x", "1"), ("y", "1")]);
    }
    let report = case.report(Compat::Headroom);
    assert_eq!(
        report.errors.to_string(),
        r#"data[colocation-config].nodeConfigs: Invalid value: ["a","b"]: all of them select existing nodes: n1, n2, n3 and 2 more"#
    );
}

#[rstest]
#[case::c183("a: x Exists | b: x Exists", &[("x", "1")])]
#[case::c184("a: x NotIn 1 | b: x NotIn 2", &[])]
fn existing_nodes_reveal_overlaps_that_samples_miss(#[case] written: &str, #[case] labels: &[(&str, &str)]) {
    let case = Case::new([(COLO, &colocation(written))]).with_node("n1", labels);
    case.is_upstream(&conflict(&["a", "b"], "n1"));
    case.is_ours(&overlap(&["a", "b"]));
}

#[test]
fn c185_all_entries_of_a_node_are_named() {
    let case = Case::new([(COLO, &colocation("a: x=1 | b: y=1 | c: z=1"))]);
    case.with_node("n1", &[("x", "1"), ("y", "1"), ("z", "1")])
        .is(&conflict(&["a", "b", "c"], "n1"));
}

#[test]
fn c187_keys_are_checked_separately() {
    let threshold = format!(r#"{{"nodeStrategies":[{}]}}"#, entries("c: x=1"));
    let case = Case::new([(COLO, &colocation("a: x=1 | b: x=2")), (THR, &threshold)]);
    case.with_node("n1", &[("x", "1")]).is("OK");
}

#[test]
fn c188_unchanged_keys_are_not_checked() {
    let text = colocation("a: x=1 | b: x=1");
    Case::new([(COLO, &text), (THR, "{}")])
        .over([(COLO, &text)])
        .is("OK");
}

#[rstest]
#[case::c189(THR)]
#[case::c189_burst(BURST)]
#[case::c189_system(SYS)]
#[case::c189_qos(QOS)]
fn every_key_is_named(#[case] key: &str) {
    let text = format!(r#"{{"nodeStrategies":[{}]}}"#, entries("a: x=1 | b: x=1"));
    Case::new([(SYS, "{}"), (key, &text)]).is(&format!(r#"{{"config":"{key}","strategies":["a","b"]}}"#));
}

#[test]
fn c190_names_are_safe_in_html() {
    let text = colocation("<a>: x=1 | b&c: x=1");
    Case::new([(COLO, &text)]).is(r#""strategies":["\u003ca\u003e","b\u0026c"]"#);
}

#[test]
fn c191_the_first_of_two_keys_is_named() {
    let written = "a: x=1 | b: y=1";
    let threshold = format!(r#"{{"nodeStrategies":[{}]}}"#, entries(written));
    let case = Case::new([(THR, &threshold), (COLO, &colocation(written))]);
    case.with_node("n1", &[("x", "1"), ("y", "1")])
        .is(&conflict(&["a", "b"], "n1"));
}

#[rstest]
#[case::c192(HOST)]
#[case(NORM)]
#[case(AMP)]
fn entries_of_keys_that_koordinator_does_not_check(#[case] key: &str) {
    let case = Case::new([(key, &colocation("a: x=1 | b: x=1"))]);
    case.is_upstream("OK");
    case.is_ours(&format!(r#"{{"config":"{key}","strategies":["a","b"]}}"#));
}

#[test]
fn an_overlap_comes_with_labels_and_the_entry_that_would_count() {
    let report = Case::new([(COLO, &colocation("a: x In 1 2, y=3 | b: x In 2 3"))]).report(Compat::Headroom);
    assert_eq!(
        report.errors.to_string(),
        r#"data[colocation-config].nodeConfigs[1].nodeSelector: Invalid value: "b": also selected by entry "a", which comes first: a node with x=2,y=3"#
    );
}
