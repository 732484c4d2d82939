//! Builds versions of the ConfigMap for clusters with several node pools.

use serde_json::{Map, Value, json};

use crate::review_router::admission_review;

/// A version of the ConfigMap and the size of its cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Workload {
    keys: &'static [&'static str],
    /// Number of keys that an update changes, from the first on.
    changed: usize,
    entries: usize,
    pub(super) nodes: usize,
}

const POOLS: usize = 100;
/// Labels of every node in addition to that of its pool.
const LABELS: usize = 14;

impl Workload {
    /// One key with many entries.
    pub(super) const MANY_ENTRIES: Self = Self {
        keys: &["colocation-config"],
        changed: 1,
        entries: POOLS,
        nodes: 5_000,
    };
    /// Six keys with few entries; an update changes one: an administrator edits an entry.
    pub(super) const SIX_KEYS: Self = Self {
        keys: &[
            "colocation-config",
            "resource-threshold-config",
            "resource-qos-config",
            "system-config",
            "cpu-burst-config",
            "cpu-normalization-config",
        ],
        changed: 1,
        entries: 6,
        nodes: 208,
    };
    /// Six keys; an update changes all of them.
    pub(super) const SIX_NEW_KEYS: Self = Self {
        changed: 6,
        ..Self::SIX_KEYS
    };

    /// An update of the ConfigMap.
    pub(super) fn review(&self) -> Vec<u8> {
        let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
        admission_review(&json!({
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800003",
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": resource,
            "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "requestResource": resource,
            "name": "slo-controller-config",
            "namespace": "koordinator-system",
            "operation": "UPDATE",
            "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
            "object": self.object("2", " "),
            "oldObject": self.object("1", ""),
            "dryRun": false,
            "options": {"kind": "PatchOptions", "apiVersion": "meta.k8s.io/v1"},
        }))
    }

    /// The ConfigMap; changed texts end with `end`, so that versions differ.
    fn object(&self, version: &str, end: &str) -> Value {
        let text = |(place, key): (usize, &&str)| {
            let end = if place < self.changed { end } else { "" };
            let text = format!("{}{end}", self.document(key));
            ((*key).to_owned(), Value::from(text))
        };
        let data: Map<String, Value> = self.keys.iter().enumerate().map(text).collect();
        json!({
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {
                "name": "slo-controller-config",
                "namespace": "koordinator-system",
                "uid": "0c1c5e4e-8f0e-4b1c-9a53-1f6d6f0f9a01",
                "resourceVersion": version,
                "creationTimestamp": "2026-11-20T10:00:00Z",
            },
            "data": data,
        })
    }

    /// Value of a key: the cluster's strategy and an entry for each pool.
    fn document(&self, key: &str) -> Value {
        let entries: Value = (0..self.entries).map(|pool| entry(key, pool)).collect();
        let mut strategy = strategy(key);
        if matches!(key, "colocation-config" | "cpu-normalization-config") {
            strategy.insert("nodeConfigs".to_owned(), entries);
            return Value::Object(strategy);
        }
        json!({"clusterStrategy": strategy, "nodeStrategies": entries})
    }
}

fn entry(key: &str, pool: usize) -> Value {
    let mut entry = strategy(key);
    entry.insert("name".to_owned(), json!(pool_name(pool)));
    let selector = json!({
        "matchLabels": {"example.com/pool": pool_name(pool)},
        "matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"]}],
    });
    entry.insert("nodeSelector".to_owned(), selector);
    Value::Object(entry)
}

/// Labels of a node, with its pool.
pub(super) fn node_labels(node: usize) -> Map<String, Value> {
    let level = |level: usize| {
        let key = format!("topology.example.com/level-{level:02}");
        (key, json!(format!("value-{node:04}")))
    };
    let mut labels: Map<String, Value> = (0..LABELS).map(level).collect();
    labels.insert("example.com/pool".to_owned(), json!(pool_name(node % POOLS)));
    labels.insert("kubernetes.io/arch".to_owned(), json!("amd64"));
    labels
}

fn pool_name(pool: usize) -> String {
    format!("pool-{pool:03}")
}

/// Most members of a key, with valid values.
fn strategy(key: &str) -> Map<String, Value> {
    let value = match key {
        "colocation-config" => json!({
            "enable": true, "metricAggregateDurationSeconds": 300, "metricReportIntervalSeconds": 60,
            "metricAggregatePolicy": {"durations": ["5m", "10m", "30m"]},
            "metricMemoryCollectPolicy": "usageWithoutPageCache",
            "cpuReclaimThresholdPercent": 60, "cpuCalculatePolicy": "usage",
            "memoryReclaimThresholdPercent": 65, "memoryCalculatePolicy": "usage",
            "degradeTimeMinutes": 15, "updateTimeThresholdSeconds": 300, "resourceDiffThreshold": 0.1,
            "midCPUThresholdPercent": 100, "midMemoryThresholdPercent": 100, "midUnallocatedPercent": 0,
            "batchCPUThresholdPercent": 80, "batchMemoryThresholdPercent": 80,
        }),
        "resource-threshold-config" => json!({
            "enable": true, "cpuSuppressThresholdPercent": 65, "cpuSuppressPolicy": "cpuset",
            "memoryEvictThresholdPercent": 70, "memoryEvictLowerPercent": 65,
            "cpuEvictBESatisfactionUpperPercent": 90, "cpuEvictBESatisfactionLowerPercent": 60,
            "cpuEvictBEUsageThresholdPercent": 90, "cpuEvictTimeWindowSeconds": 60,
        }),
        "resource-qos-config" => json!({
            "policies": {"cpuPolicy": "groupIdentity", "netQOSPolicy": "tc"},
            "lsrClass": class(), "lsClass": class(), "beClass": class(),
        }),
        "system-config" => json!({
            "minFreeKbytesFactor": 100, "watermarkScaleFactor": 150, "memcgReapBackGround": 0,
            "totalNetworkBandwidth": "10G",
        }),
        "cpu-burst-config" => json!({
            "policy": "auto", "cpuBurstPercent": 1000, "cfsQuotaBurstPercent": 300,
            "cfsQuotaBurstPeriodSeconds": -1, "sharePoolThresholdPercent": 50,
        }),
        _ => json!({
            "enable": true, "defaultRatio": 1.0,
            "ratioModel": {"Intel(R) Xeon(R) Platinum 8269CY CPU @ 2.50GHz": {
                "baseRatio": 1.5, "hyperThreadEnabledRatio": 1.0,
                "turboEnabledRatio": 1.8, "hyperThreadTurboEnabledRatio": 1.2,
            }},
        }),
    };
    value.as_object().cloned().unwrap_or_default()
}

/// Strategy of one QoS class.
fn class() -> Value {
    json!({
        "cpuQOS": {"enable": true, "groupIdentity": 2, "schedIdle": 0, "coreExpeller": true},
        "memoryQOS": {
            "enable": true, "minLimitPercent": 0, "lowLimitPercent": 0, "throttlingPercent": 0,
            "wmarkRatio": 95, "wmarkScalePermill": 20, "wmarkMinAdj": -25,
        },
        "resctrlQOS": {"enable": true, "catRangeStartPercent": 0, "catRangeEndPercent": 100, "mbaPercent": 100},
        "networkQOS": {
            "enable": true, "ingressRequest": 20, "ingressLimit": 60, "egressRequest": 20, "egressLimit": 60,
        },
    })
}
