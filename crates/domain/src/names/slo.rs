//! Names of Koordinator's ConfigMap for nodes: `slo-controller-config` and its keys.

/// Default namespace of Koordinator's configuration.
pub const SLO_CONFIG_NAMESPACE: &str = "koordinator-system";

/// ConfigMap with Koordinator's configuration, in [`SLO_CONFIG_NAMESPACE`].
pub const SLO_CONFIG: &str = "slo-controller-config";

/// Key in [`SLO_CONFIG`]: amplification of nodes. Koordinator's key; its JSON has additional members of Headroom.
pub const AMPLIFICATION_CONFIG: &str = "resource-amplification-config";

/// Key in [`SLO_CONFIG`]: Headroom's gates and switches that can change while the webhook runs.
pub const FEATURE_GATES: &str = "feature-gates";

/// Key in [`SLO_CONFIG`]: sharing of nodes with batch workloads. Koordinator's key.
pub const COLOCATION_CONFIG: &str = "colocation-config";

/// Key in [`SLO_CONFIG`]: thresholds above which batch workloads are throttled. Koordinator's key.
pub const RESOURCE_THRESHOLD_CONFIG: &str = "resource-threshold-config";

/// Key in [`SLO_CONFIG`]: resource settings of each QoS class. Koordinator's key.
pub const RESOURCE_QOS_CONFIG: &str = "resource-qos-config";

/// Key in [`SLO_CONFIG`]: kernel settings. Koordinator's key.
pub const SYSTEM_CONFIG: &str = "system-config";

/// Key in [`SLO_CONFIG`]: bursts of containers above their CPU limits. Koordinator's key.
pub const CPU_BURST_CONFIG: &str = "cpu-burst-config";

/// Key in [`SLO_CONFIG`]: applications that run on nodes outside pods. Koordinator's key.
pub const HOST_APPLICATION_CONFIG: &str = "host-application-config";

/// Key in [`SLO_CONFIG`]: relative speeds of CPU models. Koordinator's key.
pub const CPU_NORMALIZATION_CONFIG: &str = "cpu-normalization-config";
