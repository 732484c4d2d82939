//! Names of Koordinator's ConfigMap for nodes: `slo-controller-config` and its keys.

/// Namespace of Koordinator's configuration.
pub const SLO_CONFIG_NAMESPACE: &str = "koordinator-system";

/// ConfigMap with Koordinator's configuration, in [`SLO_CONFIG_NAMESPACE`].
pub const SLO_CONFIG: &str = "slo-controller-config";

/// Key in [`SLO_CONFIG`] with what is to be amplified how. Koordinator's key; its JSON has members of ours.
pub const AMPLIFICATION_CONFIG: &str = "resource-amplification-config";

/// Key in [`SLO_CONFIG`] with gates and switches that are changed while the webhook serves. Ours.
pub const FEATURE_GATES: &str = "feature-gates";

/// Key in [`SLO_CONFIG`]: how nodes are shared with batch workloads. Koordinator's key.
pub const COLOCATION_CONFIG: &str = "colocation-config";

/// Key in [`SLO_CONFIG`]: when batch workloads are held back. Koordinator's key.
pub const RESOURCE_THRESHOLD_CONFIG: &str = "resource-threshold-config";

/// Key in [`SLO_CONFIG`]: what each class of service gets. Koordinator's key.
pub const RESOURCE_QOS_CONFIG: &str = "resource-qos-config";

/// Key in [`SLO_CONFIG`]: settings of the kernel. Koordinator's key.
pub const SYSTEM_CONFIG: &str = "system-config";

/// Key in [`SLO_CONFIG`]: how far containers may exceed their CPU limits for a moment. Koordinator's key.
pub const CPU_BURST_CONFIG: &str = "cpu-burst-config";

/// Key in [`SLO_CONFIG`]: applications of nodes that are no pods. Koordinator's key.
pub const HOST_APPLICATION_CONFIG: &str = "host-application-config";

/// Key in [`SLO_CONFIG`]: how fast the CPUs of a model are. Koordinator's key.
pub const CPU_NORMALIZATION_CONFIG: &str = "cpu-normalization-config";
