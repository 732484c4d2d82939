//! Tests of values out of range.

use rstest::rstest;

use super::*;

fn parameter(path: &str, sentence: &str) -> String {
    format!(r#""message":{{"{path}":"{sentence}"}}}}___"#)
}

#[rstest]
#[case::c43(
    "metricAggregateDurationSeconds",
    "0",
    "MetricAggregateDurationSeconds must be 1 or greater"
)]
#[case::c44(
    "metricReportIntervalSeconds",
    "0",
    "MetricReportIntervalSeconds must be 1 or greater"
)]
#[case::c45(
    "cpuReclaimThresholdPercent",
    "-1",
    "CPUReclaimThresholdPercent must be 0 or greater"
)]
#[case::c45_high("cpuReclaimThresholdPercent", "200", "OK")]
#[case::c46(
    "memoryReclaimThresholdPercent",
    "-1",
    "MemoryReclaimThresholdPercent must be 0 or greater"
)]
#[case::c47("degradeTimeMinutes", "0", "DegradeTimeMinutes must be 1 or greater")]
#[case::c48(
    "updateTimeThresholdSeconds",
    "0",
    "UpdateTimeThresholdSeconds must be 1 or greater"
)]
#[case::c49("resourceDiffThreshold", "0", "ResourceDiffThreshold must be greater than 0")]
#[case::c49_below(
    "resourceDiffThreshold",
    "-0.1",
    "ResourceDiffThreshold must be greater than 0"
)]
#[case::c50("resourceDiffThreshold", "1", "OK")]
#[case::c50_small("resourceDiffThreshold", "1e-9", "OK")]
#[case::c51("resourceDiffThreshold", "1.5", "ResourceDiffThreshold must be 1 or less")]
#[case::c52("midCPUThresholdPercent", "101", "MidCPUThresholdPercent must be 100 or less")]
#[case::c52_below("midCPUThresholdPercent", "-1", "MidCPUThresholdPercent must be 0 or greater")]
#[case::c53(
    "midMemoryThresholdPercent",
    "101",
    "MidMemoryThresholdPercent must be 100 or less"
)]
#[case::c54("midUnallocatedPercent", "101", "MidUnallocatedPercent must be 100 or less")]
#[case::c55_cpu(
    "midStaticCPUReservedPercent",
    "101",
    "MidStaticCPUReservedPercent must be 100 or less"
)]
#[case::c55_memory(
    "midStaticMemoryReservedPercent",
    "101",
    "MidStaticMemoryReservedPercent must be 100 or less"
)]
#[case::c56(
    "batchCPUThresholdPercent",
    "-1",
    "BatchCPUThresholdPercent must be 0 or greater"
)]
#[case::c57(
    "batchMemoryThresholdPercent",
    "-1",
    "BatchMemoryThresholdPercent must be 0 or greater"
)]
#[case::c58_policy("cpuCalculatePolicy", "\"x\"", "OK")]
#[case::c58_empty("cpuCalculatePolicy", "\"\"", "OK")]
#[case::c58_mode("midReclaimMode", "\"x\"", "OK")]
fn colocation(#[case] member: &str, #[case] value: &str, #[case] sentence: &str) {
    let text = format!(r#"{{"{member}":{value}}}"#);
    let field = sentence.split(' ').next().unwrap();
    let expected = match sentence {
        "OK" => "OK".to_owned(),
        _ => parameter(&format!("ColocationCfg.ColocationStrategy.{field}"), sentence),
    };
    Case::new([(COLO, &text)]).is(&expected);
}

#[test]
fn c59_the_fields_of_a_key_are_named_together() {
    let text = r#"{"metricAggregateDurationSeconds":0,"degradeTimeMinutes":0,"resourceDiffThreshold":2}"#;
    Case::new([(COLO, text)]).is(r#"___{"reason":"ConfigParamInvalid","message":{"ColocationCfg.ColocationStrategy.DegradeTimeMinutes":"DegradeTimeMinutes must be 1 or greater","ColocationCfg.ColocationStrategy.MetricAggregateDurationSeconds":"MetricAggregateDurationSeconds must be 1 or greater","ColocationCfg.ColocationStrategy.ResourceDiffThreshold":"ResourceDiffThreshold must be 1 or less"}}___"#);
}

#[rstest]
#[case::c60(
    COLO,
    "nodeConfigs",
    r#""degradeTimeMinutes":0"#,
    "ColocationCfg.NodeConfigs[0].ColocationStrategy.DegradeTimeMinutes"
)]
#[case::c79(
    THR,
    "nodeStrategies",
    r#""cpuSuppressThresholdPercent":101"#,
    "ResourceThresholdCfg.NodeStrategies[0].ResourceThresholdStrategy.CPUSuppressThresholdPercent"
)]
#[case::c80(THR, "nodeStrategies", "", "OK")]
#[case::c87(
    BURST,
    "nodeStrategies",
    r#""cpuBurstPercent":0"#,
    "CPUBurstCfg.NodeStrategies[0].CPUBurstStrategy.CPUBurstConfig.CPUBurstPercent"
)]
#[case::c96(
    SYS,
    "nodeStrategies",
    r#""minFreeKbytesFactor":0"#,
    "SystemCfg.NodeStrategies[0].SystemStrategy.MinFreeKbytesFactor"
)]
#[case::c108(
    QOS,
    "nodeStrategies",
    r#""beClass":{"cpuQOS":{"groupIdentity":9}}"#,
    "ResourceQOSCfg.NodeStrategies[0].ResourceQOSStrategy.BEClass.CPUQOS.CPUQOS.GroupIdentity"
)]
fn entries_have_their_own_paths(
    #[case] key: &str,
    #[case] member: &str,
    #[case] value: &str,
    #[case] path: &str,
) {
    let text = format!(r#"{{"{member}":[{}]}}"#, entry(value));
    Case::new([(SYS, "{}"), (key, &text)]).is(path);
}

#[test]
fn c61_all_nodes_and_entries_are_named_together() {
    let text = format!(
        r#"{{"degradeTimeMinutes":0,"nodeConfigs":[{},{{"nodeSelector":{{"matchLabels":{{"x":"2"}}}},"degradeTimeMinutes":0}}]}}"#,
        entry("")
    );
    let case = Case::new([(COLO, &text)]);
    case.is("ColocationCfg.ColocationStrategy.DegradeTimeMinutes");
    case.is("ColocationCfg.NodeConfigs[1].ColocationStrategy.DegradeTimeMinutes");
}

#[rstest]
#[case::c62(THR, r#""cpuSuppressThresholdPercent":0"#, "OK")]
#[case::c62_most(THR, r#""cpuSuppressThresholdPercent":100"#, "OK")]
#[case::c62_high(THR, r#""cpuSuppressThresholdPercent":101"#, r#"{"ResourceThresholdCfg.ClusterStrategy.CPUSuppressThresholdPercent":"CPUSuppressThresholdPercent must be 100 or less"}"#)]
#[case::c63(
    THR,
    r#""cpuSuppressMinPercent":-1"#,
    "CPUSuppressMinPercent must be 0 or greater"
)]
#[case::c64(THR, r#""cpuSuppressPolicy":"bogus","cpuEvictPolicy":"bogus""#, "OK")]
#[case::c67(THR, r#""memoryEvictThresholdPercent":70,"memoryEvictLowerPercent":60"#, "OK")]
#[case::c68(THR, r#""memoryEvictThresholdPercent":60,"memoryEvictLowerPercent":70"#, r#"MemoryEvictLowerPercent":"MemoryEvictLowerPercent must be less than MemoryEvictThresholdPercent","ResourceThresholdCfg.ClusterStrategy.MemoryEvictThresholdPercent":"MemoryEvictThresholdPercent must be greater than MemoryEvictLowerPercent"}"#)]
#[case::c68_equal(
    THR,
    r#""memoryEvictThresholdPercent":70,"memoryEvictLowerPercent":70"#,
    r#"MemoryEvictThresholdPercent","ResourceThresholdCfg"#
)]
#[case::c69(THR, r#""memoryEvictThresholdPercent":101,"memoryEvictLowerPercent":60"#, r#""message":{"ResourceThresholdCfg.ClusterStrategy.MemoryEvictThresholdPercent":"MemoryEvictThresholdPercent must be 100 or less"}}"#)]
#[case::c70(THR, r#""memoryEvictThresholdPercent":0,"memoryEvictLowerPercent":-1"#, r#""message":{"ResourceThresholdCfg.ClusterStrategy.MemoryEvictLowerPercent":"MemoryEvictLowerPercent must be 0 or greater"}}"#)]
#[case::c71(
    THR,
    r#""memoryAllocatableEvictThresholdPercent":110,"memoryAllocatableEvictLowerPercent":100"#,
    "OK"
)]
#[case::c71_low(
    THR,
    r#""memoryAllocatableEvictThresholdPercent":110,"memoryAllocatableEvictLowerPercent":-1"#,
    "MemoryAllocatableEvictLowerPercent must be 0 or greater"
)]
#[case::c72(
    THR,
    r#""cpuEvictBESatisfactionUpperPercent":60,"cpuEvictBESatisfactionLowerPercent":40"#,
    "OK"
)]
#[case::c72_turned(
    THR,
    r#""cpuEvictBESatisfactionUpperPercent":40,"cpuEvictBESatisfactionLowerPercent":60"#,
    "CPUEvictBESatisfactionLowerPercent must be less than CPUEvictBESatisfactionUpperPercent"
)]
#[case::c73(
    THR,
    r#""cpuEvictBEUsageThresholdPercent":101"#,
    "CPUEvictBEUsageThresholdPercent must be 100 or less"
)]
#[case::c74(
    THR,
    r#""cpuEvictTimeWindowSeconds":0"#,
    "CPUEvictTimeWindowSeconds must be greater than 0"
)]
#[case::c74_least(THR, r#""cpuEvictTimeWindowSeconds":1"#, "OK")]
#[case::c75(THR, r#""cpuEvictThresholdPercent":70,"cpuEvictLowerPercent":60"#, "OK")]
#[case::c76(
    THR,
    r#""cpuAllocatableEvictThresholdPercent":110,"cpuAllocatableEvictLowerPercent":100"#,
    "OK"
)]
#[case::c77(THR, r#""allocatableEvictPriorityThreshold":7999"#, "OK")]
#[case::c77_high(
    THR,
    r#""allocatableEvictPriorityThreshold":8000"#,
    "AllocatableEvictPriorityThreshold must be 7,999 or less"
)]
#[case::c77_low(
    THR,
    r#""allocatableEvictPriorityThreshold":-1"#,
    "AllocatableEvictPriorityThreshold must be 0 or greater"
)]
#[case::c78(THR, r#""evictEnabledPriorityThreshold":-99999"#, "OK")]
#[case::c82(BURST, r#""cpuBurstPercent":0"#, r#"{"CPUBurstCfg.ClusterStrategy.CPUBurstConfig.CPUBurstPercent":"CPUBurstPercent must be 1 or greater"}"#)]
#[case::c82_most(BURST, r#""cpuBurstPercent":10000"#, "OK")]
#[case::c82_high(BURST, r#""cpuBurstPercent":10001"#, "CPUBurstPercent must be 10,000 or less")]
#[case::c83(
    BURST,
    r#""cfsQuotaBurstPercent":99"#,
    "CFSQuotaBurstPercent must be 100 or greater"
)]
#[case::c84(BURST, r#""cfsQuotaBurstPeriodSeconds":-1"#, "OK")]
#[case::c84_low(
    BURST,
    r#""cfsQuotaBurstPeriodSeconds":-2"#,
    "CFSQuotaBurstPeriodSeconds must be -1 or greater"
)]
#[case::c85(
    BURST,
    r#""sharePoolThresholdPercent":101"#,
    r#"{"CPUBurstCfg.ClusterStrategy.SharePoolThresholdPercent":"#
)]
#[case::c86(BURST, r#""policy":"bogus""#, "OK")]
#[case::c88(
    SYS,
    r#""minFreeKbytesFactor":0"#,
    "MinFreeKbytesFactor must be greater than 0"
)]
#[case::c89(
    SYS,
    r#""watermarkScaleFactor":0"#,
    "WatermarkScaleFactor must be greater than 0"
)]
#[case::c89_most(SYS, r#""watermarkScaleFactor":400"#, "OK")]
#[case::c89_high(
    SYS,
    r#""watermarkScaleFactor":401"#,
    "WatermarkScaleFactor must be 400 or less"
)]
#[case::c90(SYS, r#""memcgReapBackGround":2"#, "MemcgReapBackGround must be 1 or less")]
#[case::c91(SYS, r#""schedGroupIdentityEnabled":5,"schedIdleSaverWmark":-7"#, "OK")]
#[case::c92(
    SYS,
    r#""pageCacheLimitEnabled":2"#,
    "PageCacheLimitEnabled must be 1 or less"
)]
#[case::c93(SYS, r#""totalNetworkBandwidth":"10G""#, "OK")]
#[case::c93_number(SYS, r#""totalNetworkBandwidth":1000"#, "OK")]
#[case::c93_negative(SYS, r#""totalNetworkBandwidth":"-1""#, "OK")]
#[case::c93_null(SYS, r#""totalNetworkBandwidth":null"#, "OK")]
#[case::c94(
    SYS,
    r#""totalNetworkBandwidth":"10X""#,
    "err: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)]
#[case::c94_empty(SYS, r#""totalNetworkBandwidth":"""#, "err: quantities must match")]
#[case::c95(SYS, r#""schedFeatures":{"A":1}"#, "ParseConfigFail")]
#[case::c95_right(SYS, r#""schedFeatures":{"A":true}"#, "OK")]
fn clusters(#[case] key: &str, #[case] members: &str, #[case] expected: &str) {
    Case::new([(key, &cluster(&format!("{{{members}}}")))]).is(expected);
}

#[test]
fn a_word_that_the_controller_needs_is_not_empty() {
    let case = Case::new([(COLO, r#"{"metricMemoryCollectPolicy":""}"#)]);
    case.is_upstream("OK");
    case.is_ours("MetricMemoryCollectPolicy must not be empty");
    let errors = case.report(Compat::Headroom).errors.to_string();
    assert_contains(&errors, "must be a non-empty string in quotes");
}
