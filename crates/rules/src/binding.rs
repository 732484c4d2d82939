//! Who may bind pods to nodes: only the users of a list, in the namespaces of another.
//!
//! The rule is off until users are named, and lets in whatever it cannot judge, such as a pod that is not known yet.

mod settings;

use std::collections::BTreeMap;

pub use self::settings::{Lists, Namespaces, Settings};
use crate::switch::{Switch, Switches};

/// Whether a listed user is that user alone.
pub static EXACT_USERS: Switch = Switch {
    name: "BindingExactUsers",
    default: true,
    row: "D-31, users",
    koordinator: "a user whose name contains a listed one may bind",
    about: "a listed user is the whole name, as in `system:serviceaccount:NAMESPACE:NAME`",
    why: "whoever may create a service account could call it after a scheduler",
};

/// Whether the other resource that binds pods is checked.
pub static BINDINGS: Switch = Switch {
    name: "BindingCoversBindings",
    default: true,
    row: "D-31, bindings",
    koordinator: "`pods/binding` is checked, `bindings` is not",
    about: "`bindings` is checked as `pods/binding` is",
    why: "both bind a pod",
};

/// A request to bind a pod, as far as it is judged. The object itself is not read.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The operation, such as `CREATE`.
    pub operation: &'a str,
    /// The resource, such as `pods`.
    pub resource: &'a str,
    /// The subresource, such as `binding`; empty without one.
    pub subresource: &'a str,
    /// The name of the user who asks.
    pub username: &'a str,
    /// The namespace of the pod.
    pub namespace: &'a str,
    /// The pod; `None` if it is not known.
    pub pod: Option<PodMetadata<'a>>,
}

/// The metadata of a pod, as far as they are judged.
#[derive(Debug, Clone, Copy)]
pub struct PodMetadata<'a> {
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: &'a BTreeMap<String, String>,
}

/// What is to become of a request to bind a pod, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Allowed: no users are listed.
    NoUsers,
    /// Allowed: the request binds nothing.
    NoBinding,
    /// Allowed: the user is listed.
    AllowedUser,
    /// Allowed: the namespace is excluded.
    ExcludedNamespace,
    /// Allowed: no namespaces are listed.
    NoNamespaces,
    /// Allowed: the namespace is not listed.
    OutOfScope,
    /// Allowed: the pod is not known, so nobody can say whether it has a bypass.
    UnknownPod,
    /// Allowed: a label of the pod bypasses the rule.
    BypassLabel,
    /// Allowed: an annotation of the pod bypasses the rule.
    BypassAnnotation,
    /// Allowed, though it would be denied: denials are switched off.
    DryRun,
    /// Denied.
    Denied,
}

impl Decision {
    /// What a client reads who is denied.
    pub const DENIAL: &str = "binding denied: username is not in the allowed list";

    /// All decisions, in the order in which they are tried.
    pub const ALL: [Self; 11] = [
        Self::NoUsers,
        Self::NoBinding,
        Self::AllowedUser,
        Self::ExcludedNamespace,
        Self::NoNamespaces,
        Self::OutOfScope,
        Self::UnknownPod,
        Self::BypassLabel,
        Self::BypassAnnotation,
        Self::DryRun,
        Self::Denied,
    ];

    /// True unless the request is denied.
    pub fn is_allowed(self) -> bool {
        self != Self::Denied
    }

    /// The word under which it counts; `None` where the rule does not apply at all. Koordinator's words, but for
    /// `unknown_pod`, which it does not count.
    pub const fn metric(self) -> Option<&'static str> {
        match self {
            Self::NoUsers | Self::NoBinding | Self::NoNamespaces => None,
            Self::AllowedUser => Some("allowed_username"),
            Self::ExcludedNamespace => Some("excluded_ns"),
            Self::OutOfScope => Some("out_of_scope"),
            Self::UnknownPod => Some("unknown_pod"),
            Self::BypassLabel => Some("bypass_label"),
            Self::BypassAnnotation => Some("bypass_annotation"),
            Self::DryRun => Some("dry_run"),
            Self::Denied => Some("denied"),
        }
    }
}

/// Decides whether a pod may be bound. The first reason to allow it counts.
pub fn decide(request: &Request<'_>, settings: &Settings, switches: &Switches) -> Decision {
    if settings.users.is_empty() {
        return Decision::NoUsers;
    }
    if !binds(request, switches) {
        return Decision::NoBinding;
    }
    if is_listed(request.username, settings, switches) {
        return Decision::AllowedUser;
    }
    if settings.excluded_namespaces.contains(request.namespace) {
        return Decision::ExcludedNamespace;
    }
    match &settings.namespaces {
        Namespaces::All => {}
        Namespaces::Named(names) if names.is_empty() => return Decision::NoNamespaces,
        Namespaces::Named(names) if names.contains(request.namespace) => {}
        Namespaces::Named(_) => return Decision::OutOfScope,
    }
    let Some(PodMetadata { labels, annotations }) = request.pod else {
        return Decision::UnknownPod;
    };
    if settings.bypass_labels.iter().any(|key| labels.contains_key(key)) {
        return Decision::BypassLabel;
    }
    let mut bypasses = settings.bypass_annotations.iter();
    if bypasses.any(|key| annotations.contains_key(key)) {
        return Decision::BypassAnnotation;
    }
    if settings.is_dry_run {
        return Decision::DryRun;
    }
    Decision::Denied
}

fn binds(request: &Request<'_>, switches: &Switches) -> bool {
    let is_binding = match (request.resource, request.subresource) {
        ("pods", "binding") => true,
        ("bindings", "") => switches.is_on(&BINDINGS),
        _ => false,
    };
    is_binding && request.operation == "CREATE"
}

fn is_listed(username: &str, settings: &Settings, switches: &Switches) -> bool {
    if switches.is_on(&EXACT_USERS) {
        settings.users.contains(username)
    } else {
        settings.users.iter().any(|listed| username.contains(listed))
    }
}

#[cfg(test)]
mod tests;
