//! [`Access`]: the API access that an informer, a writer or a check needs; roles are generated from it.

use headroom_domain::installation::Installation;

/// API access that something needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// Resource, `resource/subresource` for a subresource.
    pub resource: &'static str,
    /// The objects it is restricted to.
    pub objects: ObjectNames,
    /// Verbs of the rule.
    pub verbs: &'static [&'static str],
    /// Namespace it is restricted to; `None` for all namespaces and cluster-scoped objects.
    pub namespace: Option<AccessNamespace>,
}

/// Objects that access is restricted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectNames {
    All,
    Named(&'static [&'static str]),
    /// Objects with these names, plus the installation's suffix.
    Ours(&'static [&'static str]),
}

/// A namespace that access is restricted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessNamespace {
    Own,
    /// The namespace of the agents.
    Agents,
    /// The one of this name.
    Named(&'static str),
}

impl Access {
    /// Rights of an informer: list and watch.
    pub const fn watch(group: &'static str, resource: &'static str) -> Self {
        Self::to(group, resource, ObjectNames::All, &["get", "list", "watch"])
    }

    /// Rights of an informer that follows only objects with these names.
    pub const fn watch_named(
        group: &'static str,
        resource: &'static str,
        names: &'static [&'static str],
    ) -> Self {
        Self::to(
            group,
            resource,
            ObjectNames::Named(names),
            &["get", "list", "watch"],
        )
    }

    /// These verbs, in every namespace.
    pub const fn to(
        group: &'static str,
        resource: &'static str,
        objects: ObjectNames,
        verbs: &'static [&'static str],
    ) -> Self {
        Self {
            group,
            resource,
            objects,
            verbs,
            namespace: None,
        }
    }

    /// This access, in one namespace only.
    pub const fn in_namespace(self, namespace: AccessNamespace) -> Self {
        Self {
            namespace: Some(namespace),
            ..self
        }
    }
}

impl ObjectNames {
    /// The names in an installation; empty for all.
    pub fn in_installation(self, installation: &Installation) -> Vec<String> {
        match self {
            Self::All => Vec::new(),
            Self::Named(names) => names.iter().map(|&name| name.to_owned()).collect(),
            Self::Ours(names) => names.iter().map(|name| installation.named(name)).collect(),
        }
    }
}

impl AccessNamespace {
    /// The name in an installation.
    pub fn in_installation(self, installation: &Installation) -> String {
        match self {
            Self::Own => installation.namespace.to_string(),
            Self::Agents => installation.agent_namespace.to_string(),
            Self::Named(name) => name.to_owned(),
        }
    }
}
