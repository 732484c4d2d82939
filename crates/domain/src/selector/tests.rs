//! Tests of conversions, matching and overlap: Koordinator's cases by their numbers, and comparison with brute force.

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*, sample::select};
use rstest::rstest;
use serde_json::{Value, json};

use super::{choice::LabelChoice, *};

const NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
    for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn label_selector(written: &Value) -> LabelSelector {
    serde_json::from_value(written.clone()).unwrap()
}

fn labels(written: &Value) -> Labels {
    serde_json::from_value(written.clone()).unwrap()
}

/// Converts a selector by Koordinator's rules.
fn koordinator(written: &Value) -> Result<Selector, SelectorError> {
    label_selector(written).to_koordinator_selector()
}

/// Selector of one expression, written `key operator value value …`.
fn expression(text: &str) -> LabelSelectorRequirement {
    let mut words = text.split(' ').map(str::to_owned);
    LabelSelectorRequirement {
        key: words.next().unwrap(),
        operator: words.next().unwrap(),
        values: words.collect(),
    }
}

/// Expressions joined by ` & `; `key=value` is a label.
fn selector(text: &str) -> Selector {
    let mut written = LabelSelector::default();
    for part in text.split(" & ") {
        match part.split_once('=') {
            Some((key, value)) => {
                written.match_labels.insert(key.to_owned(), value.to_owned());
            }
            None => written.match_expressions.push(expression(part)),
        }
    }
    written.to_selector().unwrap()
}

#[rstest]
#[case::p7_another_label(json!({"matchLabels": {"team": "a"}}), json!({"team": "b"}), false)]
#[case::p8_nothing_asked(json!({}), json!({"team": "b"}), true)]
#[case::p9_empty_members(json!({"matchLabels": {}, "matchExpressions": []}), json!({}), true)]
#[case::p9_null_members(json!({"matchLabels": null, "matchExpressions": null, "later": 1}), json!({}), true)]
#[case::p10_another_environment(json!({"matchLabels": {"env": "prod"}}), json!({"env": "dev"}), false)]
#[case::p13_equal(json!({"matchLabels": {"team": "a"}}), json!({"team": "a", "env": "dev"}), true)]
#[case::p14_absent(json!({"matchExpressions": [{"key": "canary", "operator": "DoesNotExist"}]}), json!({}), true)]
#[case::p14_there(
    json!({"matchExpressions": [{"key": "canary", "operator": "DoesNotExist", "values": null}]}), json!({"canary": ""}), false)]
#[case::p17_not_yet_there(json!({"matchLabels": {"z": "1"}}), json!({}), false)]
#[case::labels_are_not_checked(json!({"matchLabels": {"a b": "x y"}}), json!({"a b": "x y"}), true)]
fn koordinator_selects(#[case] written: Value, #[case] on: Value, #[case] expected: bool) {
    assert_eq!(koordinator(&written).unwrap().matches(&labels(&on)), expected);
}

#[rstest]
#[case::p12_operator("team Bogus", "\"Bogus\" is not a valid label selector operator")]
#[case::c154_case_of_an_operator("a in 1", "\"in\" is not a valid label selector operator")]
#[case::c155_in(
    "a In",
    "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
)]
#[case::c155_not_in(
    "a NotIn",
    "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
)]
#[case::c155_exists(
    "a Exists 1 2",
    "values: Invalid value: [\"1\",\"2\"]: values set must be empty for exists and does not exist"
)]
#[case::c156_key("a! Exists", &format!("key: Invalid value: \"a!\": {NAME}"))]
#[case::c156_empty_key(" Exists", &format!("key: Invalid value: \"\": name part must be non-empty; {NAME}"))]
#[case::c156_value("a In x!", &format!("values[0][a]: Invalid value: \"x!\": {VALUE}"))]
#[case::two_values(
    "a In x! ok -", &format!("[values[0][a]: Invalid value: \"x!\": {VALUE}, values[2][a]: Invalid value: \"-\": {VALUE}]"))]
#[case::empty_prefix("/x Exists", "key: Invalid value: \"/x\": prefix part must be non-empty")]
#[case::prefix(
    "A.b/x Exists",
    "key: Invalid value: \"A.b/x\": prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
     characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)]
#[case::slashes(
    "a/b/c Exists",
    &format!("key: Invalid value: \"a/b/c\": {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        NAME.replace("name part", "a valid label key")))]
fn selectors_are_rejected_with_kubernetes_messages(#[case] written: &str, #[case] text: &str) {
    let written = LabelSelector {
        match_expressions: vec![expression(written)],
        ..LabelSelector::default()
    };
    assert_eq!(written.to_selector().unwrap_err().to_string(), text);
    assert_eq!(written.to_koordinator_selector().unwrap_err().to_string(), text);
    NodeSelector::try_from(&written).unwrap_err();
}

#[test]
fn excess_lengths_are_rejected_with_kubernetes_message() {
    let refused = |written: String| {
        let written = LabelSelector {
            match_expressions: vec![expression(&written)],
            ..LabelSelector::default()
        };
        written.to_selector().map_err(|error| error.to_string())
    };
    let (name, prefix) = ("x".repeat(63), "x".repeat(253));
    assert!(refused(format!("{prefix}/{name} In {name}")).is_ok());
    assert_eq!(
        refused(format!("x{name} Exists")),
        Err(format!(
            "key: Invalid value: \"x{name}\": name part must be no more than 63 bytes"
        ))
    );
    assert_eq!(
        refused(format!("x{prefix}/a Exists")),
        Err(format!(
            "key: Invalid value: \"x{prefix}/a\": prefix part must be no more than 253 bytes"
        ))
    );
    assert_eq!(
        refused(format!("a In x{name}")),
        Err(format!(
            "values[0][a]: Invalid value: \"x{name}\": must be no more than 63 bytes"
        ))
    );
}

#[test]
fn labels_next_to_expressions_are_checked() {
    let written =
        json!({"matchLabels": {"a": "x y"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]});
    let text = format!("values[0][a]: Invalid value: \"x y\": {VALUE}");
    assert_eq!(koordinator(&written).unwrap_err().to_string(), text);
    let alone = label_selector(&json!({"matchLabels": {"a": "x y"}}));
    assert_eq!(alone.to_selector().unwrap_err().to_string(), text);
}

#[test]
fn an_error_names_a_few_of_many_faults() {
    let written = LabelSelectorRequirement {
        values: vec!["!".to_owned(); 100_000],
        ..expression("a In")
    };
    let written = LabelSelector {
        match_expressions: vec![written],
        ..LabelSelector::default()
    };
    let text = written.to_selector().unwrap_err().to_string();
    assert!(text.len() < 10_000 && text.contains("values[15][a]"), "{text}");
}

#[test]
fn an_entry_without_conditions_selects_no_nodes() {
    let empty = NodeSelector::try_from(&LabelSelector::default());
    assert_eq!(empty, Err(NodeSelectorError::Everything));
    let written = label_selector(&json!({"matchLabels": {"pool": "a"}}));
    let both = NodeSelector::try_from(&written).unwrap();
    assert_eq!(Ok(both.selector()), written.to_selector().as_ref());
}

#[rstest]
#[case::c164("x=1", "x=1", Some(json!({"x": "1"})))]
#[case::c165("x=1", "x=1 & y=1", Some(json!({"x": "1", "y": "1"})))]
#[case::c168("x=1", "y=1", Some(json!({"x": "1", "y": "1"})))]
#[case::c170("x In 1 2", "x In 2 3", Some(json!({"x": "2"})))]
#[case::c171("x In 1 2 & y In 1 2", "x In 1 5 & y In 6 2", Some(json!({"x": "1", "y": "2"})))]
#[case::c172("x In 1 2 3 & y In 1 2", "x In 3 9 & y In 8 2", Some(json!({"x": "3", "y": "2"})))]
#[case::c173("x Exists", "x Exists", Some(json!({"x": "any0"})))]
#[case::c174("x DoesNotExist", "y DoesNotExist", Some(json!({})))]
#[case::c175("x NotIn 1", "x NotIn 2", Some(json!({})))]
#[case::c176("x=1", "x NotIn 2", Some(json!({"x": "1"})))]
#[case::c177("x Exists", "x=9", Some(json!({"x": "9"})))]
#[case::c178("x=1 & y DoesNotExist", "x=1 & y=2", None)]
#[case::c179("y DoesNotExist", "x=1", Some(json!({"x": "1"})))]
#[case::c180("x DoesNotExist", "x Exists", None)]
#[case::c181("x In a b", "x NotIn a", Some(json!({"x": "b"})))]
#[case::c182("x=1 & x In 2", "x=2", None)]
#[case::excluded_by_both("x In 1 2", "x NotIn 2 & x NotIn 1", None)]
#[case::there_and_excluded("x Exists & x NotIn any0 any1", "x NotIn any2", Some(json!({"x": "any3"})))]
#[case::an_empty_value_is_a_value("x In ", "x Exists", Some(json!({"x": ""})))]
fn an_example_matches_both_selectors(
    #[case] one: &str,
    #[case] other: &str,
    #[case] expected: Option<Value>,
) {
    let expected = expected.map(|expected| labels(&expected));
    let (one, other) = (selector(one), selector(other));
    assert_eq!(example_of_both(&one, &other), expected);
    assert_eq!(example_of_both(&other, &one), expected);
}

#[test]
fn invented_values_are_valid_label_values() {
    let excluded: Vec<String> = (0..1000).map(|number| format!("any{number}")).collect();
    let text = format!("x Exists & x NotIn {}", excluded.join(" "));
    let example = example_of_both(&selector(&text), &selector("x Exists")).unwrap();
    assert_eq!(value_faults(&example["x"]), None);
    assert_eq!(example["x"], "any1000");
}

#[test]
fn a_megabyte_of_conditions_on_one_key_is_processed_fast() {
    let mut written = LabelSelector::default();
    let values: Vec<String> = (0..100_000).map(|number| number.to_string()).collect();
    let excluded = values.iter().map(|value| expression(&format!("x NotIn {value}")));
    written.match_expressions.push(LabelSelectorRequirement {
        values: values.clone(),
        ..expression("x In")
    });
    written.match_expressions.extend(excluded.skip(1));
    let selector = written.to_selector().unwrap();
    assert!(selector.matches(&labels(&json!({"x": "0"}))));
    let example = example_of_both(&selector, &Selector::default()).unwrap();
    assert_eq!(example, labels(&json!({"x": "0"})));
}

/// Values that selectors list, and two that represent all others.
const LISTED: [&str; 4] = ["", "1", "2", "any0"];
const UNIVERSE: [Option<&str>; 7] = [
    None,
    Some(""),
    Some("1"),
    Some("2"),
    Some("any0"),
    Some("any1"),
    Some("other"),
];

fn any_expression() -> impl Strategy<Value = LabelSelectorRequirement> {
    let key = select(vec!["a", "b", "c"]);
    let values = vec(select(LISTED.to_vec()), 1..4);
    (key, select(vec!["In", "NotIn", "Exists", "DoesNotExist"]), values).prop_map(
        |(key, operator, values)| {
            let takes_values = operator.ends_with("In");
            let values = values.into_iter().filter(|_| takes_values);
            LabelSelectorRequirement {
                key: key.to_owned(),
                operator: operator.to_owned(),
                values: values.map(str::to_owned).collect(),
            }
        },
    )
}

fn any_selector() -> impl Strategy<Value = LabelSelector> {
    let labels = proptest::collection::btree_map(select(vec!["a", "b", "c"]), select(LISTED.to_vec()), 0..2);
    (labels, vec(any_expression(), 0..5)).prop_map(|(labels, match_expressions)| LabelSelector {
        match_labels: labels
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        match_expressions,
    })
}

/// Evaluates one condition after the other, as defined on Kubernetes' page on labels.
fn matches_as_written(written: &LabelSelector, on: &Labels) -> bool {
    let is_equal = |(key, value): (&String, &String)| on.get(key) == Some(value);
    written.match_labels.iter().all(is_equal)
        && written.match_expressions.iter().all(|expression| {
            let found = on.get(&expression.key);
            let is_listed = found.is_some_and(|found| expression.values.contains(found));
            match expression.operator.as_str() {
                "In" => is_listed,
                "NotIn" => !is_listed,
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                other => panic!("{other}"),
            }
        })
}

/// All sets of labels with the relevant keys and values.
fn universe() -> Vec<Labels> {
    let mut sets = vec![Labels::new()];
    for key in ["a", "b", "c"] {
        let longer = sets.iter().flat_map(|set| {
            UNIVERSE.iter().map(|value| {
                let mut set = set.clone();
                set.extend(value.map(|value| (key.to_owned(), value.to_owned())));
                set
            })
        });
        sets = longer.collect();
    }
    sets
}

proptest! {
    #[test]
    fn an_example_is_found_if_and_only_if_one_exists(one in any_selector(), other in any_selector()) {
        let (first, second) = (one.to_selector().unwrap(), other.to_selector().unwrap());
        if let Some(example) = example_of_both(&first, &second) {
            prop_assert!(first.matches(&example) && second.matches(&example), "{example:?}");
            prop_assert!(matches_as_written(&one, &example) && matches_as_written(&other, &example));
            prop_assert!(example.values().all(|value| value_faults(value).is_none()));
        } else {
            let found = universe().into_iter().find(|set| first.matches(set) && second.matches(set));
            prop_assert_eq!(found, None);
        }
        prop_assert_eq!(
            example_of_both(&first, &second).is_some(),
            example_of_both(&second, &first).is_some()
        );
    }

    #[test]
    fn a_selector_matches_what_its_conditions_match(written in any_selector()) {
        let selector = written.to_selector().unwrap();
        for set in universe() {
            prop_assert_eq!(selector.matches(&set), matches_as_written(&written, &set), "{:?}", set);
        }
        let is_written = !written.match_labels.is_empty() || !written.match_expressions.is_empty();
        prop_assert_eq!(selector.is_everything(), !is_written);
    }

    #[test]
    fn both_readings_accept_the_same_keys_and_values(key in "[a-zA-Z0-9/._! -]{0,6}", value in "[a-zA-Z0-9._! -]{0,6}") {
        let written = json!({"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]});
        let strict = serde_json::from_value::<NodeSelector>(written.clone()).ok();
        prop_assert_eq!(strict, NodeSelector::try_from(&label_selector(&written)).ok());
    }
}

#[test]
fn conditions_on_one_key_become_one() {
    let mut choice = LabelChoice::anything();
    choice.narrow(LabelChoice::not_in(BTreeSet::from(["1".to_owned()])));
    choice.narrow(LabelChoice::exists());
    assert!(!choice.allows(None) && !choice.allows(Some("1")) && choice.allows(Some("2")));
    choice.narrow(LabelChoice::does_not_exist());
    assert!(!choice.allows(None) && !choice.allows(Some("2")));
}
