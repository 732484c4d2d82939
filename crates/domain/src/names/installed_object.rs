//! Names of objects that only the manifests create: no program reads them, and an uninstallation deletes them.

/// PriorityClass of the webhook's pods.
pub const WEBHOOK_PRIORITY_CLASS: &str = "headroom";

/// PriorityClass of the agents' pods.
pub const AGENT_PRIORITY_CLASS: &str = "headroom-agent";

/// ClusterRole of the component `kubelet-use`.
pub const KUBELET_USE_ROLE: &str = "headroom-webhook-kubelet-use";

/// Role of the component `openshift` in the webhook's namespace.
pub const WEBHOOK_CONSTRAINTS_ROLE: &str = "headroom-webhook-constraints";

/// Role of the component `openshift` in the agents' namespace.
pub const AGENT_CONSTRAINTS_ROLE: &str = "headroom-agent-constraints";

/// SecurityContextConstraints of the component `openshift`.
pub const AGENT_CONSTRAINTS: &str = "headroom-agent";

/// ConfigMap with the webhook's configuration. kustomize appends a hyphen and a hash of the content.
pub const CONFIG_MAP: &str = "headroom-config";

/// Label of the objects in the manifests; its value is [`PART_OF_HEADROOM`].
pub const PART_OF_LABEL: &str = "app.kubernetes.io/part-of";

/// Value of [`PART_OF_LABEL`].
pub const PART_OF_HEADROOM: &str = "headroom";

/// Folders on nodes that agents write to: checkpoints, and the socket of the component `agent-socket`.
pub const HOST_PATHS: [&str; 2] = ["/var/lib/headroom", "/run/headroom"];

/// Namespace in which the API server keeps Events about Nodes.
pub const NODE_EVENTS_NAMESPACE: &str = "default";

/// CustomResourceDefinitions of Koordinator in the component `koordinator-kinds`.
pub const KOORDINATOR_KINDS: [&str; 4] = [
    "clustercolocationprofiles.config.koordinator.sh",
    "elasticquotaprofiles.quota.koordinator.sh",
    "elasticquotas.scheduling.sigs.k8s.io",
    "reservations.scheduling.koordinator.sh",
];
