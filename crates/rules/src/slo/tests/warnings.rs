//! Tests of probable mistakes that are no reason for a refusal.

use rstest::rstest;

use super::*;

#[rstest]
#[case::word(COLO, r#"{"cpuCalculatePolicy":"usge"}"#, r#"colocation-config: cpuCalculatePolicy: "usge" is none of usage, request, maxUsageRequest; did you mean usage?"#)]
#[case::member(
    COLO,
    r#"{"cpuReclaimTresholdPercent":60}"#,
    "colocation-config: unknown member cpuReclaimTresholdPercent has no effect; did you mean cpuReclaimThresholdPercent?"
)]
#[case::entries(
    COLO,
    r#"{"nodeConfig":[]}"#,
    "colocation-config: unknown member nodeConfig has no effect; did you mean nodeConfigs?"
)]
#[case::far(COLO, r#"{"foo":60}"#, "colocation-config: unknown member foo has no effect")]
#[case::wrong_place(
    THR,
    r#"{"cpuSuppressThresholdPercent":65}"#,
    "resource-threshold-config: unknown member cpuSuppressThresholdPercent has no effect; did you mean clusterStrategy.cpuSuppressThresholdPercent?"
)]
#[case::cluster(
    THR,
    r#"{"clusterStategy":{}}"#,
    "resource-threshold-config: unknown member clusterStategy has no effect; did you mean clusterStrategy?"
)]
#[case::deep(
    QOS,
    r#"{"clusterStrategy":{"beClass":{"cpuQOS":{"groupIdentiy":1}}}}"#,
    "resource-qos-config: unknown member clusterStrategy.beClass.cpuQOS.groupIdentiy has no effect; did you mean clusterStrategy.beClass.cpuQOS.groupIdentity?"
)]
#[case::class(
    QOS,
    r#"{"clusterStrategy":{"lseClass":{}}}"#,
    "resource-qos-config: unknown member clusterStrategy.lseClass has no effect; did you mean clusterStrategy.lsrClass?"
)]
#[case::selector(
    COLO,
    r#"{"nodeConfigs":[{"nodeSelector":{"matchLabels":{"x":"1"},"matchLabel":{}}}]}"#,
    "colocation-config: unknown member nodeConfigs[0].nodeSelector.matchLabel has no effect; did you mean nodeConfigs[0].nodeSelector.matchLabels?"
)]
#[case::requirement(
    COLO,
    r#"{"nodeConfigs":[{"nodeSelector":{"matchExpressions":[{"key":"x","operator":"Exists","value":[]}]}}]}"#,
    "colocation-config: unknown member nodeConfigs[0].nodeSelector.matchExpressions[0].value has no effect; did you mean nodeConfigs[0].nodeSelector.matchExpressions[0].values?"
)]
#[case::disks(
    QOS,
    r#"{"clusterStrategy":{"beClass":{"blkioQOS":{"blocks":[{"ioCfg":{"ioWeightPercent":500}}]}}}}"#,
    "resource-qos-config: clusterStrategy.beClass.blkioQOS.blocks[0].ioCfg.ioWeightPercent: 500 should be from 1 to 100"
)]
#[case::ratio(
    AMP,
    r#"{"resourceAmplificationRatio":{"cpu":6}}"#,
    "resource-amplification-config: resourceAmplificationRatio[cpu]: 6 should be of 5 or less"
)]
#[case::key(
    "colocation-confg",
    "{}",
    "unknown key colocation-confg has no effect; did you mean colocation-config?"
)]
#[case::names(COLO, r#"{"nodeConfigs":[{"name":"a","nodeSelector":{"matchLabels":{"x":"1"}}},{"name":"a","nodeSelector":{"matchLabels":{"x":"2"}}}]}"#, r#"colocation-config: nodeConfigs[1].name: another entry has the name "a" too"#)]
#[case::lost_total(SYS, r#"{"clusterStrategy":{"totalNetworkBandwidth":"10G"},"nodeStrategies":[{"nodeSelector":{"matchLabels":{"x":"1"}},"watermarkScaleFactor":150}]}"#, "system-config: nodeStrategies[0] has no totalNetworkBandwidth, so Koordinator sets it to 0 for these nodes")]
#[case::possible_overlap(COLO, &selectors::colocation("a: x=1 | b: y=1"), r#"colocation-config: entries "a" and "b" would both select a node with x=1,y=1; the first would apply"#)]
fn a_warning_names_place_and_value(#[case] key: &str, #[case] text: &str, #[case] warning: &str) {
    let report = Case::new([(key, text)]).report(Compat::Headroom);
    assert_eq!(
        (report.warnings.as_slice(), report.refusal),
        ([warning.to_owned()].as_slice(), None)
    );
}

#[rstest]
#[case(COLO, r#"{"cpuCalculatePolicy":"usage","midReclaimMode":""}"#)]
#[case("my-extension", "{}")]
#[case("feature-gates", "A=true")]
fn known_values_cause_no_warning(#[case] key: &str, #[case] text: &str) {
    assert_eq!(
        Case::new([(key, text)]).report(Compat::Headroom),
        Report::default()
    );
}

/// The CPU ratio, the normalization ratio, and the warning about both.
#[rstest]
#[case::above(
    r#"{"enable":true,"resourceAmplificationRatio":{"cpu":2}}"#,
    r#"{"enable":true,"defaultRatio":3}"#,
    true
)]
#[case::at(
    r#"{"enable":true,"resourceAmplificationRatio":{"cpu":2}}"#,
    r#"{"enable":true,"defaultRatio":2.5}"#,
    false
)]
#[case::model(
    r#"{"enable":true,"resourceAmplificationRatio":{"cpu":2}}"#,
    r#"{"enable":true,"ratioModel":{"m":{"turboEnabledRatio":3}}}"#,
    true
)]
#[case::of_an_entry(r#"{"nodeConfigs":[{"nodeSelector":{"matchLabels":{"x":"1"}},"enable":true,"resourceAmplificationRatio":{"cpu":2}}]}"#, r#"{"enable":true,"defaultRatio":3}"#, true)]
#[case::memory(
    r#"{"enable":true,"resourceAmplificationRatio":{"memory":2}}"#,
    r#"{"enable":true,"defaultRatio":3}"#,
    false
)]
#[case::off(
    r#"{"enable":false,"resourceAmplificationRatio":{"cpu":2}}"#,
    r#"{"enable":true,"defaultRatio":3}"#,
    false
)]
fn the_product_with_normalization_is_bounded(
    #[case] ratio: &str,
    #[case] normalization: &str,
    #[case] warns: bool,
) {
    let expected = "resource-amplification-config: cpu: 2 times 3 of cpu-normalization-config exceeds 5; slo-controller multiplies them";
    let data = [(AMP, ratio), (NORM, normalization)];
    let warnings = Case::new(data).report(Compat::Headroom).warnings;
    assert_eq!(
        warnings.iter().any(|warning| warning == expected),
        warns,
        "{warnings:?}"
    );
    // Either may be the changed one; neither is checked if both are unchanged.
    let halves = [[(AMP, ratio)], [(NORM, normalization)]];
    for half in halves {
        let warnings = Case::new(data).over(half).report(Compat::Headroom).warnings;
        assert_eq!(
            warnings.iter().any(|warning| warning == expected),
            warns,
            "{warnings:?}"
        );
    }
    let unchanged = Case::new(data).over(data).report(Compat::Headroom);
    assert!(unchanged.warnings.is_empty(), "{unchanged:?}");
    assert!(
        Case::new(data)
            .report(Compat::Upstream)
            .warnings
            .iter()
            .all(|warning| warning != expected)
    );
}

#[test]
fn a_message_with_omitted_values_counts_them() {
    let entries: Vec<String> = (0..300)
        .map(|index| {
            format!(r#"{{"nodeSelector":{{"matchLabels":{{"x":"{index}"}}}},"degradeTimeMinutes":0}}"#)
        })
        .collect();
    let text = format!(r#"{{"nodeConfigs":[{}]}}"#, entries.join(","));
    let report = Case::new([(COLO, &text)]).report(Compat::Headroom);
    let named = report.refusal.unwrap().matches("must be 1 or greater").count();
    assert_eq!(named, 256);
    let expected = "colocation-config: the message names 256 of 300 values";
    assert!(
        report.warnings.iter().any(|warning| warning == expected),
        "{:?}",
        report.warnings
    );
}
