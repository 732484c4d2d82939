//! Names that Headroom reads or writes: every label, annotation, object name and path. No other file spells one.
//!
//! Those of nodes and of our own objects are here; those of each other family are in a file of the family.

mod pod;
mod quota;
mod reservation;
mod slo;

pub use self::{pod::*, quota::*, reservation::*, slo::*};

/// Annotation on a Node: JSON object resource → ratio, written by people, by Koordinator's slo-controller, or
/// by us in mode `auto`. Koordinator's key and format (two decimals).
pub const RATIO: &str = "node.koordinator.sh/resource-amplification-ratio";

/// Annotation on a Node: JSON resource list (`cpu`, `memory`) of the kubelet's own allocatable. Koordinator's key.
pub const RAW_ALLOCATABLE: &str = "node.koordinator.sh/raw-allocatable";

/// The domain of all annotations that only Headroom writes.
pub const DOMAIN: &str = "headroom.sh/";

/// Annotation on a Node: the hint that the last status write was computed from.
pub const HINT: &str = "headroom.sh/hint";

/// Annotation on a Node: what we wrote last, per resource, with the raw value and capacity it came from.
pub const MARKER: &str = "headroom.sh/amplified-allocatable";

/// Annotation on a Node: the user's own ratio value while `auto` owns [`RATIO`].
pub const STATIC_RATIO: &str = "headroom.sh/static-ratio";

/// Annotation on a Node: the floor policy's note of what the kubelet sent in this very request.
pub const KUBELET_RAW: &str = "headroom.sh/kubelet-raw";

/// Annotation on a Node, written by people: `off`, `static`, `guard` or `auto`.
pub const MODE: &str = "headroom.sh/mode";

/// Condition of a Node: a brake holds its ratio down, or nobody can see it although more is bound than it has.
pub const BRAKED: &str = "headroom.sh/Braked";

/// Condition of a Node: another controller keeps writing the ratio that mode `auto` writes.
pub const RATIO_OWNER_CONFLICT: &str = "headroom.sh/ratio-owner-conflict";

/// Condition of a Node: a bound of the policy holds its ratio.
pub const CLAMPED: &str = "headroom.sh/Clamped";

/// Prefix of the user name that a node's kubelet authenticates with; the node's name follows.
pub const NODE_USER_PREFIX: &str = "system:node:";

/// Group of every node credential.
pub const NODES_GROUP: &str = "system:nodes";

/// Namespace of the webhook.
pub const NAMESPACE: &str = "headroom-system";

/// Namespace of the agent.
pub const AGENT_NAMESPACE: &str = "headroom-agent";

/// Service account of the agent, in [`AGENT_NAMESPACE`].
pub const AGENT_SERVICE_ACCOUNT: &str = "headroom-agent";

/// Service account of the webhook, in [`NAMESPACE`].
pub const WEBHOOK_SERVICE_ACCOUNT: &str = "headroom-webhook";

/// Service account of [`NAMESPACE`] whose tokens people show to the debug service: it may ask it, and nothing else. The roles
/// of people who only read have this name as well.
pub const VIEWER: &str = "headroom-viewer";

/// ClusterRole and Role of people who change modes and switch off; they may all that [`VIEWER`]s may.
pub const OPERATOR: &str = "headroom-operator";

/// Label of namespaces whose pods the NetworkPolicy lets ask the debug service, if its value is `true`.
pub const CLIENT_LABEL: &str = "headroom.sh/client";

/// ClusterRole with the right to ask the debug service.
pub const DEBUG_ROLE: &str = "headroom-debug";

/// The user name of the webhook's service account, unless an [`Installation`](crate::installation::Installation) has other names.
pub const WEBHOOK_USER: &str = "system:serviceaccount:headroom-system:headroom-webhook";

/// Who reports the webhook's Events.
pub const EVENT_REPORTER: &str = "headroom.sh/webhook";
/// Service in front of the webhook's admission port.
pub const WEBHOOK_SERVICE: &str = "headroom-webhook";

/// Headless Service in front of the hint port; its name is also the audience-independent TLS name of the hint port.
pub const HINTS_SERVICE: &str = "headroom-hints";

/// Port of the admission endpoints (HTTPS).
pub const ADMISSION_PORT: u16 = 9443;

/// Port of the hint and debug services (gRPC over TLS).
pub const HINTS_PORT: u16 = 9444;

/// Port of the admin endpoints (plain HTTP).
pub const ADMIN_PORT: u16 = 8080;

/// Unix socket on a node at which `kubectl headroom agent` looks for the agent's debug service.
pub const AGENT_SOCKET: &str = "/run/headroom/agent.sock";

/// Audience of all tokens that agents and people show to the webhook.
pub const TOKEN_AUDIENCE: &str = "headroom-webhook";

/// Key in a TokenReview's `extra` with the name of the node that the token is bound to.
pub const TOKEN_NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// Organisation in the subject of an agent's client certificate.
pub const AGENT_CERTIFICATE_ORGANISATION: &str = "headroom:agents";

/// Prefix of the common name in an agent's client certificate; the node's name follows.
pub const AGENT_CERTIFICATE_PREFIX: &str = "headroom:agent:";

/// Non-resource URL that a caller of the debug service must be allowed to `get`.
pub const DEBUG_URL: &str = "/headroom/debug";

/// Lease in [`NAMESPACE`] whose holder sweeps.
pub const LEASE: &str = "headroom-webhook";

/// Name of the MutatingWebhookConfiguration and of the ValidatingWebhookConfiguration of nodes.
pub const WEBHOOK_CONFIGURATION: &str = "headroom-webhook";

/// Name of Koordinator's MutatingWebhookConfiguration, which is not ours.
pub const KOORDINATOR_CONFIGURATION: &str = "koordinator-mutating-webhook-configuration";

/// Name of both webhook configurations of pods and reservations.
pub const PODS_CONFIGURATION: &str = "headroom-pods";

/// Name of both webhook configurations of quotas.
pub const QUOTAS_CONFIGURATION: &str = "headroom-quotas";

/// Name of both webhook configurations of Koordinator's ConfigMap.
pub const SLO_CONFIGURATION: &str = "headroom-configuration";

/// Name of both webhook configurations of other projects' objects.
pub const INTEGRATIONS_CONFIGURATION: &str = "headroom-integrations";

/// Name of the policy that keeps amplified values while no webhook answers, and of its binding.
pub const FLOOR_POLICY: &str = "headroom-floor";

/// Name of the policy that reverts what kubelets write to protected annotations, and of its binding.
pub const ANNOTATIONS_POLICY: &str = "headroom-annotations";

/// Name of the policy that checks annotations where they are written, and of its binding; installed on request.
pub const CHECKS_POLICY: &str = "headroom-checks";

/// The member of a Node's condition that says when its reporter was last heard of.
pub const LAST_HEARTBEAT_TIME: &str = "lastHeartbeatTime";

/// The member of a Node's condition that says since when it has its status.
pub const LAST_TRANSITION_TIME: &str = "lastTransitionTime";

/// What an agent's user agent begins with, as in `headroom-agent/0.1.0`.
pub const AGENT_USER_AGENT: &str = "headroom-agent";

/// Annotations that a kubelet may neither set, change nor remove, besides everything under [`DOMAIN`] but [`KUBELET_RAW`].
pub const PROTECTED: [&str; 2] = [RATIO, RAW_ALLOCATABLE];

/// Annotations that only the webhook writes: what it has decided, and from what.
pub const OWNED: [&str; 5] = [RAW_ALLOCATABLE, HINT, MARKER, STATIC_RATIO, KUBELET_RAW];

/// Annotations by which people steer amplification.
pub const STEERING: [&str; 2] = [RATIO, MODE];

/// True for an annotation that looks like one of Headroom's and is none, such as a misspelt one.
pub fn is_unknown(key: &str) -> bool {
    key.starts_with(DOMAIN) && !OWNED.contains(&key) && !STEERING.contains(&key)
}

/// True for an annotation that not everybody may write, known or not.
pub fn is_guarded(key: &str) -> bool {
    key.starts_with(DOMAIN) || PROTECTED.contains(&key)
}

/// The node whose kubelet this user is, if the user is a kubelet.
pub fn node_of_user(username: &str) -> Option<&str> {
    username
        .strip_prefix(NODE_USER_PREFIX)
        .filter(|node| !node.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_ours_nor_peoples_is_unknown() {
        assert!(is_unknown("headroom.sh/mdoe") && is_unknown(DOMAIN));
        assert!(!OWNED.into_iter().chain(STEERING).any(is_unknown));
        assert!(!is_unknown("node.koordinator.sh/other"));
        assert!(OWNED.into_iter().chain(STEERING).all(is_guarded) && is_guarded(DOMAIN));
        assert!(!is_guarded("node.koordinator.sh/other"));
    }

    #[test]
    fn the_webhooks_user_is_its_service_account() {
        assert_eq!(
            WEBHOOK_USER,
            format!("system:serviceaccount:{NAMESPACE}:{WEBHOOK_SERVICE_ACCOUNT}")
        );
    }

    #[test]
    fn only_a_node_user_names_a_node() {
        assert_eq!(node_of_user("system:node:a"), Some("a"));
        assert_eq!(node_of_user("system:node:"), None);
        assert_eq!(node_of_user("system:serviceaccount:x:y"), None);
    }
}
