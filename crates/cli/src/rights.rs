//! [`Right`]: what commands need of the API server, each as one row. The roles in the manifests and the sentences about a
//! refusal follow from the rows.

use std::fmt;

use headroom_domain::{installation::Installation, names};
use k8s_openapi::{
    api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

/// Who has a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Audience {
    /// People who read, and all others.
    Viewers,
    /// People who also change modes and switch off.
    Operators,
}

/// Where a right is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Objects that are in no namespace.
    Cluster,
    /// The namespace of the webhook.
    WebhookNamespace,
}

/// What a right is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objects {
    /// All objects.
    All,
    /// The one of this name and the suffix of the installation.
    Ours(&'static str),
    /// The one of this name, which is somebody else's.
    Foreign(&'static str),
}

/// Something that the API server must let a command do.
#[derive(Debug, PartialEq, Eq)]
pub struct Right {
    /// What it is needed for; completes "cannot ...".
    pub purpose: &'static str,
    /// The API group; empty for the core.
    pub group: &'static str,
    /// The resource, with its subresource.
    pub resource: &'static str,
    /// The objects that it is for.
    pub object: Objects,
    /// The verbs.
    pub verbs: &'static [&'static str],
    /// Where.
    pub place: Place,
    /// Who has it.
    pub audience: Audience,
}

/// The CA of the webhook's port.
pub static READ_CA: Right = Right {
    purpose: "read the webhook's CA",
    group: "admissionregistration.k8s.io",
    resource: "mutatingwebhookconfigurations",
    object: Objects::Ours(names::WEBHOOK_CONFIGURATION),
    verbs: &["get"],
    place: Place::Cluster,
    audience: Audience::Viewers,
};

/// The CA of the webhook's port, where the configuration that mutates is gone.
pub static READ_CHECKS_CA: Right = Right {
    purpose: "read the webhook's CA where its MutatingWebhookConfiguration is gone",
    group: "admissionregistration.k8s.io",
    resource: "validatingwebhookconfigurations",
    object: Objects::Ours(names::WEBHOOK_CONFIGURATION),
    verbs: &["get"],
    place: Place::Cluster,
    audience: Audience::Viewers,
};

/// Koordinator's webhook, which `check --pre` looks for.
pub static READ_KOORDINATOR: Right = Right {
    purpose: "look for Koordinator's webhook",
    group: "admissionregistration.k8s.io",
    resource: "mutatingwebhookconfigurations",
    object: Objects::Foreign(names::KOORDINATOR_CONFIGURATION),
    verbs: &["get"],
    place: Place::Cluster,
    audience: Audience::Operators,
};

/// A token that is for the webhook alone.
pub static REQUEST_TOKEN: Right = Right {
    purpose: "get a token for the webhook",
    group: "",
    resource: "serviceaccounts/token",
    object: Objects::Ours(names::VIEWER),
    verbs: &["create"],
    place: Place::WebhookNamespace,
    audience: Audience::Viewers,
};

/// Which pods are the webhook's, and on which port they listen.
pub static READ_SERVICE: Right = Right {
    purpose: "find the webhook's pods",
    group: "",
    resource: "services",
    object: Objects::Ours(names::HINTS_SERVICE),
    verbs: &["get"],
    place: Place::WebhookNamespace,
    audience: Audience::Viewers,
};

/// The webhook's pods.
pub static LIST_PODS: Right = Right {
    purpose: "list the webhook's pods",
    group: "",
    resource: "pods",
    object: Objects::All,
    verbs: &["list"],
    place: Place::WebhookNamespace,
    audience: Audience::Viewers,
};

/// The way to a pod. API servers want `get` for a WebSocket, and from 1.35 on `create` as well.
pub static FORWARD_PORT: Right = Right {
    purpose: "forward a port of the webhook's pod",
    group: "",
    resource: "pods/portforward",
    object: Objects::All,
    verbs: &["create", "get"],
    place: Place::WebhookNamespace,
    audience: Audience::Viewers,
};

/// The nodes, which `off` and `check --pre` read themselves.
pub static READ_NODES: Right = Right {
    purpose: "read the nodes",
    group: "",
    resource: "nodes",
    object: Objects::All,
    verbs: &["get", "list"],
    place: Place::Cluster,
    audience: Audience::Operators,
};

/// The mode of a node, as `kubectl annotate` writes it.
pub static ANNOTATE_NODES: Right = Right {
    purpose: "annotate a node",
    group: "",
    resource: "nodes",
    object: Objects::All,
    verbs: &["patch"],
    place: Place::Cluster,
    audience: Audience::Operators,
};

/// The mode of a node, written so that the webhook decides at once.
pub static WRITE_STATUS: Right = Right {
    purpose: "write the status of a node",
    group: "",
    resource: "nodes/status",
    object: Objects::All,
    verbs: &["patch"],
    place: Place::Cluster,
    audience: Audience::Operators,
};

/// Every right.
pub static RIGHTS: &[&Right] = &[
    &READ_CA,
    &REQUEST_TOKEN,
    &READ_SERVICE,
    &LIST_PODS,
    &FORWARD_PORT,
    &READ_NODES,
    &ANNOTATE_NODES,
    &WRITE_STATUS,
    &READ_KOORDINATOR,
    &READ_CHECKS_CA,
];

/// The right to ask the debug service, and the account that has it.
#[derive(Debug, Clone, PartialEq)]
pub struct DebugRights {
    /// It may ask the debug service, and nothing else.
    pub role: ClusterRole,
    /// It is the account's whose tokens people show.
    pub binding: ClusterRoleBinding,
}

/// The right to ask the debug service: of the account whose tokens people show, and of no person.
pub fn debug_rights(installation: &Installation) -> DebugRights {
    let name = installation.named(names::DEBUG_ROLE);
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        ..ObjectMeta::default()
    };
    DebugRights {
        role: ClusterRole {
            metadata: metadata.clone(),
            rules: Some(vec![PolicyRule {
                non_resource_urls: Some(vec![names::DEBUG_URL.to_owned()]),
                verbs: vec!["get".to_owned()],
                ..PolicyRule::default()
            }]),
            ..ClusterRole::default()
        },
        binding: ClusterRoleBinding {
            metadata,
            role_ref: RoleRef {
                api_group: Some("rbac.authorization.k8s.io".to_owned()),
                kind: "ClusterRole".to_owned(),
                name,
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: installation.named(names::VIEWER),
                namespace: Some(installation.namespace.to_string()),
                ..Subject::default()
            }]),
        },
    }
}

/// A table of rights for the documentation.
pub fn markdown(rights: &[&Right]) -> String {
    let rows = rights.iter().map(|right| {
        let object = match right.object {
            Objects::All => String::new(),
            Objects::Ours(name) | Objects::Foreign(name) => format!(" `{name}`"),
        };
        let group = if right.group.is_empty() {
            "core"
        } else {
            right.group
        };
        format!(
            "| {} | {} | `{}`{} of {group} | {} `{}` |\n",
            right.purpose,
            right.verbs.join(", "),
            right.resource,
            object,
            right.place.kind(),
            right.audience.role(),
        )
    });
    let head = "| to | verbs | resource | role |\n|---|---|---|---|\n";
    std::iter::once(head.to_owned()).chain(rows).collect()
}

impl Place {
    /// The kind of roles for it.
    const fn kind(self) -> &'static str {
        match self {
            Self::Cluster => "ClusterRole",
            Self::WebhookNamespace => "Role",
        }
    }
}

impl Audience {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Viewers, Self::Operators];

    /// The name of their ClusterRole and their Role.
    pub const fn role(self) -> &'static str {
        match self {
            Self::Viewers => names::VIEWER,
            Self::Operators => names::OPERATOR,
        }
    }

    /// The role for what is in no namespace.
    pub fn cluster_role(self, installation: &Installation) -> ClusterRole {
        ClusterRole {
            metadata: ObjectMeta {
                name: Some(installation.named(self.role())),
                ..ObjectMeta::default()
            },
            rules: Some(self.rules(installation, Place::Cluster)),
            ..ClusterRole::default()
        }
    }

    /// The role in the namespace of the webhook.
    pub fn namespaced_role(self, installation: &Installation) -> Role {
        Role {
            metadata: ObjectMeta {
                name: Some(installation.named(self.role())),
                namespace: Some(installation.namespace.to_string()),
                ..ObjectMeta::default()
            },
            rules: Some(self.rules(installation, Place::WebhookNamespace)),
        }
    }

    fn rules(self, installation: &Installation, place: Place) -> Vec<PolicyRule> {
        let own = RIGHTS
            .iter()
            .filter(|right| right.audience <= self && right.place == place);
        own.map(|right| right.rule(installation)).collect()
    }
}

impl Right {
    fn rule(&self, installation: &Installation) -> PolicyRule {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        PolicyRule {
            api_groups: Some(vec![self.group.to_owned()]),
            resources: Some(vec![self.resource.to_owned()]),
            resource_names: match self.object {
                Objects::All => None,
                Objects::Ours(name) => Some(vec![installation.named(name)]),
                Objects::Foreign(name) => Some(vec![name.to_owned()]),
            },
            verbs: texts(self.verbs),
            ..PolicyRule::default()
        }
    }
}

/// The rule, as a person would add it, and the role that has it.
impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{{apiGroups: [{:?}], resources: [{}], verbs: [{}]}} of {} {}",
            self.group,
            self.resource,
            self.verbs.join(", "),
            self.place.kind(),
            self.audience.role()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_may_all_that_viewers_may() {
        let installation = Installation::default();
        for place in [Place::Cluster, Place::WebhookNamespace] {
            let operators = Audience::Operators.rules(&installation, place);
            for rule in Audience::Viewers.rules(&installation, place) {
                assert!(operators.contains(&rule), "{rule:?}");
            }
        }
    }

    #[test]
    fn objects_have_the_suffix_of_their_installation() {
        let installation = Installation {
            suffix: "-b".parse().unwrap(),
            ..Installation::default()
        };
        let role = Audience::Viewers.namespaced_role(&installation);
        assert_eq!(role.metadata.name.as_deref(), Some("headroom-viewer-b"));
        let rules = role.rules.unwrap();
        let token = rules
            .iter()
            .find(|rule| rule.resources.as_ref().unwrap() == &["serviceaccounts/token"]);
        assert_eq!(
            token.unwrap().resource_names.as_deref(),
            Some(&["headroom-viewer-b".to_owned()][..])
        );
    }

    #[test]
    fn a_right_is_shown_as_the_rule_that_grants_it() {
        assert_eq!(
            FORWARD_PORT.to_string(),
            r#"{apiGroups: [""], resources: [pods/portforward], verbs: [create, get]} of Role headroom-viewer"#
        );
    }
}
