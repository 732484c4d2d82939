//! Koordinator's documented settings are accepted without a warning.

use serde_json::{Value, json};

use super::*;

fn memory(min_adj: i64) -> Value {
    json!({
        "enable": false, "minLimitPercent": 0, "lowLimitPercent": 0, "throttlingPercent": 0, "wmarkRatio": 95,
        "wmarkScalePermill": 20, "wmarkMinAdj": min_adj, "priorityEnable": 0, "priority": 0, "oomKillGroup": 0,
    })
}

fn class(identity: i64, min_adj: i64, cache_end: i64) -> Value {
    json!({
        "cpuQOS": {"enable": false, "groupIdentity": identity},
        "memoryQOS": memory(min_adj),
        "resctrlQOS": {"enable": false, "catRangeStartPercent": 0, "catRangeEndPercent": cache_end, "mbaPercent": 100},
    })
}

/// An entry for nodes with one kernel version and one more member.
fn entry(member: &str, value: &Value) -> Value {
    let mut entry =
        json!({"name": "alios", "nodeSelector": {"matchLabels": {"kubernetes.io/kernel": "alios"}}});
    entry[member] = value.clone();
    entry
}

fn strategies(cluster: &Value, member: &str, value: &Value) -> String {
    json!({"clusterStrategy": cluster, "nodeStrategies": [entry(member, value)]}).to_string()
}

fn classes() -> Value {
    let mut best_effort = class(-1, 50, 30);
    best_effort["blkioQOS"] = json!({"enable": true, "blocks": [
        {"name": "pool", "type": "volumegroup", "ioCfg": {"ioWeightPercent": 60}},
        {"name": "/dev/sdb", "type": "device", "ioCfg": {
            "readBPS": 102_400_000, "readIOPS": 20_480, "writeBPS": 204_800_004, "writeIOPS": 10_240,
        }},
    ]});
    let latencies = json!({
        "readLatency": 3000, "writeLatency": 3000, "readLatencyPercent": 95, "writeLatencyPercent": 95,
    });
    let blocks = json!([{"name": "pool", "type": "volumegroup", "ioCfg": latencies}]);
    json!({
        "lsrClass": class(2, -25, 100), "lsClass": class(2, -25, 100), "beClass": best_effort,
        "cgroupRoot": {"blkioQOS": {"enable": true, "blocks": blocks}},
    })
}

fn colocation() -> String {
    let document = json!({
        "enable": false, "metricAggregateDurationSeconds": 300, "metricReportIntervalSeconds": 60,
        "metricAggregatePolicy": {"durations": ["5m", "10m", "15m"]},
        "metricMemoryCollectPolicy": "usageWithoutPageCache", "cpuReclaimThresholdPercent": 60,
        "memoryReclaimThresholdPercent": 65, "memoryCalculatePolicy": "usage", "degradeTimeMinutes": 15,
        "updateTimeThresholdSeconds": 300, "resourceDiffThreshold": 0.1,
        "nodeConfigs": [entry("resourceDiffThreshold", &json!(0.2))],
    });
    document.to_string()
}

fn host() -> String {
    let application = json!({
        "name": "nginx", "priority": "koord-prod", "qos": "LS",
        "cgroupPath": {"base": "CgroupRoot", "parentDir": "host-latency-sensitive/", "relativePath": "nginx/"},
    });
    let entries = json!([entry("applications", &json!([application]))]);
    json!({"applications": [application], "nodeConfigs": entries}).to_string()
}

fn normalization() -> String {
    let model = json!({
        "baseRatio": 1.5, "hyperThreadEnabledRatio": 1.0, "turboEnabledRatio": 1.8, "hyperThreadTurboEnabledRatio": 1.2,
    });
    let models = json!({"Intel(R) Xeon(R) Platinum XXX CPU @ 2.50GHz": model});
    let entries = json!([entry("enable", &json!(true))]);
    json!({"enable": false, "ratioModel": models, "nodeConfigs": entries}).to_string()
}

#[test]
fn documented_settings_are_accepted() {
    let threshold = json!({
        "enable": false, "cpuSuppressThresholdPercent": 65, "cpuSuppressPolicy": "cpuset", "memoryEvictThresholdPercent": 70,
    });
    let burst = json!({
        "policy": "none", "cpuBurstPercent": 1000, "cfsQuotaBurstPercent": 300, "cfsQuotaBurstPeriodSeconds": -1,
        "sharePoolThresholdPercent": 50,
    });
    let system = json!({"minFreeKbytesFactor": 100, "watermarkScaleFactor": 150});
    let case = Case::new([
        (COLO, &colocation()),
        (
            THR,
            &strategies(&threshold, "cpuEvictBEUsageThresholdPercent", &json!(80)),
        ),
        (
            QOS,
            &strategies(&classes(), "beClass", &json!({"memoryQOS": {"wmarkRatio": 90}})),
        ),
        (SYS, &strategies(&system, "watermarkScaleFactor", &json!(150))),
        (BURST, &strategies(&burst, "cfsQuotaBurstPercent", &json!(400))),
        (HOST, &host()),
        (NORM, &normalization()),
    ]);
    let case = case.with_node("n1", &[("kubernetes.io/kernel", "alios")]);
    assert_eq!(case.report(Compat::Headroom), Report::default());
    case.is_upstream("MemoryEvictThresholdPercent must be greater than MemoryEvictLowerPercent");
}
