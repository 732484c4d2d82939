//! Tests of merged values and their origins.

mod properties;

use headroom_domain::selector::Labels;
use rstest::rstest;

use super::{super::table::KEYS, layers::default_content, *};
use crate::slo::{
    Data,
    documents::SloDocuments,
    tests::{AMP, BURST, COLO, HOST, NORM, QOS, SYS, THR, cluster, entry},
};

/// Values in force for a node with `x=1` and these labels.
fn effective(key: &str, text: &str, labels: &[(&str, &str)]) -> EffectiveKey {
    let labels = [("x", "1")].iter().chain(labels);
    let labels: Labels = labels
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let documents = SloDocuments::read(&Data::from([(key.to_owned(), text.to_owned())]));
    let document = documents.iter().find(|document| document.key().name == key);
    document.unwrap().effective(&labels)
}

/// A value with its origin, such as `60 percent, default`; `-` if there is none.
fn value(effective: &EffectiveKey, path: &str) -> String {
    let value = effective.values.get(path);
    value.map_or_else(|| "-".to_owned(), |value| format!("{value}, {}", value.origin))
}

fn entries(cluster: &str, entry_members: &str) -> String {
    let entry = entry(entry_members);
    format!(r#"{{"clusterStrategy":{cluster},"nodeStrategies":[{entry}]}}"#)
}

#[test]
fn every_default_of_the_table_is_a_value_of_its_kind() {
    for (class, field) in KEYS.into_iter().flat_map(Key::rows) {
        if let Some(default) = field.default_in(class) {
            let first = default.split(", ").next().unwrap();
            assert!(
                default_content(field, first).is_some(),
                "{}: {default}",
                field.member
            );
        }
    }
}

#[rstest]
#[case::absent(COLO, "", "cpuReclaimThresholdPercent", "60 percent, default")]
#[case::cluster(
    COLO,
    r#"{"cpuReclaimThresholdPercent":70}"#,
    "cpuReclaimThresholdPercent",
    "70 percent, cluster"
)]
#[case::null(
    COLO,
    r#"{"cpuReclaimThresholdPercent":null}"#,
    "cpuReclaimThresholdPercent",
    "60 percent, default"
)]
#[case::empty_text(COLO, r#"{"cpuCalculatePolicy":""}"#, "cpuCalculatePolicy", "usage, default")]
#[case::list(COLO, "{}", "metricAggregatePolicy.durations[2]", "30m, default")]
#[case::a_list_is_replaced(
    COLO,
    r#"{"metricAggregatePolicy":{"durations":["1m"]}}"#,
    "metricAggregatePolicy.durations[1]",
    "-"
)]
#[case::an_empty_list_is_not(
    COLO,
    r#"{"metricAggregatePolicy":{"durations":[]}}"#,
    "metricAggregatePolicy.durations[1]",
    "10m, default"
)]
#[case::ratio(COLO, "{}", "resourceDiffThreshold", "0.1 (ratio), default")]
#[case::nothing(THR, "{}", "memoryEvictLowerPercent", "-")]
#[case::switch(SYS, &cluster(r#"{"memcgReapBackGround":1}"#), "memcgReapBackGround", "1 (on), cluster")]
#[case::of_class(QOS, &cluster(r#"{"beClass":{"memoryQOS":{"enable":true}}}"#), "beClass.memoryQOS.wmarkMinAdj", "50 percent, agent")]
#[case::of_a_class_that_is_off(QOS, &cluster(r#"{"beClass":{"memoryQOS":{"enable":false}}}"#), "beClass.memoryQOS.wmarkMinAdj", "-")]
#[case::of_no_class(QOS, "", "policies.cpuPolicy", "groupIdentity, agent")]
#[case::share(QOS, &cluster(r#"{"beClass":{"networkQOS":{"ingressRequest":20}}}"#), "beClass.networkQOS.ingressRequest", "20 percent, cluster")]
#[case::amount(QOS, &cluster(r#"{"beClass":{"networkQOS":{"ingressRequest":"20M"}}}"#), "beClass.networkQOS.ingressRequest", "20M bytes per second, cluster")]
#[case::map(
    AMP,
    r#"{"resourceAmplificationRatio":{"cpu":1.5}}"#,
    "resourceAmplificationRatio[cpu]",
    "1.5 (ratio), cluster"
)]
fn values_without_an_entry(
    #[case] key: &str,
    #[case] text: &str,
    #[case] path: &str,
    #[case] expected: &str,
) {
    let found = effective(key, text, &[]);
    assert_eq!(value(&found, path), expected);
    assert!(found.selected_by.is_empty() && found.unreadable.is_none());
}

#[test]
fn an_entry_overrides_the_cluster_member_by_member() {
    let text = entries(
        r#"{"cpuBurstPercent":500,"policy":"auto"}"#,
        r#""cpuBurstPercent":0,"sharePoolThresholdPercent":null"#,
    );
    let found = effective(BURST, &text, &[]);
    assert_eq!(found.selected_by, ["\"a\""]);
    assert_eq!(value(&found, "cpuBurstPercent"), "0 percent, entry \"a\"");
    assert_eq!(value(&found, "policy"), "auto, cluster");
    assert_eq!(value(&found, "sharePoolThresholdPercent"), "50 percent, default");
}

#[test]
fn the_first_of_several_entries_counts() {
    let unnamed =
        r#"{"nodeSelector":{"matchExpressions":[{"key":"x","operator":"Exists"}]},"degradeTimeMinutes":7}"#;
    let other = r#"{"name":"other","nodeSelector":{"matchLabels":{"x":"2"}},"degradeTimeMinutes":9}"#;
    let text = format!(
        r#"{{"nodeConfigs":[{other},{unnamed},{}]}}"#,
        entry(r#""degradeTimeMinutes":8"#)
    );
    let found = effective(COLO, &text, &[]);
    assert_eq!(found.selected_by, ["nodeConfigs[1]", "\"a\""]);
    assert_eq!(
        value(&found, "degradeTimeMinutes"),
        "7 minutes, entry nodeConfigs[1]"
    );
}

#[test]
fn an_entry_without_a_usable_selector_selects_nothing() {
    let text = r#"{"nodeConfigs":[{"nodeSelector":{}},{"nodeSelector":{"matchLabels":{"x":"a b"}}}]}"#;
    assert!(effective(COLO, text, &[]).selected_by.is_empty());
}

#[test]
fn maps_and_objects_are_merged_and_lists_replaced() {
    let model = |ratio: f64| format!(r#""ratioModel":{{"m{ratio}":{{"baseRatio":{ratio}}}}}"#);
    let text = format!(r#"{{{},"nodeConfigs":[{}]}}"#, model(1.5), entry(&model(2.0)));
    let found = effective(NORM, &text, &[]);
    assert_eq!(
        value(&found, "ratioModel[m1.5].baseRatio"),
        "1.5 (ratio), cluster"
    );
    assert_eq!(
        value(&found, "ratioModel[m2].baseRatio"),
        "2 (ratio), entry \"a\""
    );

    let text = format!(
        r#"{{"extensions":{{"a":1,"b":{{"c":1}}}},"nodeConfigs":[{}]}}"#,
        entry(r#""extensions":{"b":{"d":2}}"#)
    );
    let found = effective(COLO, &text, &[]);
    assert_eq!(value(&found, "extensions"), r#"{"a":1,"b":{"d":2}}, entry "a""#);

    let block = |name: &str| format!(r#""beClass":{{"blkioQOS":{{"blocks":[{{"name":"{name}"}}]}}}}"#);
    let two = r#"{"beClass":{"blkioQOS":{"blocks":[{"name":"c","type":"device"},{"name":"d"}]}}}"#;
    let found = effective(QOS, &entries(two, &block("e")), &[]);
    assert_eq!(value(&found, "beClass.blkioQOS.blocks[0].name"), "e, entry \"a\"");
    assert_eq!(value(&found, "beClass.blkioQOS.blocks[0].type"), "-");
    assert_eq!(value(&found, "beClass.blkioQOS.blocks[1].name"), "-");
}

#[test]
fn applications_of_an_entry_replace_those_of_all_nodes() {
    let application =
        |name: &str| format!(r#""applications":[{{"name":"{name}","qos":"LS"}},{{"name":"z"}}]"#);
    let text = format!(r#"{{{},"nodeConfigs":[{}]}}"#, application("all"), entry(""));
    assert!(
        effective(HOST, &text, &[]).values.is_empty(),
        "not even one of all nodes"
    );
    let text = format!(
        r#"{{{},"nodeConfigs":[{}]}}"#,
        application("all"),
        entry(r#""applications":[{"name":"own"}]"#)
    );
    let found = effective(HOST, &text, &[]);
    assert_eq!(found.values.len(), 1);
    assert_eq!(value(&found, "applications[0].name"), "own, entry \"a\"");
}

#[rstest]
#[case::lost(
    r#"{"totalNetworkBandwidth":"10G"}"#,
    r#""watermarkScaleFactor":150"#,
    "0 bytes per second, entry \"a\""
)]
#[case::own(
    r#"{"totalNetworkBandwidth":"10G"}"#,
    r#""totalNetworkBandwidth":"5G""#,
    "5G bytes per second, entry \"a\""
)]
#[case::nothing_said(r#"{"totalNetworkBandwidth":"10G"}"#, "", "10G bytes per second, cluster")]
#[case::none("{}", r#""watermarkScaleFactor":150"#, "0 bytes per second, default")]
fn an_entry_without_a_total_loses_it(#[case] cluster: &str, #[case] entry: &str, #[case] expected: &str) {
    let found = effective(SYS, &entries(cluster, entry), &[]);
    assert_eq!(value(&found, "totalNetworkBandwidth"), expected);
}

#[rstest]
#[case("0.8", "80 percent, label node.koordinator.sh/cpu-reclaim-ratio")]
#[case("0.299", "29 percent, label node.koordinator.sh/cpu-reclaim-ratio")]
#[case("-1", "70 percent, entry \"a\"")]
#[case("much", "70 percent, entry \"a\"")]
#[case("NaN", "70 percent, entry \"a\"")]
#[case("inf", "70 percent, entry \"a\"")]
fn node_labels_override_everything(#[case] ratio: &str, #[case] expected: &str) {
    let labels = [("node.koordinator.sh/cpu-reclaim-ratio", ratio)];
    let text = format!(
        r#"{{"nodeConfigs":[{}]}}"#,
        entry(r#""cpuReclaimThresholdPercent":70"#)
    );
    let found = effective(COLO, &text, &labels);
    assert_eq!(value(&found, "cpuReclaimThresholdPercent"), expected);
}

#[rstest]
#[case("T", "true, label node.koordinator.sh/cpu-normalization-enabled")]
#[case("0", "false, label node.koordinator.sh/cpu-normalization-enabled")]
#[case("yes", "false, default")]
fn a_label_switches_normalization(#[case] text: &str, #[case] expected: &str) {
    let labels = [("node.koordinator.sh/cpu-normalization-enabled", text)];
    assert_eq!(value(&effective(NORM, "{}", &labels), "enable"), expected);
    assert_eq!(value(&effective(COLO, "{}", &labels), "enable"), "false, default");
}

#[rstest]
#[case::of_an_entry_alone("", r#""enable":true"#, true)]
#[case::of_all(r#""enable":true,"#, r#""enable":true"#, false)]
#[case::of_all_but_this(r#""enable":true,"#, r#""enable":false"#, false)]
#[case::of_none("", "", false)]
fn an_entry_cannot_switch_colocation_on(#[case] cluster: &str, #[case] own: &str, #[case] is_vain: bool) {
    let text = format!(r#"{{{cluster}"nodeConfigs":[{}]}}"#, entry(own));
    assert_eq!(effective(COLO, &text, &[]).caveat.is_some(), is_vain);
}

#[rstest]
#[case::syntax(COLO, "{", "is not JSON: unexpected end of JSON input")]
#[case::value(
    COLO,
    r#"{"degradeTimeMinutes":"5"}"#,
    "degradeTimeMinutes: must be a whole number of 1 or more, in minutes, not \"5\""
)]
#[case::document(THR, "[]", "must be a JSON object, not \"[]\"")]
#[case::ours(
    AMP,
    r#"{"mode":"fast"}"#,
    "mode: unknown variant `fast`, expected one of `off`, `static`, `guard`, `auto`"
)]
fn an_unreadable_text_has_no_values(#[case] key: &str, #[case] text: &str, #[case] reason: &str) {
    let found = effective(key, text, &[]);
    assert_eq!(found.unreadable.as_deref(), Some(reason));
    assert!(found.values.is_empty());
}
