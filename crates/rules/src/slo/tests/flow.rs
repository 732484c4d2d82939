//! Tests of the keys that are checked, and of the parser of their texts.

use rstest::rstest;

use super::*;

#[rstest]
#[case::c1("", "OK")]
#[case::c3("invalid_content", r#"___{"reason":"ParseConfigFail","message":"Failed to parse colocation config in configmap koordinator-system/slo-controller-config, err: invalid character 'i' looking for beginning of value"}___"#)]
#[case::c4("{}", "OK")]
#[case::c5("null", "OK")]
#[case::c6(
    "[]",
    "err: json: cannot unmarshal array into Go value of type configuration.ColocationCfg"
)]
#[case::c7("\"x\"", "err: json: cannot unmarshal string into Go value")]
#[case::c8("{} x", "err: invalid character 'x' after top-level value")]
#[case::c9(
    r#"{"enable":true,}"#,
    "err: invalid character '}' looking for beginning of object key string"
)]
#[case::c10("  ", "err: unexpected end of JSON input")]
#[case::c11("enable: true", "err: invalid character 'e' looking")]
#[case::c12("{} // c", "ParseConfigFail")]
#[case::c13("\u{feff}{}", "ParseConfigFail")]
#[case::c14(
    r#"{"enable":"yes"}"#,
    "err: json: cannot unmarshal string into Go struct field ColocationCfg.ColocationStrategy.enable of type bool"
)]
#[case::c15(
    r#"{"cpuReclaimThresholdPercent":60.5}"#,
    "err: json: cannot unmarshal number 60.5 into Go struct field ColocationCfg.ColocationStrategy.cpuReclaimThresholdPercent of type int64"
)]
#[case::c16(r#"{"cpuReclaimThresholdPercent":60.0}"#, "cannot unmarshal number 60.0 into")]
#[case::c17(r#"{"cpuReclaimThresholdPercent":1e2}"#, "cannot unmarshal number 1e2 into")]
#[case::c18(r#"{"cpuReclaimThresholdPercent":"60"}"#, "cannot unmarshal string into")]
#[case::c19(
    r#"{"cpuReclaimThresholdPercent":9223372036854775808}"#,
    "cannot unmarshal number 9223372036854775808 into"
)]
#[case::c20(
    r#"{"CPURECLAIMTHRESHOLDPERCENT":-1}"#,
    "CPUReclaimThresholdPercent must be 0 or greater"
)]
#[case::c21(r#"{"foo":1}"#, "OK")]
#[case::c22(r#"{"cpuReclaimThresholdPercent":null}"#, "OK")]
#[case::c23(r#"{"degradeTimeMinutes":0,"degradeTimeMinutes":5}"#, "OK")]
#[case::c23_case(
    r#"{"degradeTimeMinutes":5,"DegradeTimeMinutes":0}"#,
    "DegradeTimeMinutes must be 1 or greater"
)]
#[case::c24(
    r#"{"metricAggregatePolicy":{"durations":["5x"]}}"#,
    r#"err: time: unknown unit \"x\" in duration \"5x\""#
)]
#[case::c25_number(
    r#"{"metricAggregatePolicy":{"durations":[5]}}"#,
    "err: json: cannot unmarshal number into Go value of type string"
)]
#[case::c25_null(
    r#"{"metricAggregatePolicy":{"durations":[null]}}"#,
    r#"err: time: invalid duration \"\""#
)]
#[case::c26(
    r#"{"metricAggregatePolicy":{"durations":["-5m", "300ms", "1h30m", "0", "+1.5s", ".5s"]}}"#,
    "OK"
)]
#[case::c26_unit(
    r#"{"metricAggregatePolicy":{"durations":["5"]}}"#,
    "missing unit in duration"
)]
#[case::c27(r#"{"extensions":{"a":{"b":1}}}"#, "OK")]
#[case::c28(r#"{"nodeConfigs":null}"#, "OK")]
#[case::c29(
    r#"{"nodeConfigs":{}}"#,
    "err: json: cannot unmarshal object into Go struct field ColocationCfg.nodeConfigs of type []configuration.NodeColocationCfg"
)]
#[case::c30(
    r#"{"nodeConfigs":[null]}"#,
    "nodeConfigs NodeSelector must not empty error! configType: colocation-config,nodeConfig name:"
)]
fn texts_of_colocation(#[case] text: &str, #[case] expected: &str) {
    Case::new([(COLO, text)]).is(expected);
}

#[rstest]
#[case::c1(Case::default(), "OK")]
#[case::c31(Case::new([(COLO, "{}"), (THR, "bad"), (SYS, "bad")]), "Failed to parse resourceThreshold config")]
#[case::c32(Case::new([(COLO, "bad")]).over([(COLO, "bad")]), "OK")]
#[case::c33(Case::new([(COLO, "bad")]).over([(COLO, "{}")]), "ParseConfigFail")]
#[case::c34(Case::new([(COLO, "")]).over([(COLO, "bad")]), "OK")]
#[case::c40(Case::new([(THR, r#"{"enable":true,"cpuSuppressThresholdPercent":500}"#)]), "OK")]
#[case::c41(Case::new([(THR, r#"{"clusterStrategy":[]}"#)]), "err: json: cannot unmarshal array into Go struct field ResourceThresholdCfg.clusterStrategy of type")]
#[case::c42(Case::new([(THR, r#"{"clusterStrategy":{"evictEnabledPriorityThreshold":3000000000}}"#)]), "of type int32")]
#[case::label_of_burst(Case::new([(BURST, "x")]), "Failed to parse CpuBurst config")]
#[case::label_of_qos(Case::new([(QOS, "x"), (SYS, "{}")]), "Failed to parse ResourceQOS config")]
fn keys(#[case] case: Case, #[case] expected: &str) {
    case.is(expected);
}

#[rstest]
#[case::c37(HOST)]
#[case::c38_normalization(NORM)]
#[case::c38_amplification(AMP)]
fn keys_that_koordinator_does_not_check(#[case] key: &str) {
    let case = Case::new([(key, "bad")]);
    case.is_upstream("OK");
    case.is_ours("ParseConfigFail");
    Case::new([(key, "bad")]).over([(key, "bad")]).is("OK");
    Case::new([(key, "null")]).is("OK");
}

#[test]
fn every_fault_is_listed() {
    let case = Case::new([
        (
            COLO,
            r#"{"enable":"yes","degradeTimeMinutes":0,"nodeConfigs":[{"name":"a"}]}"#,
        ),
        (THR, "{"),
    ]);
    let report = case.report(Compat::Headroom);
    let errors: Vec<String> = report.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            r#"data[colocation-config].enable: Invalid value: "yes": must be true or false"#,
            "data[colocation-config].nodeConfigs[0].nodeSelector: Required value: must have matchLabels or matchExpressions, or the entry would select every node",
            "data[colocation-config].degradeTimeMinutes: Invalid value: 0: must be a whole number of 1 or more, in minutes",
            r#"data[resource-threshold-config]: Invalid value: "{": is not JSON: line 1, column 2: unexpected end of JSON input"#,
        ]
    );
    assert_contains(&report.refusal.unwrap(), "Failed to parse colocation config");
}

#[test]
fn lists_of_errors_and_warnings_end() {
    let entries: Vec<String> = (0..2000)
        .map(|_| r#"{"degradeTimeMinutes":0,"memoryCalculatePolicy":"x","y":1}"#.to_owned())
        .collect();
    let text = format!(r#"{{"nodeConfigs":[{}]}}"#, entries.join(","));
    let report = Case::new([(COLO, &text)]).report(Compat::Headroom);
    assert_eq!((report.errors.iter().count(), report.warnings.len()), (100, 34));
    assert_eq!(
        report.warnings[32..],
        [
            "3900 more errors are not listed",
            "2001 more warnings are not listed"
        ]
    );
}
