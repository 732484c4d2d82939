//! [`Source`]: what a store follows in the API server, and every source there is. One declaration gives the informer,
//! the role's rule, the line of readiness and the documentation.

use super::access::Access;

/// Objects of the API server that a store of this replica follows.
#[derive(Debug)]
pub struct Source {
    /// Names it in readiness, metrics and documentation.
    pub name: &'static str,
    /// The right that following it needs.
    pub access: Access,
    /// Whether its kind is always there.
    pub presence: Presence,
}

/// Whether the API server has a kind of objects at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Built into Kubernetes.
    Always,
    /// Defined by a CustomResourceDefinition that a cluster may lack; then there are no objects.
    Custom,
}

/// The Nodes.
pub static NODES: Source = Source {
    name: "nodes",
    access: Access::watch("", "nodes"),
    presence: Presence::Always,
};

/// All pods.
pub static PODS: Source = Source {
    name: "pods",
    access: Access::watch("", "pods"),
    presence: Presence::Always,
};

/// Koordinator's ConfigMap.
pub static SLO_CONFIG: Source = Source {
    name: "configmaps",
    access: Access::watch_named("", "configmaps", &[headroom_domain::names::SLO_CONFIG]),
    presence: Presence::Always,
};
