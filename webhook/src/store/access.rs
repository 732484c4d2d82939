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
    /// What is done with it.
    pub verbs: &'static [&'static str],
    /// The namespace it is restricted to; `None` for all, and for what is in none.
    pub namespace: Option<AccessNamespace>,
}

/// Objects that access is restricted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectNames {
    /// All of them.
    All,
    /// Those of these names.
    Named(&'static [&'static str]),
    /// Those that an installation calls so, with its suffix.
    Ours(&'static [&'static str]),
}

/// A namespace that access is restricted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessNamespace {
    /// The webhook's own.
    Own,
    /// The one of this name.
    Named(&'static str),
}

impl Access {
    /// What an informer needs.
    pub const fn watch(group: &'static str, resource: &'static str) -> Self {
        Self::to(group, resource, ObjectNames::All, &["get", "list", "watch"])
    }

    /// What an informer needs that follows only objects of these names.
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

    /// What these verbs need, in whatever namespace.
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

    /// The same in one namespace alone.
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
            Self::Named(name) => name.to_owned(),
        }
    }
}
