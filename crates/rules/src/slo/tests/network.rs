//! Tests of network bandwidth of QoS classes, together with kernel settings.

use rstest::rstest;

use super::*;

/// Classes with network members, such as `be ingressRequest=50`.
fn classes(written: &str) -> String {
    let classes = written
        .split("; ")
        .filter(|class| !class.is_empty())
        .map(|class| {
            let (name, members) = class.split_once(' ').unwrap();
            let members = members.split(' ').map(|member| {
                let (name, value) = member.split_once('=').unwrap();
                format!(r#""{name}":{value}"#)
            });
            let members = members.collect::<Vec<_>>().join(",");
            format!(r#""{name}Class":{{"networkQOS":{{{members}}}}}"#)
        });
    classes.collect::<Vec<_>>().join(",")
}

fn qos(written: &str) -> String {
    cluster(&format!("{{{}}}", classes(written)))
}

fn qos_entry(written: &str) -> String {
    format!(r#"{{"nodeStrategies":[{}]}}"#, entry(&classes(written)))
}

/// Checks the result under both behaviours for a document together with kernel settings.
#[track_caller]
fn check(qos: &str, system: &str, upstream: &str, ours: &str) {
    let case = Case::new([(QOS, qos), (SYS, system)]);
    case.is_upstream(upstream);
    case.is_ours(ours);
}

const OVER_100: &str = "ClusterStrategy total net bandwidth percentage already over 100";
const OVER_TOTAL: &str = "total net bandwidth over total network bandwidth in clusterStrategy";
const ENTRY_OVER_TOTAL: &str =
    "total net bandwidth quantity already over total network bandwidth in cfg.NodeStrategies[0]";
const MIXED: &str = "only one type can be used for percentages or quantity in clusterStrategy";

#[test]
fn c110_classes_need_no_settings_of_the_kernel() {
    let case = Case::new([(QOS, "{}")]);
    case.is_upstream("Failed to parse System config in configmap koordinator-system/slo-controller-config, err: unexpected end of JSON input");
    case.is_ours("OK");
    check("{}", "{}", "OK", "OK");
}

#[test]
fn c112_wrong_settings_of_the_kernel_are_refused() {
    check(
        "{}",
        "x",
        "Failed to parse System config",
        "Failed to parse System config",
    );
}

#[rstest]
#[case::c113(r#"{"clusterStrategy":null}"#)]
#[case::c113_bandwidth(r#"{"clusterStrategy":{"beClass":{"networkQOS":{"ingressRequest":50}}}}"#)]
fn null_crashes_nothing(#[case] qos: &str) {
    check(qos, "null", "OK", "OK");
}

#[test]
fn c114_koordinator_compares_with_nothing_beside_null() {
    let case = Case::new([(QOS, &qos("be ingressRequest=101")), (SYS, "null")]).over([(SYS, "null")]);
    case.is_upstream("OK");
    case.is_ours("IngressRequest: Invalid value: 101");
}

#[test]
fn c115_the_settings_may_go() {
    let text = qos("be ingressRequest=50");
    Case::new([(QOS, &text)])
        .over([(QOS, &text), (SYS, "{}")])
        .is("OK");
}

#[test]
fn c116_a_smaller_total_is_compared_with_classes_that_stay() {
    let text = qos(r#"be ingressRequest="50M""#);
    let system = |total: &str| cluster(&format!(r#"{{"totalNetworkBandwidth":"{total}"}}"#));
    let case = Case::new([(QOS, &text), (SYS, &system("10M"))]).over([(QOS, &text), (SYS, &system("1G"))]);
    case.is_upstream("OK");
    case.is_ours(OVER_TOTAL);
    Case::new([(QOS, &text), (SYS, &system("2G"))])
        .over([(QOS, &text), (SYS, &system("1G"))])
        .is("OK");
}

#[rstest]
#[case::c117("be ingressRequest=50", "OK")]
#[case::c118(
    "be ingressRequest=101",
    "ResourceQOSCfg.ClusterStrategy.BEClass.IngressRequest: Invalid value: 101: must be percentage value just in 0-100'"
)]
#[case::c119(
    "be egressLimit=-1",
    "ResourceQOSCfg.ClusterStrategy.BEClass.EgressLimit: Invalid value: -1: must be percentage value just in 0-100'"
)]
#[case::c120("be ingressLimit=\"50X\"", r#"ResourceQOSCfg.ClusterStrategy.BEClass.IngressLimit: Invalid value: "50X": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"#)]
#[case::c121(
    "be ingressRequest=\"5%\"",
    r#"IngressRequest: Invalid value: "5%": quantities must match"#
)]
#[case::c122(
    "be ingressLimit=\"\"",
    r#"IngressLimit: Invalid value: "": quantities must match"#
)]
#[case::c123("be ingressRequest=50.5", "ParseConfigFail")]
#[case::c123_bool("be ingressRequest=true", "ParseConfigFail")]
#[case::c123_large("be ingressRequest=3000000000", "ParseConfigFail")]
#[case::c124("be ingressRequest=null", "OK")]
#[case::c125("be enable=false ingressRequest=101", "IngressRequest: Invalid value: 101")]
#[case::c126("be ingressRequest=50 egressRequest=\"50M\"", MIXED)]
#[case::c127("ls ingressRequest=10; be egressRequest=\"1\"", MIXED)]
#[case::c128("be ingressRequest=50 ingressLimit=\"50M\"", "OK")]
#[case::c129("lsr ingressRequest=30; ls ingressRequest=40; be ingressRequest=30", "OK")]
#[case::c130("lsr ingressRequest=30; ls ingressRequest=40; be ingressRequest=40", OVER_100)]
#[case::c131("ls egressRequest=70; be egressRequest=40", OVER_100)]
#[case::c135("be ingressRequest=\"0.5\"", "OK")]
#[case::c136("be ingressRequest=\"-50M\"", "OK")]
#[case::c149("system ingressRequest=500", "OK")]
#[case::c151(
    "lsr egressLimit=102; be ingressRequest=101",
    "LSRClass.EgressLimit: Invalid value: 102"
)]
fn bandwidth_without_a_total(#[case] written: &str, #[case] expected: &str) {
    let text = qos(written);
    check(&text, "{}", expected, expected);
}

#[rstest]
#[case::c132(
    "be ingressRequest=\"50M\"",
    r#"{"totalNetworkBandwidth":"100M"}"#,
    OVER_100,
    "OK"
)]
#[case::c133("be ingressRequest=\"50\"", r#"{"totalNetworkBandwidth":"100M"}"#, "OK", "OK")]
#[case::c134(
    "be ingressRequest=\"101\"",
    r#"{"totalNetworkBandwidth":"100M"}"#,
    OVER_100,
    "OK"
)]
#[case::c137("be ingressRequest=50", r#"{"minFreeKbytesFactor":100}"#, OVER_TOTAL, "OK")]
#[case::c138("be ingressRequest=50", r#"{"totalNetworkBandwidth":40}"#, OVER_TOTAL, "OK")]
#[case::c139("be ingressRequest=50", r#"{"totalNetworkBandwidth":"10G"}"#, "OK", "OK")]
#[case::amounts(
    "be ingressRequest=\"50\"; ls ingressRequest=\"60\"",
    r#"{"totalNetworkBandwidth":"100"}"#,
    OVER_100,
    OVER_TOTAL
)]
#[case::limit(
    "be ingressLimit=\"2G\"",
    r#"{"totalNetworkBandwidth":"1G"}"#,
    "OK",
    OVER_TOTAL
)]
#[case::limit_of_an_unknown_total("be ingressLimit=\"2G\"", "{}", "OK", "OK")]
fn bandwidth_compared_with_a_total(
    #[case] written: &str,
    #[case] system: &str,
    #[case] upstream: &str,
    #[case] ours: &str,
) {
    check(&qos(written), &cluster(system), upstream, ours);
}

#[rstest]
#[case::c140(
    "be ingressRequest=101",
    "{}",
    "ResourceQOSCfg.nodeStrategy.0.BEClass.IngressRequest: Invalid value: 101",
    "ResourceQOSCfg.nodeStrategy.0.BEClass.IngressRequest"
)]
#[case::c141("be ingressRequest=50", "{}", ENTRY_OVER_TOTAL, "OK")]
#[case::c142("be ingressRequest=0", "{}", "OK", "OK")]
#[case::c143(
    "be ingressRequest=50",
    r#"{"clusterStrategy":{"totalNetworkBandwidth":"10G"}}"#,
    "OK",
    "OK"
)]
#[case::c144("be ingressRequest=50", r#"{"clusterStrategy":{"totalNetworkBandwidth":"10G"},"nodeStrategies":[{"nodeSelector":{"matchLabels":{"y":"1"}},"totalNetworkBandwidth":"1G"}]}"#, ENTRY_OVER_TOTAL, "OK")]
#[case::c145(
    "be ingressRequest=50",
    r#"{"nodeStrategies":[{"nodeSelector":{"matchLabels":{"x":"1"}},"totalNetworkBandwidth":"1G"}]}"#,
    "OK",
    "OK"
)]
#[case::c146(
    "be ingressRequest=50",
    r#"{"nodeStrategies":[{"nodeSelector":{"matchLabels":{"x":"1"}}}]}"#,
    ENTRY_OVER_TOTAL,
    "OK"
)]
#[case::c147(
    "ls egressRequest=60; be egressRequest=60",
    "{}",
    "cfg.NodeStrategies[0] total net bandwidth percentage already over 100",
    "cfg.NodeStrategies[0] total net bandwidth percentage already over 100"
)]
#[case::c148(
    "be ingressRequest=50 egressRequest=\"50M\"",
    "{}",
    "only one type can be used for percentages or quantity in nodeStrategy[0]",
    "in nodeStrategy[0]"
)]
#[case::of_the_same_nodes("be ingressRequest=\"90\"", r#"{"clusterStrategy":{"totalNetworkBandwidth":"10G"},"nodeStrategies":[{"nodeSelector":{"matchLabels":{"x":"1"}},"totalNetworkBandwidth":"80"}]}"#, ENTRY_OVER_TOTAL, ENTRY_OVER_TOTAL)]
fn bandwidth_of_entries(
    #[case] written: &str,
    #[case] system: &str,
    #[case] upstream: &str,
    #[case] ours: &str,
) {
    check(&qos_entry(written), system, upstream, ours);
}

#[test]
fn the_sum_of_an_entry_includes_values_for_all_nodes() {
    let all = classes("ls ingressRequest=60");
    let text = format!(
        r#"{{"clusterStrategy":{{{all}}},"nodeStrategies":[{}]}}"#,
        entry(&classes("be ingressRequest=50"))
    );
    let system = cluster(r#"{"totalNetworkBandwidth":"10G"}"#);
    check(
        &text,
        &system,
        "OK",
        "cfg.NodeStrategies[0] total net bandwidth percentage already over 100",
    );
}

#[test]
fn c150_a_range_comes_before_the_network() {
    let text = cluster(r#"{"beClass":{"cpuQOS":{"groupIdentity":9},"networkQOS":{"ingressRequest":101}}}"#);
    check(
        &text,
        "{}",
        "GroupIdentity must be 2 or less",
        "GroupIdentity must be 2 or less",
    );
}
