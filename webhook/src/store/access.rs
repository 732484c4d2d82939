//! [`Access`]: the API access that an informer, a writer or a check needs; roles are generated from it.

/// API access that something needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// Resource, `resource/subresource` for a subresource.
    pub resource: &'static str,
    /// The objects it is restricted to; empty for all.
    pub names: &'static [&'static str],
    /// What is done with it.
    pub verbs: &'static [&'static str],
}

impl Access {
    /// What an informer needs.
    pub const fn watch(group: &'static str, resource: &'static str) -> Self {
        Self::watch_named(group, resource, &[])
    }

    /// What an informer needs that follows only objects of these names.
    pub const fn watch_named(
        group: &'static str,
        resource: &'static str,
        names: &'static [&'static str],
    ) -> Self {
        Self {
            group,
            resource,
            names,
            verbs: &["get", "list", "watch"],
        }
    }
}
