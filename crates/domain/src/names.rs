//! Names that Headroom reads or writes: every label, annotation, object name and path. No other file spells one.
//!
//! Names of nodes and of Headroom's own objects are in this file; each other family has a file of its own.

mod fluid;
mod installed_object;
mod pod;
mod quota;
mod reservation;
mod slo;

pub use self::{fluid::*, installed_object::*, pod::*, quota::*, reservation::*, slo::*};

/// Annotation on a Node: JSON object resource → ratio, written by users, by Koordinator's slo-controller, or by
/// Headroom in mode `auto`. Koordinator's key and format (two decimals).
pub const RATIO: &str = "node.koordinator.sh/resource-amplification-ratio";

/// Annotation on a Node: JSON resource list (`cpu`, `memory`) of the kubelet's own allocatable. Koordinator's key.
pub const RAW_ALLOCATABLE: &str = "node.koordinator.sh/raw-allocatable";

/// Domain of all annotations that only Headroom writes.
pub const DOMAIN: &str = "headroom.sh/";

/// Annotation on a Node: hint behind the last status write.
pub const HINT: &str = "headroom.sh/hint";

/// Annotation on a Node: last value written by Headroom, per resource, with the raw value and capacity behind it.
pub const MARKER: &str = "headroom.sh/amplified-allocatable";

/// Annotation on a Node: the user's own ratio annotation while `auto` owns [`RATIO`].
pub const STATIC_RATIO: &str = "headroom.sh/static-ratio";

/// Annotation on a Node: allocatable that the kubelet sent in this request, recorded by the floor policy.
pub const KUBELET_RAW: &str = "headroom.sh/kubelet-raw";

/// Annotation on a Node, written by users: `off`, `static`, `guard` or `auto`.
pub const MODE: &str = "headroom.sh/mode";

/// Condition of a Node: a brake limits its ratio, or no agent measures it although pods request more than raw
/// allocatable.
pub const BRAKED: &str = "headroom.sh/Braked";

/// Condition of a Node: another controller keeps writing the ratio that mode `auto` writes.
pub const RATIO_OWNER_CONFLICT: &str = "headroom.sh/ratio-owner-conflict";

/// Condition of a Node: a bound of the policy limits its ratio.
pub const CLAMPED: &str = "headroom.sh/Clamped";

/// Prefix of a kubelet's username; the node's name follows.
pub const NODE_USER_PREFIX: &str = "system:node:";

/// Group of every node credential.
pub const NODES_GROUP: &str = "system:nodes";

/// Default namespace of the webhook.
pub const NAMESPACE: &str = "headroom-system";

/// Default namespace of the agent.
pub const AGENT_NAMESPACE: &str = "headroom-agent";

/// Service account of the agent, in [`AGENT_NAMESPACE`].
pub const AGENT_SERVICE_ACCOUNT: &str = "headroom-agent";

/// Service account of the webhook, in [`NAMESPACE`].
pub const WEBHOOK_SERVICE_ACCOUNT: &str = "headroom-webhook";

/// Service account in [`NAMESPACE`] whose tokens users present to the debug service; it has no other right. The roles
/// of read-only users have the same name.
pub const VIEWER: &str = "headroom-viewer";

/// ClusterRole and Role of users who change modes and switch amplification off; includes the rights of [`VIEWER`].
pub const OPERATOR: &str = "headroom-operator";

/// Label of namespaces whose pods may reach the debug service through the NetworkPolicy, if its value is `true`.
pub const CLIENT_LABEL: &str = "headroom.sh/client";

/// ClusterRole with the right to call the debug service.
pub const DEBUG_ROLE: &str = "headroom-debug";

/// Username of the webhook's service account; an [`Installation`](crate::installation::Installation) can change it.
pub const WEBHOOK_USER: &str = "system:serviceaccount:headroom-system:headroom-webhook";

/// Reporting controller of the webhook's Events.
pub const EVENT_REPORTER: &str = "headroom.sh/webhook";
/// Service in front of the webhook's admission port.
pub const WEBHOOK_SERVICE: &str = "headroom-webhook";

/// Headless Service in front of the hint port; its name is also the TLS name of that port, whatever the token's
/// audience.
pub const HINTS_SERVICE: &str = "headroom-hints";

/// Port of the admission endpoints (HTTPS).
pub const ADMISSION_PORT: u16 = 9443;

/// Port of the hint and debug services (gRPC over TLS).
pub const HINTS_PORT: u16 = 9444;

/// Port of the admin endpoints (plain HTTP).
pub const ADMIN_PORT: u16 = 8080;

/// Unix socket on a node where `kubectl headroom agent` expects the agent's debug service.
pub const AGENT_SOCKET: &str = "/run/headroom/agent.sock";

/// Audience of all tokens that agents and users present to the webhook.
pub const TOKEN_AUDIENCE: &str = "headroom-webhook";

/// Key in a TokenReview's `extra` with the name of the node that the token is bound to.
pub const TOKEN_NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// Organisation in the subject of an agent's client certificate.
pub const AGENT_CERTIFICATE_ORGANISATION: &str = "headroom:agents";

/// Prefix of the common name in an agent's client certificate; the node's name follows.
pub const AGENT_CERTIFICATE_PREFIX: &str = "headroom:agent:";

/// Non-resource URL that a client of the debug service must be allowed to `get`.
pub const DEBUG_URL: &str = "/headroom/debug";

/// Lease in [`NAMESPACE`]; its holder runs the sweeps.
pub const LEASE: &str = "headroom-webhook";

/// ValidatingAdmissionPolicy for the webhook's own writes of webhook configurations, and its binding.
pub const OWN_CONFIGURATIONS_POLICY: &str = "headroom-own-configurations";

/// ValidatingAdmissionPolicy for the webhook's own writes of Secrets, and its binding.
pub const OWN_SECRET_POLICY: &str = "headroom-own-secret";

/// Secret in [`NAMESPACE`] with the webhook's certificates.
pub const CERTIFICATES_SECRET: &str = "headroom-webhook-certs";

/// Label of the Secret that the webhook writes; its value is [`MANAGED_CERTIFICATES`]. A Secret without it belongs to
/// another writer.
pub const CERTIFICATES_LABEL: &str = "headroom.sh/certificates";

/// Value of [`CERTIFICATES_LABEL`].
pub const MANAGED_CERTIFICATES: &str = "managed";

/// gRPC metadata by which an agent names the CAs that it trusts: SHA-256 of its file, in hexadecimal digits.
pub const AUTHORITIES_METADATA: &str = "headroom-ca-sha256";

/// ConfigMap in [`AGENT_NAMESPACE`] with the CAs that agents trust, in the key `ca.crt`.
pub const AUTHORITIES_CONFIG_MAP: &str = "headroom-ca";

/// Name of the MutatingWebhookConfiguration and of the ValidatingWebhookConfiguration of nodes.
pub const WEBHOOK_CONFIGURATION: &str = "headroom-webhook";

/// Name of Koordinator's own MutatingWebhookConfiguration.
pub const KOORDINATOR_CONFIGURATION: &str = "koordinator-mutating-webhook-configuration";

/// Name of both webhook configurations of pods and reservations.
pub const PODS_CONFIGURATION: &str = "headroom-pods";

/// Name of both webhook configurations of quotas.
pub const QUOTAS_CONFIGURATION: &str = "headroom-quotas";

/// Name of both webhook configurations of Koordinator's ConfigMap.
pub const SLO_CONFIGURATION: &str = "headroom-configuration";

/// Name of both webhook configurations of pods with data of Fluid.
pub const FLUID_CONFIGURATION: &str = "headroom-fluid";

/// Name of the policy that keeps amplified values while the webhook does not respond, and of its binding.
pub const FLOOR_POLICY: &str = "headroom-floor";

/// Name of the policy that reverts kubelets' changes to protected annotations, and of its binding.
pub const ANNOTATIONS_POLICY: &str = "headroom-annotations";

/// Name of the policy that validates annotations when they are written, and of its binding; optional.
pub const CHECKS_POLICY: &str = "headroom-checks";

/// Member of a Node condition: time of the last report.
pub const LAST_HEARTBEAT_TIME: &str = "lastHeartbeatTime";

/// Member of a Node condition: time of the last status change.
pub const LAST_TRANSITION_TIME: &str = "lastTransitionTime";

/// Prefix of an agent's user agent, as in `headroom-agent/0.1.0`.
pub const AGENT_USER_AGENT: &str = "headroom-agent";

/// Annotations that a kubelet may not set, change or remove, in addition to all under [`DOMAIN`] except
/// [`KUBELET_RAW`].
pub const PROTECTED: [&str; 2] = [RATIO, RAW_ALLOCATABLE];

/// Annotations that only the webhook writes: its decisions and their inputs.
pub const OWNED: [&str; 5] = [RAW_ALLOCATABLE, HINT, MARKER, STATIC_RATIO, KUBELET_RAW];

/// Annotations with which users control amplification.
pub const STEERING: [&str; 2] = [RATIO, MODE];

/// Returns true for an annotation in Headroom's domain that Headroom does not know, such as a misspelt one.
pub fn is_unknown(key: &str) -> bool {
    key.starts_with(DOMAIN) && !OWNED.contains(&key) && !STEERING.contains(&key)
}

/// Returns true for an annotation that only some users may write, known or unknown.
pub fn is_guarded(key: &str) -> bool {
    key.starts_with(DOMAIN) || PROTECTED.contains(&key)
}

/// Name of the node if the user is a kubelet.
pub fn node_of_user(username: &str) -> Option<&str> {
    username
        .strip_prefix(NODE_USER_PREFIX)
        .filter(|node| !node.is_empty())
}

/// Kubelet that a credential belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KubeletIdentity<'a> {
    /// The kubelet of the node that the user names.
    OfNode(&'a str),
    /// A user of the group of nodes that names no node: all kubelets have this user, so the object that it writes
    /// determines the node. NodeRestriction does not limit such a user.
    Shared,
}

impl<'a> KubeletIdentity<'a> {
    /// Identity of a user; `None` if it is not a kubelet.
    pub fn of_user(username: &'a str, groups: &[String]) -> Option<Self> {
        let is_in_group = || groups.iter().any(|group| group == NODES_GROUP);
        node_of_user(username)
            .map(Self::OfNode)
            .or_else(|| is_in_group().then_some(Self::Shared))
    }

    /// Returns true if a write of this Node is one of its own kubelet.
    pub fn is_of(self, node: &str) -> bool {
        match self {
            Self::OfNode(own) => own == node,
            Self::Shared => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubelet_is_known_by_its_user_or_by_its_group() {
        let groups = [NODES_GROUP.to_owned()];
        let others = ["system:masters".to_owned()];
        let of = |user, groups| KubeletIdentity::of_user(user, groups);
        let own = KubeletIdentity::OfNode("a");
        assert_eq!(
            [of("system:node:a", &groups), of("system:node:a", &[])],
            [Some(own); 2]
        );
        for user in ["system:node", "system:node:", "kubelet"] {
            assert_eq!(of(user, &groups), Some(KubeletIdentity::Shared), "{user}");
            assert_eq!(of(user, &others), None, "{user}");
        }
        assert_eq!([own.is_of("a"), own.is_of("b")], [true, false]);
        assert!(KubeletIdentity::Shared.is_of("b"));
    }

    #[test]
    fn other_annotations_in_our_domain_are_unknown() {
        assert!(is_unknown("headroom.sh/mdoe") && is_unknown(DOMAIN));
        assert!(!OWNED.into_iter().chain(STEERING).any(is_unknown));
        assert!(!is_unknown("node.koordinator.sh/other"));
        assert!(OWNED.into_iter().chain(STEERING).all(is_guarded) && is_guarded(DOMAIN));
        assert!(!is_guarded("node.koordinator.sh/other"));
    }

    #[test]
    fn the_webhook_user_is_its_service_account() {
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
