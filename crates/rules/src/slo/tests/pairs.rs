//! Tests of pairs of values, of QoS classes, and of keys that Koordinator does not check.

use rstest::rstest;

use super::*;

#[rstest]
#[case::c65(
    r#""memoryEvictThresholdPercent":70"#,
    "MemoryEvictThresholdPercent must be greater than MemoryEvictLowerPercent",
    "OK"
)]
#[case::c66(
    r#""memoryEvictLowerPercent":60"#,
    "MemoryEvictLowerPercent must be less than MemoryEvictThresholdPercent",
    "OK"
)]
#[case::c66_above_default(
    r#""memoryEvictLowerPercent":75"#,
    "must be less than",
    "MemoryEvictLowerPercent must be less than MemoryEvictThresholdPercent"
)]
#[case::c71(
    r#""memoryAllocatableEvictThresholdPercent":110"#,
    "greater than MemoryAllocatableEvictLowerPercent",
    "OK"
)]
#[case::c72(
    r#""cpuEvictBESatisfactionUpperPercent":60"#,
    "greater than CPUEvictBESatisfactionLowerPercent",
    "OK"
)]
#[case::c75(
    r#""cpuEvictThresholdPercent":70"#,
    "CPUEvictThresholdPercent must be greater than CPUEvictLowerPercent",
    "OK"
)]
#[case::c76(
    r#""cpuAllocatableEvictLowerPercent":100"#,
    "CPUAllocatableEvictLowerPercent must be less than CPUAllocatableEvictThresholdPercent",
    "OK"
)]
#[case::c81(r#""enable":true,"cpuSuppressThresholdPercent":65,"cpuSuppressPolicy":"cpuset","memoryEvictThresholdPercent":70"#, "greater than MemoryEvictLowerPercent", "OK")]
fn half_a_pair_is_compared_with_what_is_in_force(
    #[case] members: &str,
    #[case] upstream: &str,
    #[case] ours: &str,
) {
    let case = Case::new([(THR, &cluster(&format!("{{{members}}}")))]);
    case.is_upstream(upstream);
    case.is_ours(ours);
}

#[test]
fn half_a_pair_of_an_entry_is_compared_with_that_of_all_nodes() {
    let text = format!(
        r#"{{"clusterStrategy":{{"memoryEvictThresholdPercent":70,"memoryEvictLowerPercent":60}},"nodeStrategies":[{}]}}"#,
        entry(r#""memoryEvictThresholdPercent":50"#)
    );
    let report = Case::new([(THR, &text)]).report(Compat::Headroom);
    let errors: Vec<String> = report.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "data[resource-threshold-config].nodeStrategies[0].memoryEvictThresholdPercent: Invalid value: 50: must be greater than memoryEvictLowerPercent, which is 60 for all nodes"
        ]
    );
}

#[rstest]
#[case::c97_low(
    "beClass",
    r#""cpuQOS":{"groupIdentity":-2}"#,
    "GroupIdentity must be -1 or greater"
)]
#[case::c97_high(
    "beClass",
    r#""cpuQOS":{"groupIdentity":3}"#,
    "GroupIdentity must be 2 or less"
)]
#[case::c98("beClass", r#""cpuQOS":{"schedIdle":2}"#, "SchedIdle must be 1 or less")]
#[case::c99_low(
    "beClass",
    r#""memoryQOS":{"wmarkScalePermill":0}"#,
    "WmarkScalePermill must be 1 or greater"
)]
#[case::c99_high(
    "beClass",
    r#""memoryQOS":{"wmarkScalePermill":1001}"#,
    "WmarkScalePermill must be 1,000 or less"
)]
#[case::c100_low(
    "beClass",
    r#""memoryQOS":{"wmarkMinAdj":-26}"#,
    "WmarkMinAdj must be -25 or greater"
)]
#[case::c100_high(
    "beClass",
    r#""memoryQOS":{"wmarkMinAdj":51}"#,
    "WmarkMinAdj must be 50 or less"
)]
#[case::c101(
    "beClass",
    r#""memoryQOS":{"minLimitPercent":101}"#,
    "MinLimitPercent must be 100 or less"
)]
#[case::c101_low(
    "beClass",
    r#""memoryQOS":{"lowLimitPercent":101}"#,
    "LowLimitPercent must be 100 or less"
)]
#[case::c101_throttling(
    "beClass",
    r#""memoryQOS":{"throttlingPercent":-1}"#,
    "ThrottlingPercent must be 0 or greater"
)]
#[case::c101_ratio(
    "beClass",
    r#""memoryQOS":{"wmarkRatio":101}"#,
    "WmarkRatio must be 100 or less"
)]
#[case::c102(
    "beClass",
    r#""memoryQOS":{"priorityEnable":2}"#,
    "PriorityEnable must be 1 or less"
)]
#[case::c102_priority("beClass", r#""memoryQOS":{"priority":13}"#, "Priority must be 12 or less")]
#[case::c102_group(
    "beClass",
    r#""memoryQOS":{"oomKillGroup":2}"#,
    "OomKillGroup must be 1 or less"
)]
#[case::c102_cache(
    "beClass",
    r#""memoryQOS":{"pageCacheLimitPercent":101}"#,
    "PageCacheLimitPercent must be 100 or less"
)]
#[case::c103("beClass", r#""memoryQOS":{"pageCacheLimitSize":-5}"#, "OK")]
#[case::c104(
    "beClass",
    r#""resctrlQOS":{"catRangeStartPercent":0,"catRangeEndPercent":100}"#,
    "OK"
)]
#[case::c104_equal(
    "beClass",
    r#""resctrlQOS":{"catRangeStartPercent":30,"catRangeEndPercent":30}"#,
    "CATRangeEndPercent must be greater than CATRangeStartPercent"
)]
#[case::c105(
    "beClass",
    r#""resctrlQOS":{"mbaPercent":101}"#,
    "MBAPercent must be 100 or less"
)]
#[case::c106(
    "beClass",
    r#""blkioQOS":{"blocks":[{"type":"bogus","ioCfg":{"readIOPS":-1,"ioWeightPercent":500}}]}"#,
    "OK"
)]
#[case::c107(
    "systemClass",
    r#""cpuQOS":{"groupIdentity":9}"#,
    "ResourceQOSCfg.ClusterStrategy.SystemClass.CPUQOS.CPUQOS.GroupIdentity"
)]
#[case::c107_root(
    "cgroupRoot",
    r#""cpuQOS":{"groupIdentity":9}"#,
    "ResourceQOSCfg.ClusterStrategy.CgroupRoot.CPUQOS.CPUQOS.GroupIdentity"
)]
#[case::c107_lsr(
    "lsrClass",
    r#""cpuQOS":{"groupIdentity":9}"#,
    "ResourceQOSCfg.ClusterStrategy.LSRClass.CPUQOS.CPUQOS.GroupIdentity"
)]
#[case::c109("lseClass", r#""cpuQOS":{"groupIdentity":9}"#, "OK")]
fn classes(#[case] class: &str, #[case] members: &str, #[case] expected: &str) {
    let text = cluster(&format!(r#"{{"{class}":{{{members}}}}}"#));
    Case::new([(QOS, &text), (SYS, "{}")]).is(expected);
}

#[rstest]
#[case::c104_end("beClass", r#""catRangeEndPercent":30"#, "OK")]
#[case::c104_start("beClass", r#""catRangeStartPercent":0"#, "OK")]
#[case::above_the_default_of_the_class(
    "beClass",
    r#""catRangeStartPercent":40"#,
    "must be less than CATRangeEndPercent"
)]
#[case::below_the_default_of_the_class("lsClass", r#""catRangeStartPercent":40"#, "OK")]
#[case::of_a_class_without_defaults("cgroupRoot", r#""catRangeStartPercent":40"#, "OK")]
fn half_a_range_is_compared_with_the_default(#[case] class: &str, #[case] members: &str, #[case] ours: &str) {
    let text = cluster(&format!(r#"{{"{class}":{{"resctrlQOS":{{{members}}}}}}}"#));
    let case = Case::new([(QOS, &text), (SYS, "{}")]);
    case.is_upstream("than CATRange");
    case.is_ours(ours);
}

#[rstest]
#[case(
    NORM,
    r#"{"enable":true,"defaultRatio":1,"ratioModel":{"m":{"baseRatio":1.5}}}"#,
    "OK"
)]
#[case(
    NORM,
    r#"{"defaultRatio":0.9}"#,
    r#"{"CPUNormalizationCfg.CPUNormalizationStrategy.DefaultRatio":"DefaultRatio must be 1 or greater"}"#
)]
#[case(NORM, r#"{"ratioModel":{"m":{"baseRatio":5.1}}}"#, r#"{"CPUNormalizationCfg.CPUNormalizationStrategy.ratioModel[m].baseRatio":"BaseRatio must be 5 or less"}"#)]
#[case(
    AMP,
    r#"{"enable":true,"resourceAmplificationRatio":{"cpu":1.5,"memory":1}}"#,
    "OK"
)]
#[case(
    AMP,
    r#"{"resourceAmplificationRatio":{"cpu":0.9}}"#,
    "ResourceAmplificationRatio must be 1 or greater"
)]
#[case(
    HOST,
    r#"{"applications":[{"name":"a","qos":"LS","cgroupPath":{"base":"CgroupRoot"}}]}"#,
    "OK"
)]
#[case(
    HOST,
    r#"{"applications":[{"name":1}]}"#,
    "Failed to parse HostApplication config"
)]
fn keys_that_koordinator_does_not_check(#[case] key: &str, #[case] text: &str, #[case] ours: &str) {
    let case = Case::new([(key, text)]);
    case.is_upstream("OK");
    case.is_ours(ours);
}
