//! Tests of colocation profiles: compiling, matching and applying.

use std::sync::Arc;

use headroom_domain::names;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::switch::Compat;

mod mistakes;

static SWITCHES: [&Switch; 3] = [&EXACT_PROBABILITY, &SKIPS_MISSING_SOURCES, &SUFFIXES_ONCE];

fn compile(spec: &Value) -> Profile {
    Profile::compile(&spec.to_string()).unwrap()
}

fn labels(value: Value) -> Labels {
    serde_json::from_value(value).unwrap()
}

fn ours() -> Switches {
    Switches::default()
}

fn koordinators() -> Switches {
    Switches::preset(SWITCHES, Compat::Upstream)
}

/// The error with its source.
fn text_with_cause(error: &ApplyError) -> String {
    let source = std::error::Error::source(error);
    let source = source.map(|source| format!(": {source}"));
    format!("{error}{}", source.unwrap_or_default())
}

/// The pod after applying a profile.
fn applied(spec: &Value, pod: &Value, switches: &Switches) -> Result<Value, String> {
    let class = Arc::new(PriorityClass {
        value: 5_500,
        preemption_policy: Some("Never".to_owned()),
    });
    let mut pod = pod.clone();
    let result = compile(spec).apply(
        &mut pod,
        ProfileTarget::Pod,
        &|_| Some(Arc::clone(&class)),
        switches,
    );
    result.map(|()| pod).map_err(|error| text_with_cause(&error))
}

fn with_labels(labels: &Value) -> Value {
    json!({"metadata": {"labels": labels}, "spec": {}})
}

#[rstest]
#[case(json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Bogus"}]}}), "spec.selector is invalid")]
#[case(json!({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}), "spec.namespaceSelector is invalid")]
#[case(json!({"labels": []}), "spec cannot be read")]
#[case(json!("text"), "spec cannot be read")]
fn a_profile_without_valid_selectors_is_an_error(#[case] spec: Value, #[case] reason: &str) {
    let error = Profile::compile(&spec.to_string()).unwrap_err();
    assert_eq!(error.to_string(), reason);
}

#[rstest]
#[case(json!("30"), "invalid type: string is not a percentage")]
#[case(json!(5_000_000_000_i64), "invalid type: string is not a percentage")]
#[case(json!("abc%"), r#"invalid value "abc%": strconv.Atoi: parsing "abc": invalid syntax"#)]
fn an_invalid_probability_is_a_defect(#[case] probability: Value, #[case] reason: &str) {
    let profile = compile(&json!({"probability": probability}));
    let defect = profile.defect(ProfileTarget::Pod).map(ToString::to_string);
    let expected = format!("spec.probability: invalid value for IntOrString: {reason}");
    assert_eq!(defect, Some(expected));
    assert!(profile.is_drawn(99, &ours()), "chance hides no defect");
}

#[rstest]
#[case(json!({}), None)]
#[case(json!({"koordinatorPriority": 0, "probability": "30%", "patch": {}}), None)]
#[case(json!({"koordinatorPriority": -5}), Some("spec.koordinatorPriority: -5 is negative, and a label cannot begin with a dash"))]
#[case(json!({"patch": "text"}), Some("spec.patch"))]
fn a_profile_that_cannot_be_applied_has_a_defect_and_still_matches(
    #[case] spec: Value,
    #[case] reason: Option<&str>,
) {
    let profile = compile(&spec);
    let defect = profile.defect(ProfileTarget::Pod).map(ToString::to_string);
    assert_eq!(defect.as_deref(), reason);
    assert_eq!(profile.matches(&Labels::default(), None), ProfileMatch::Matches);
}

#[rstest]
#[case::no_selectors(json!({}), json!({}), None, ProfileMatch::Matches)]
#[case::empty_selectors(json!({"selector": {}, "namespaceSelector": {}}), json!({}), None, ProfileMatch::Matches)]
#[case::other_labels(json!({"selector": {"matchLabels": {"team": "a"}}}), json!({"team": "b"}), None, ProfileMatch::OtherLabels)]
#[case::labels(json!({"selector": {"matchLabels": {"team": "a"}}}), json!({"team": "a"}), None, ProfileMatch::Matches)]
#[case::other_namespace(json!({"namespaceSelector": {"matchLabels": {"env": "prod"}}}), json!({}), Some(json!({"env": "dev"})), ProfileMatch::OtherNamespace)]
#[case::unknown_namespace(json!({"namespaceSelector": {"matchLabels": {"env": "prod"}}}), json!({}), None, ProfileMatch::UnknownNamespace)]
#[case::absent_key(json!({"selector": {"matchExpressions": [{"key": "canary", "operator": "DoesNotExist"}]}}), json!({}), None, ProfileMatch::Matches)]
fn both_selectors_must_match(
    #[case] spec: Value,
    #[case] pod: Value,
    #[case] namespace: Option<Value>,
    #[case] expected: ProfileMatch,
) {
    let namespace = namespace.map(labels);
    assert_eq!(compile(&spec).matches(&labels(pod), namespace.as_ref()), expected);
}

#[rstest]
#[case(json!(null), 100, 100)]
#[case(json!(0), 0, 0)]
#[case(json!(1), 1, 2)]
#[case(json!("30%"), 30, 31)]
#[case(json!(99), 99, 100)]
#[case(json!(150), 100, 100)]
#[case(json!(-5), 0, 0)]
fn the_draw_matches_the_probability(
    #[case] probability: Value,
    #[case] ours_in_100: usize,
    #[case] koordinators_in_100: usize,
) {
    let profile = compile(&json!({"probability": probability}));
    let count = |switches: &Switches| (0..100).filter(|draw| profile.is_drawn(*draw, switches)).count();
    assert_eq!(
        (count(&ours()), count(&koordinators())),
        (ours_in_100, koordinators_in_100)
    );
}

#[test]
fn draws_are_uniform_and_derived_from_review_and_profile() {
    let uids: Vec<String> = (0..20_000).map(|number| format!("review-{number}")).collect();
    let mut counts = [0_u32; 100];
    for uid in &uids {
        let drawn = draw(uid, "p");
        assert_eq!(draw(uid, "p"), drawn);
        counts[usize::from(drawn)] += 1;
    }
    // Two hundred each, within five standard deviations.
    for (drawn, count) in counts.iter().enumerate() {
        assert!((130..=270).contains(count), "{drawn} is drawn {count} times");
    }
    // Draws of two profiles are independent, as are draws of texts that are split differently.
    let equal = uids.iter().filter(|uid| draw(uid, "p") == draw(uid, "q")).count();
    assert!((130..=270).contains(&equal), "{equal}");
    let shifted = uids
        .iter()
        .filter(|uid| draw(uid, "p") == draw(&uid[..uid.len() - 1], &format!("{}p", &uid[uid.len() - 1..])));
    let equal = shifted.count();
    assert!((130..=270).contains(&equal), "{equal}");
}

/// Translation of cpu and memory: with both switches on, without the first, without the second, without both.
#[rstest]
#[case::no_profile(&[], [false, false, false, false])]
#[case::applied(&[(true, None)], [true, true, true, true])]
#[case::left_out(&[(false, None)], [false, true, false, true])]
#[case::no(&[(true, Some("false"))], [true, true, false, false])]
#[case::no_in_capitals(&[(true, Some(" FALSE"))], [true, true, false, false])]
#[case::yes(&[(true, Some("true"))], [false, false, false, false])]
#[case::neither_yes_nor_no(&[(true, Some(""))], [false, false, false, false])]
#[case::yes_of_one_left_out(&[(false, Some("true")), (true, None)], [true, true, false, false])]
#[case::yes_of_the_last(&[(true, None), (true, Some("true"))], [false, false, false, false])]
#[case::all_left_out(&[(false, Some("true"))], [false, true, false, false])]
fn profiles_decide_about_cpu_and_memory(
    #[case] profiles: &[(bool, Option<&str>)],
    #[case] expected: [bool; 4],
) {
    let off = [
        vec![],
        vec![&TRANSLATES_APPLIED],
        vec![&SKIP_IS_BOOLEAN],
        vec![&TRANSLATES_APPLIED, &SKIP_IS_BOOLEAN],
    ];
    let granted = off.map(|off| {
        let list: Vec<String> = off
            .iter()
            .map(|switch| format!("{}=false", switch.name))
            .collect();
        let switches = Switches::parse(
            [&TRANSLATES_APPLIED, &SKIP_IS_BOOLEAN],
            Compat::Headroom,
            &list.join(","),
        )
        .unwrap();
        let mut translation = TranslationDecision::default();
        for (is_applied, skip) in profiles {
            translation.count(*is_applied, *skip, &switches);
        }
        translation.applies()
    });
    assert_eq!(granted, expected);
}

#[rstest]
#[case::overwritten(json!({"labels": {"a": "x"}, "labelKeysMapping": {"a": "b"}}), json!({"a": "old"}), json!({"a": "x", "b": "x"}))]
#[case::suffix(json!({"labelSuffixes": {"team": "-x", "none": "-y"}}), json!({"team": "a"}), json!({"team": "a-x"}))]
#[case::suffix_of_a_copy(json!({"labelKeysMapping": {"a": "b"}, "labelSuffixes": {"b": "-s"}}), json!({"a": "v"}), json!({"a": "v", "b": "v-s"}))]
#[case::chain(json!({"labelKeysMapping": {"a": "b", "b": "c"}}), json!({"a": "1", "b": "2"}), json!({"a": "1", "b": "1", "c": "2"}))]
#[case::qos_beats_label(json!({"qosClass": "LS", "labels": {names::QOS_CLASS: "BE"}}), json!({}), json!({names::QOS_CLASS: "LS"}))]
#[case::priority(json!({"koordinatorPriority": 0}), json!({}), json!({names::SUB_PRIORITY: "0"}))]
#[case::patch_beats_all(json!({"qosClass": "BE", "patch": {"metadata": {"labels": {names::QOS_CLASS: "LS", "a": null}}}}), json!({"a": "1", "b": "2"}), json!({names::QOS_CLASS: "LS", "b": "2"}))]
fn labels_come_in_the_order_of_the_parts(#[case] spec: Value, #[case] before: Value, #[case] after: Value) {
    for switches in [ours(), koordinators()] {
        let pod = applied(&spec, &with_labels(&before), &switches);
        assert_eq!(pod, Ok(with_labels(&after)));
    }
}

#[test]
fn a_mapping_without_its_source_keeps_the_existing_value() {
    let spec = json!({"labelKeysMapping": {"gone": "b"}});
    let before = with_labels(&json!({"b": "keep"}));
    assert_eq!(applied(&spec, &before, &ours()), Ok(before.clone()));
    assert_eq!(
        applied(&spec, &before, &koordinators()),
        Ok(with_labels(&json!({"b": ""})))
    );
}

#[test]
fn a_suffix_is_added_once_and_only_where_it_fits() {
    let spec = json!({"labelSuffixes": {"a": "-x"}});
    let before = with_labels(&json!({"a": "v-x"}));
    assert_eq!(applied(&spec, &before, &ours()), Ok(before.clone()));
    assert_eq!(
        applied(&spec, &before, &koordinators()),
        Ok(with_labels(&json!({"a": "v-x-x"})))
    );
    let long = applied(&spec, &with_labels(&json!({"a": "v".repeat(62)})), &ours());
    assert_eq!(
        long,
        Err("label a would be longer than 63 bytes with its suffix".to_owned())
    );
}

#[test]
fn the_three_fields_of_a_priority_class_are_written_together() {
    let profile =
        compile(&json!({"priorityClassName": "pc", "schedulerName": "s", "annotations": {"n": "1"}}));
    assert_eq!(profile.priority_class_name(), Some("pc"));
    let mut pod = json!({"spec": {"priority": 0, "preemptionPolicy": "Never"}});
    let class = Arc::new(PriorityClass {
        value: 5_000,
        preemption_policy: None,
    });
    profile
        .apply(
            &mut pod,
            ProfileTarget::Pod,
            &|_| Some(Arc::clone(&class)),
            &ours(),
        )
        .unwrap();
    let spec = json!({"priorityClassName": "pc", "priority": 5_000, "schedulerName": "s"});
    assert_eq!(
        pod,
        json!({"metadata": {"annotations": {"n": "1"}}, "spec": spec})
    );
    let error = profile
        .apply(&mut pod, ProfileTarget::Pod, &|_| None, &ours())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"PriorityClass.scheduling.k8s.io "pc" not found"#
    );
}

#[test]
fn a_profile_that_does_not_apply_names_the_reason() {
    for (spec, pod, reason) in [
        (
            json!({"labels": {"a": "1"}}),
            json!({"metadata": []}),
            "metadata is not an object",
        ),
        (
            json!({"labels": {"a": "1"}}),
            json!({"metadata": {"labels": 1}}),
            "metadata.labels is not an object",
        ),
        (
            json!({"patch": {"spec": {"containers": [{"image": "i"}]}}}),
            json!({"spec": {"containers": [{"name": "c"}]}}),
            "spec.patch does not apply: spec.containers: an element has no name",
        ),
    ] {
        assert_eq!(applied(&spec, &pod, &ours()), Err(reason.to_owned()));
    }
}

#[test]
fn a_profile_that_writes_nothing_creates_nothing() {
    let pod = json!({"metadata": {}});
    let spec = json!({"labelKeysMapping": {"gone": "b"}, "labelSuffixes": {"a": "-x"}, "annotationKeysMapping": {"gone": "b"}});
    assert_eq!(applied(&spec, &pod, &ours()), Ok(pod));
}

#[test]
fn an_empty_profile_changes_no_member() {
    let pod = json!({"spec": {"x": 1}});
    assert_eq!(
        applied(
            &json!({"qosClass": "", "schedulerName": null, "patch": {}}),
            &pod,
            &ours()
        ),
        Ok(pod)
    );
}

proptest! {
    #[test]
    fn profiles_without_chained_mappings_are_idempotent(
        written in prop::collection::btree_map("[a-d]", "[a-c]{1,3}", 0..4),
        suffixes in prop::collection::btree_map("[a-f]", "-[a-b]", 0..3),
        before in prop::collection::btree_map("[a-h]", "[a-c]{1,3}", 0..5),
    ) {
        // A suffix of a label that the profile itself writes is added again, with the same result.
        let spec = json!({"labels": written, "labelSuffixes": suffixes, "qosClass": "BE", "koordinatorPriority": 7});
        let once = applied(&spec, &with_labels(&json!(before)), &ours()).unwrap();
        prop_assert_eq!(applied(&spec, &once, &ours()), Ok(once));
    }
}

#[test]
fn mappings_that_multiply_a_long_annotation_are_refused() {
    let mapping = |count: usize| {
        let members = (0..count).map(|index| (format!("{index:04}"), Value::from("x")));
        let targets = members.map(|(to, from)| {
            (
                from.as_str().unwrap().repeat(to.parse::<usize>().unwrap() + 1),
                Value::from(to),
            )
        });
        Value::Object(targets.collect())
    };
    let length = 200 << 10;
    let annotations: serde_json::Map<String, Value> = (1..=3)
        .map(|index| ("x".repeat(index), Value::from("v".repeat(length))))
        .collect();
    for (count, is_refused) in [(1, false), (2, true), (3, true)] {
        let spec = json!({"annotationKeysMapping": mapping(count)}).to_string();
        let profile = Profile::compile(&spec).unwrap();
        let mut pod = json!({"metadata": {"annotations": annotations}});
        let switches = Switches::preset(SWITCHES, Compat::Headroom);
        let applied = profile.apply(&mut pod, ProfileTarget::Pod, &|_| None, &switches);
        assert_eq!(
            applied == Err(ApplyError::LargeMapping("metadata.annotations")),
            is_refused,
            "{count}"
        );
    }
}
