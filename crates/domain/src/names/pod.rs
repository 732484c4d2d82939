//! Names on Pods and on the objects that configure them: Koordinator's labels, annotations, classes and resources.

/// Label on a Pod: its Koordinator QoS class, as in [`crate::qos::Class`].
pub const QOS_CLASS: &str = "koordinator.sh/qosClass";

/// Label on a Pod: its priority among pods of one band, a decimal number.
pub const SUB_PRIORITY: &str = "koordinator.sh/priority";

/// Label on a Pod: its priority band; it takes precedence over `spec.priority`.
pub const PRIORITY_CLASS: &str = "koordinator.sh/priority-class";

/// Annotation on a ClusterColocationProfile: CPU and memory requests of matching pods are not converted.
pub const SKIP_UPDATE_RESOURCES: &str = "config.koordinator.sh/skip-update-resources";

/// Label on a ClusterColocationProfile: `true` if Koordinator's controller also applies it to pending pods.
pub const CONTROLLER_MANAGED: &str = "config.koordinator.sh/controller-managed";

/// Annotation on a Pod: batch resources requested by its containers, as JSON for Koordinator's agent on the node.
pub const EXTENDED_RESOURCE_SPEC: &str = "node.koordinator.sh/extended-resource-spec";

/// Annotation on a Pod: the value of `oom_score_adj` for its processes, which Koordinator's agent writes.
pub const OOM_SCORE_ADJ: &str = "koordinator.sh/oom-score-adj";

/// Annotation on a Pod: values of `oom_score_adj` for its containers, as JSON.
pub const OOM_SCORE_ADJ_SPEC: &str = "koordinator.sh/oom-score-adj-spec";

/// Annotation on a Pod: its order in evictions by Koordinator's agent.
pub const EVICTION_PRIORITY: &str = "koordinator.sh/eviction-priority";

/// Annotation on a Pod: a kubelet created it for a static pod of its node. The value is the UID of the static pod, and so
/// of its cgroup. Every user who may create pods may write it.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// Annotation on a Pod: resources to rename, as `from:to,from:to`.
pub const REPLACE_RESOURCES: &str = "pod.koordinator.sh/replace-resources";

/// Label on a Pod: `true` sends its updates to the mutating endpoint too.
pub const MUTATING_UPDATE: &str = "pod.koordinator.sh/mutating-update";

/// Label on a Pod: `true` exempts it from the label rules in [`LABEL_RULES`].
pub const SKIP_ENHANCED_VALIDATION: &str = "pod.koordinator.sh/skip-enhanced-validation";

/// ConfigMap in Koordinator's namespace with the labels that pods must have.
pub const LABEL_RULES: &str = "pod-enhanced-validator-config";

/// Label on a Pod: any user may bind it. Default of the flag that lists such labels.
pub const BINDING_ADMISSION_BYPASS: &str = "koordinator.sh/binding-admission-bypass";

/// Label on a Namespace that Koordinator's webhook ignores.
pub const CONTROL_PLANE: &str = "control-plane";

/// Namespace of the cluster's own components.
pub const KUBE_SYSTEM: &str = "kube-system";

/// PriorityClass and band of production.
pub const KOORD_PROD: &str = "koord-prod";

/// PriorityClass and band between production and batch.
pub const KOORD_MID: &str = "koord-mid";

/// PriorityClass and band of batch work.
pub const KOORD_BATCH: &str = "koord-batch";

/// PriorityClass and band of pods on leftover capacity.
pub const KOORD_FREE: &str = "koord-free";

/// Resource: CPU of a container or node, in cores.
pub const CPU: &str = "cpu";

/// Resource: memory of a container or node, in bytes.
pub const MEMORY: &str = "memory";

/// Resource: reclaimed CPU for batch work, in milli-cores.
pub const BATCH_CPU: &str = "kubernetes.io/batch-cpu";

/// Resource: reclaimed memory for batch work, in bytes.
pub const BATCH_MEMORY: &str = "kubernetes.io/batch-memory";

/// Resource: reclaimed CPU for the band `koord-mid`, in milli-cores.
pub const MID_CPU: &str = "kubernetes.io/mid-cpu";

/// Resource: reclaimed memory for the band `koord-mid`, in bytes.
pub const MID_MEMORY: &str = "kubernetes.io/mid-memory";

/// Resource: GPUs in percent of a card, 100 for a whole one.
pub const GPU: &str = "koordinator.sh/gpu";

/// Resource: number of cards that a GPU share is spread over.
pub const GPU_SHARED: &str = "koordinator.sh/gpu.shared";

/// Resource: computing power of GPUs, in percent of a card.
pub const GPU_CORE: &str = "koordinator.sh/gpu-core";

/// Resource: memory of GPUs, in bytes.
pub const GPU_MEMORY: &str = "koordinator.sh/gpu-memory";

/// Resource: memory of GPUs, in percent of a card's.
pub const GPU_MEMORY_RATIO: &str = "koordinator.sh/gpu-memory-ratio";

/// Resource: computing power of Huawei's NPUs.
pub const HUAWEI_NPU_CORE: &str = "huawei.com/npu-core";
