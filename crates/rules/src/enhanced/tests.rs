//! Tests of required labels, by the numbers of the cases of pods.

use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::{SWITCHES, switch::Compat};

fn labels(keys: &[&str]) -> Labels {
    keys.iter()
        .map(|key| ((*key).to_owned(), String::new()))
        .collect()
}

fn data(enable: &str, rules: &str) -> BTreeMap<String, String> {
    [("enable", enable), ("rules", rules)]
        .map(|(key, text)| (key.to_owned(), text.to_owned()))
        .into()
}

fn rules(enable: &str, rules: &str) -> LabelRules {
    let (read, result) = LabelRules::default().updated(Some(&data(enable, rules)));
    result.unwrap();
    read
}

fn preset(compat: Compat) -> Switches {
    Switches::preset(SWITCHES, compat)
}

fn check(rules: &LabelRules, labels: &Labels, stored: Option<&Labels>, compat: Compat) -> Vec<String> {
    let pod = LabelledPod {
        namespace: "ns",
        labels,
        stored,
    };
    rules.check(pod, &preset(compat)).texts
}

const APP: &str = r#"[{"name": "r", "requiredLabels": ["app"]}]"#;
const TWO: &str =
    r#"[{"name": "r", "requiredLabels": ["product", "app"]}, {"name": "s", "requiredLabels": ["team"]}]"#;

#[rstest]
#[case::case_133(APP, &[], &["validation rule 'r' failed: required label 'app' is missing"], Some("required label 'app' is missing"))]
#[case::case_134(
    TWO,
    &["team"],
    &["validation rule 'r' failed: required labels are missing: [product app]"],
    Some("required labels are missing: [product app]")
)]
#[case::all_rules(
    TWO,
    &["app"],
    &[
        "validation rule 'r' failed: required label 'product' is missing",
        "validation rule 's' failed: required label 'team' is missing",
    ],
    Some("required label 'product' is missing")
)]
#[case::case_135_an_empty_value(APP, &["app"], &[], None)]
#[case::case_135_an_exempt_namespace(
    r#"[{"requiredLabels": ["app"], "namespaceWhitelist": ["other", "ns"]}]"#, &[], &[], None
)]
#[case::another_exempt_namespace(
    r#"[{"requiredLabels": ["app"], "namespaceWhitelist": ["ns2", "NS", ""]}]"#,
    &[],
    &["validation rule '' failed: required label 'app' is missing"],
    Some("required label 'app' is missing")
)]
#[case::no_rules("[]", &[], &[], None)]
fn a_pod_must_have_the_labels_of_each_rule(
    #[case] text: &str,
    #[case] keys: &[&str],
    #[case] ours: &[&str],
    #[case] upstream: Option<&str>,
) {
    let (rules, labels) = (rules(" True ", text), labels(keys));
    assert_eq!(check(&rules, &labels, None, Compat::Headroom), ours);
    let first: Vec<&str> = upstream.into_iter().collect();
    assert_eq!(check(&rules, &labels, None, Compat::Upstream), first);
}

#[test]
fn only_the_word_true_switches_the_rules_on() {
    for (text, is_on) in [
        ("true", true),
        ("\tTRUE\n", true),
        ("yes", false),
        ("", false),
        ("1", false),
    ] {
        let rules = rules(text, APP);
        assert_eq!(
            !check(&rules, &labels(&[]), None, Compat::Upstream).is_empty(),
            is_on,
            "{text:?}"
        );
    }
    let (without, result) = LabelRules::default().updated(Some(&BTreeMap::new()));
    assert_eq!((without, result.is_ok()), (LabelRules::default(), true));
}

#[test]
fn only_one_label_value_exempts_a_pod() {
    for (value, is_exempt) in [("true", true), ("True", false), ("", false)] {
        let labels = Labels::from([(
            "pod.koordinator.sh/skip-enhanced-validation".to_owned(),
            value.to_owned(),
        )]);
        let texts = check(&rules("true", APP), &labels, None, Compat::Headroom);
        assert_eq!(texts.is_empty(), is_exempt, "{value:?}");
    }
}

#[test]
fn unreadable_rules_keep_the_last_ones_and_can_be_disabled() {
    let good = rules("true", APP);
    let (worse, result) = good.updated(Some(&data("true", "[")));
    assert!(result.is_err() && worse == good);
    let (off, result) = good.updated(Some(&data("false", "[")));
    assert!(result.is_err());
    assert!(
        check(&off, &labels(&[]), None, Compat::Headroom).is_empty(),
        "off"
    );
    assert_eq!(
        check(&off, &labels(&[]), None, Compat::Upstream).len(),
        1,
        "as the last good version"
    );
    let (again, _) = off.updated(Some(&data("true", APP)));
    assert_eq!(again, good);
    let (gone, result) = good.updated(None);
    assert_eq!((gone, result.is_ok()), (LabelRules::default(), true));
}

#[test]
fn an_update_is_refused_for_labels_that_it_removes() {
    let rules = rules("true", TWO);
    for (before, after, is_refused) in [
        (&["team"][..], &["team"][..], false),
        (&["team"], &["team", "app"], false),
        (&["team", "app"], &["team"], true),
        (&["team", "app", "product"], &["team", "app"], true),
        (&["pod"], &["other"], false),
    ] {
        let (before, after) = (labels(before), labels(after));
        let texts = check(&rules, &after, Some(&before), Compat::Headroom);
        assert_eq!(!texts.is_empty(), is_refused, "{before:?} {after:?}");
    }
    // The stored Pod was exempt, the new one is not.
    let before = Labels::from([(names::SKIP_ENHANCED_VALIDATION.to_owned(), "true".to_owned())]);
    assert_eq!(
        check(&rules, &labels(&[]), Some(&before), Compat::Headroom).len(),
        2
    );
    let same = labels(&["team"]);
    assert_eq!(check(&rules, &same, Some(&same), Compat::Upstream).len(), 1);
}

#[test]
fn each_label_that_is_missing_is_a_field() {
    let pod = LabelledPod {
        namespace: "ns",
        labels: &labels(&[]),
        stored: None,
    };
    let broken = rules("true", TWO).check(pod, &preset(Compat::Headroom));
    let fields: Vec<&str> = broken.fields.iter().map(Error::field).collect();
    assert_eq!(
        fields,
        [
            "metadata.labels[product]",
            "metadata.labels[app]",
            "metadata.labels[team]"
        ]
    );
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_as_a_whole(enable in ".{0,8}", text in "[\\[\\]{}\":,a-z0-9 nul]{0,60}") {
        let good = rules("true", APP);
        let (next, result) = good.updated(Some(&data(&enable, &text)));
        let rules = result.map_or(good.rules, |document| document.rules);
        prop_assert_eq!(next.rules, rules);
    }
}
