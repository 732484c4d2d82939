//! The keys of the ConfigMap, in the order of the checks.

use headroom_domain::names;

use super::{Key, amplification, burst, classes, colocation, host, normalization, qos, system, threshold};

/// All keys, in the order of the checks.
pub static KEYS: [&Key; 8] = [
    &COLOCATION,
    &THRESHOLD,
    &QOS,
    &SYSTEM,
    &BURST,
    &HOST,
    &NORMALIZATION,
    &AMPLIFICATION,
];

/// Resources of a node for batch and mid-tier workloads.
pub static COLOCATION: Key = Key {
    name: names::COLOCATION_CONFIG,
    about: "Resources of a node for batch and mid-tier workloads, and their measurement.",
    label: "colocation",
    go_type: "ColocationCfg",
    cluster: None,
    go_cluster: "ColocationStrategy",
    entries: "nodeConfigs",
    go_entries: "NodeConfigs",
    go_entry_type: "NodeColocationCfg",
    go_strategy: "ColocationStrategy",
    fields: colocation::FIELDS,
    since: Some("0.1"),
    ..STRATEGY_KEY
};

/// Suppression and eviction of batch workloads.
pub static THRESHOLD: Key = Key {
    name: names::RESOURCE_THRESHOLD_CONFIG,
    about: "Load thresholds of a node for suppressing or evicting batch workloads.",
    label: "resourceThreshold",
    go_type: "ResourceThresholdCfg",
    go_entry_type: "NodeResourceThresholdStrategy",
    go_strategy: "ResourceThresholdStrategy",
    fields: threshold::FIELDS,
    since: Some("0.1"),
    ..STRATEGY_KEY
};

/// Resources of each QoS class.
pub static QOS: Key = Key {
    name: names::RESOURCE_QOS_CONFIG,
    about: "Shares of CPU, memory, disks, caches and network for each QoS class.",
    label: "ResourceQOS",
    go_type: "ResourceQOSCfg",
    go_entry_type: "NodeResourceQOSStrategy",
    go_strategy: "ResourceQOSStrategy",
    fields: classes::FIELDS,
    classes: classes::CLASSES,
    class_fields: qos::FIELDS,
    since: Some("0.3"),
    ..STRATEGY_KEY
};

/// Kernel settings and total network bandwidth.
pub static SYSTEM: Key = Key {
    name: names::SYSTEM_CONFIG,
    about: "Kernel settings and network bandwidth of a node.",
    label: "System",
    go_type: "SystemCfg",
    go_entry_type: "NodeSystemStrategy",
    go_strategy: "SystemStrategy",
    fields: system::FIELDS,
    since: Some("1.2"),
    ..STRATEGY_KEY
};

/// Limits for containers that briefly exceed their CPU limits.
pub static BURST: Key = Key {
    name: names::CPU_BURST_CONFIG,
    about: "Limits for containers that briefly exceed their CPU limits.",
    label: "CpuBurst",
    go_type: "CPUBurstCfg",
    go_entry_type: "NodeCPUBurstCfg",
    go_strategy: "CPUBurstStrategy",
    fields: burst::FIELDS,
    since: Some("0.3"),
    ..STRATEGY_KEY
};

/// Applications on nodes outside of pods.
pub static HOST: Key = Key {
    name: names::HOST_APPLICATION_CONFIG,
    about: "Applications on nodes outside of pods, and the QoS class of each.",
    label: "HostApplication",
    go_type: "HostApplicationCfg",
    go_entry_type: "NodeHostApplicationCfg",
    fields: host::FIELDS,
    since: Some("1.4"),
    ..INLINE_KEY
};

/// Performance of each CPU model relative to a reference.
pub static NORMALIZATION: Key = Key {
    name: names::CPU_NORMALIZATION_CONFIG,
    about: "Performance of each CPU model relative to a reference CPU.",
    label: "CPUNormalization",
    go_type: "CPUNormalizationCfg",
    go_cluster: "CPUNormalizationStrategy",
    go_entry_type: "NodeCPUNormalizationCfg",
    go_strategy: "CPUNormalizationStrategy",
    fields: normalization::FIELDS,
    since: Some("1.4"),
    ..INLINE_KEY
};

/// Amplification of node resources: Koordinator's and Headroom's settings.
pub static AMPLIFICATION: Key = Key {
    name: names::AMPLIFICATION_CONFIG,
    about: "Ratio by which the resources of nodes are amplified, or the mode that determines it.",
    label: "ResourceAmplification",
    go_type: "ResourceAmplificationCfg",
    go_cluster: "ResourceAmplificationStrategy",
    go_entry_type: "NodeResourceAmplificationCfg",
    go_strategy: "ResourceAmplificationStrategy",
    fields: amplification::FIELDS,
    is_strict: true,
    since: Some("1.6"),
    ..INLINE_KEY
};

/// Template for keys with `clusterStrategy` and `nodeStrategies`.
const STRATEGY_KEY: Key = Key {
    name: "",
    about: "",
    label: "",
    go_type: "",
    cluster: Some("clusterStrategy"),
    go_cluster: "ClusterStrategy",
    entries: "nodeStrategies",
    go_entries: "NodeStrategies",
    go_entry_type: "",
    go_strategy: "",
    fields: &[],
    classes: &[],
    class_fields: &[],
    is_checked_upstream: true,
    is_strict: false,
    since: None,
};
/// Template for keys that Koordinator does not check, whose document contains the members itself.
const INLINE_KEY: Key = Key {
    cluster: None,
    entries: "nodeConfigs",
    go_entries: "NodeConfigs",
    is_checked_upstream: false,
    ..STRATEGY_KEY
};
