//! The keys of the ConfigMap, in the order in which they are checked.

use headroom_domain::names;

use super::{Key, amplification, burst, classes, colocation, host, normalization, qos, system, threshold};

/// All keys that are checked, in the order of the check.
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

/// How much of a node batch workloads may use.
pub static COLOCATION: Key = Key {
    name: names::COLOCATION_CONFIG,
    about: "How much of a node batch and mid-tier workloads may use, and how that is measured.",
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

/// When batch workloads are held back or evicted.
pub static THRESHOLD: Key = Key {
    name: names::RESOURCE_THRESHOLD_CONFIG,
    about: "At which load of a node batch workloads are held back or evicted.",
    label: "resourceThreshold",
    go_type: "ResourceThresholdCfg",
    go_entry_type: "NodeResourceThresholdStrategy",
    go_strategy: "ResourceThresholdStrategy",
    fields: threshold::FIELDS,
    since: Some("0.1"),
    ..STRATEGY_KEY
};

/// What each class of service gets.
pub static QOS: Key = Key {
    name: names::RESOURCE_QOS_CONFIG,
    about: "What CPU, memory, disks, caches and network give to each class of service.",
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

/// Settings of the kernel.
pub static SYSTEM: Key = Key {
    name: names::SYSTEM_CONFIG,
    about: "Settings of the kernel, and the network bandwidth of a node.",
    label: "System",
    go_type: "SystemCfg",
    go_entry_type: "NodeSystemStrategy",
    go_strategy: "SystemStrategy",
    fields: system::FIELDS,
    since: Some("1.2"),
    ..STRATEGY_KEY
};

/// How far containers may exceed their CPU limits.
pub static BURST: Key = Key {
    name: names::CPU_BURST_CONFIG,
    about: "How far containers may exceed their CPU limits for a moment.",
    label: "CpuBurst",
    go_type: "CPUBurstCfg",
    go_entry_type: "NodeCPUBurstCfg",
    go_strategy: "CPUBurstStrategy",
    fields: burst::FIELDS,
    since: Some("0.3"),
    ..STRATEGY_KEY
};

/// Applications of a node that are no pods.
pub static HOST: Key = Key {
    name: names::HOST_APPLICATION_CONFIG,
    about: "Applications of nodes that are no pods, and the class of service of each.",
    label: "HostApplication",
    go_type: "HostApplicationCfg",
    go_entry_type: "NodeHostApplicationCfg",
    fields: host::FIELDS,
    since: Some("1.4"),
    ..INLINE_KEY
};

/// How fast the CPUs of a model are.
pub static NORMALIZATION: Key = Key {
    name: names::CPU_NORMALIZATION_CONFIG,
    about: "How much more a CPU of each model does than a reference CPU.",
    label: "CPUNormalization",
    go_type: "CPUNormalizationCfg",
    go_cluster: "CPUNormalizationStrategy",
    go_entry_type: "NodeCPUNormalizationCfg",
    go_strategy: "CPUNormalizationStrategy",
    fields: normalization::FIELDS,
    since: Some("1.4"),
    ..INLINE_KEY
};

/// What is amplified how.
pub static AMPLIFICATION: Key = Key {
    name: names::AMPLIFICATION_CONFIG,
    about: "By what ratio the resources of nodes are amplified, or how that ratio is found.",
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

/// A key with `clusterStrategy` and `nodeStrategies`, to declare others from.
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
/// A key that Koordinator does not check, with its members in the document itself, to declare others from.
const INLINE_KEY: Key = Key {
    cluster: None,
    entries: "nodeConfigs",
    go_entries: "NodeConfigs",
    is_checked_upstream: false,
    ..STRATEGY_KEY
};
