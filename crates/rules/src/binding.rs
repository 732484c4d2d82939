//! Rule of the users that may bind pods to nodes: only users of a list, in the namespaces of another list.
//!
//! The rule is off until users are listed, and allows requests that it cannot judge, such as for a pod that is not
//! yet known.

mod metadata;
mod settings;

use std::collections::BTreeMap;

pub use self::{
    metadata::{CHECKS_METADATA, changed_metadata, is_guarded},
    settings::{Lists, Namespaces, Settings},
};
use crate::switch::{Switch, Switches};

/// Switch: a listed user is compared exactly.
pub static EXACT_USERS: Switch = Switch {
    name: "BindingExactUsers",
    default: true,
    row: "D-31, users",
    koordinator: "a user whose name contains a listed one may bind",
    about: "a listed user is the whole name, as in `system:serviceaccount:NAMESPACE:NAME`",
    why: "a user who may create service accounts could name one after a scheduler",
};

/// Switch: `bindings` is checked like `pods/binding`.
pub static BINDINGS: Switch = Switch {
    name: "BindingCoversBindings",
    default: true,
    row: "D-31, bindings",
    koordinator: "`pods/binding` is checked, `bindings` is not",
    about: "`bindings` is checked like `pods/binding`",
    why: "both bind a pod",
};

/// A request to bind a pod, reduced to the fields that the rule reads. The Binding object itself is not read.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Operation of the review, such as `CREATE`.
    pub operation: &'a str,
    /// Resource in lower case, such as `pods`.
    pub resource: &'a str,
    /// Subresource, such as `binding`; empty without one.
    pub subresource: &'a str,
    /// Name of the requesting user.
    pub username: &'a str,
    /// Namespace of the pod, which the rule's lists refer to.
    pub namespace: &'a str,
    /// Metadata of the pod; `None` if this replica does not know the pod.
    pub pod: Option<PodMetadata<'a>>,
}

/// Metadata of a pod that can bypass the rule.
#[derive(Debug, Clone, Copy)]
pub struct PodMetadata<'a> {
    /// Labels of the pod, searched for bypass keys.
    pub labels: &'a BTreeMap<String, String>,
    /// Annotations of the pod, searched for bypass keys.
    pub annotations: &'a BTreeMap<String, String>,
}

/// Decision about a request, with its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Allowed: the list of users is empty.
    NoUsers,
    /// Allowed: the request does not bind a pod.
    NoBinding,
    /// Allowed: the user is in the list.
    AllowedUser,
    /// Allowed: the namespace is in the exclude list.
    ExcludedNamespace,
    /// Allowed: the list of namespaces is empty.
    NoNamespaces,
    /// Allowed: the namespace is not in the list.
    OutOfScope,
    /// Allowed: the pod is not known, so a bypass cannot be ruled out.
    UnknownPod,
    /// Allowed: a label of the pod bypasses the rule.
    BypassLabel,
    /// Allowed: an annotation of the pod bypasses the rule.
    BypassAnnotation,
    /// Allowed, but denied without the dry run.
    DryRun,
    /// Denied: no reason to allow the request applies.
    Denied,
}

impl Decision {
    /// Message of a denial, in Koordinator's words.
    pub const DENIAL: &str = "binding denied: username is not in the allowed list";

    /// All decisions, in evaluation order.
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

    /// Returns true unless the request is denied.
    pub fn is_allowed(self) -> bool {
        self != Self::Denied
    }

    /// Label value of the metric; `None` if the rule does not apply. The values are Koordinator's, except
    /// `unknown_pod`, which Koordinator does not count.
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

/// Decides whether a pod may be bound. The first reason to allow it wins.
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
