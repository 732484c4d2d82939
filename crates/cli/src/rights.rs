//! [`Right`]: permissions that commands need at the API server, one row each. The roles in the manifests and the
//! messages about refusals
//! are derived from the rows.

use std::fmt;

use headroom_domain::{installation::Installation, names};
use k8s_openapi::{
    api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

/// Group of users that gets a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Audience {
    /// Users who read; operators have these permissions too.
    Viewers,
    /// Users who also change modes and run `off`.
    Operators,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Cluster,
    WebhookNamespace,
}

/// Objects that a permission covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objects {
    All,
    /// The object with this name and the installation's suffix.
    Ours(&'static str),
    /// The object with this name, which belongs to another product.
    Foreign(&'static str),
}

/// Permission that a command needs at the API server.
#[derive(Debug, PartialEq, Eq)]
pub struct Right {
    pub purpose: &'static str,
    /// API group; empty for the core group.
    pub group: &'static str,
    pub resource: &'static str,
    pub object: Objects,
    pub verbs: &'static [&'static str],
    pub place: Place,
    pub audience: Audience,
}

/// For the CA of the webhook's port.
pub static READ_CA: Right = Right {
    purpose: "read the webhook's CA",
    group: "admissionregistration.k8s.io",
    resource: "mutatingwebhookconfigurations",
    object: Objects::Ours(names::WEBHOOK_CONFIGURATION),
    verbs: &["get"],
    place: Place::Cluster,
    audience: Audience::Viewers,
};

/// For the CA of the webhook's port, if the mutating configuration is deleted.
pub static READ_CHECKS_CA: Right = Right {
    purpose: "read the webhook's CA if its MutatingWebhookConfiguration is deleted",
    group: "admissionregistration.k8s.io",
    resource: "validatingwebhookconfigurations",
    object: Objects::Ours(names::WEBHOOK_CONFIGURATION),
    verbs: &["get"],
    place: Place::Cluster,
    audience: Audience::Viewers,
};

/// For `check --pre`, which looks for Koordinator's webhook.
pub static READ_KOORDINATOR: Right = Right {
    purpose: "look for Koordinator's webhook",
    group: "admissionregistration.k8s.io",
    resource: "mutatingwebhookconfigurations",
    object: Objects::Foreign(names::KOORDINATOR_CONFIGURATION),
    verbs: &["get"],
    place: Place::Cluster,
    audience: Audience::Operators,
};

/// For `check --pre`, which looks for Fluid's webhook.
pub static READ_FLUID: Right = Right {
    purpose: "look for Fluid's webhook",
    group: "admissionregistration.k8s.io",
    resource: "mutatingwebhookconfigurations",
    object: Objects::Foreign(names::FLUID_OWN_CONFIGURATION),
    verbs: &["get"],
    place: Place::Cluster,
    audience: Audience::Operators,
};

/// For a token with the webhook as its only audience.
pub static REQUEST_TOKEN: Right = Right {
    purpose: "get a token for the webhook",
    group: "",
    resource: "serviceaccounts/token",
    object: Objects::Ours(names::VIEWER),
    verbs: &["create"],
    place: Place::WebhookNamespace,
    audience: Audience::Viewers,
};

/// For the selector of the webhook's pods, and their port.
pub static READ_SERVICE: Right = Right {
    purpose: "find the webhook's pods",
    group: "",
    resource: "services",
    object: Objects::Ours(names::HINTS_SERVICE),
    verbs: &["get"],
    place: Place::WebhookNamespace,
    audience: Audience::Viewers,
};

pub static LIST_PODS: Right = Right {
    purpose: "list the webhook's pods",
    group: "",
    resource: "pods",
    object: Objects::All,
    verbs: &["list"],
    place: Place::WebhookNamespace,
    audience: Audience::Viewers,
};

/// For the port-forward. API servers require `get` for a WebSocket, and from 1.35 on also `create`.
pub static FORWARD_PORT: Right = Right {
    purpose: "forward a port of the webhook's pod",
    group: "",
    resource: "pods/portforward",
    object: Objects::All,
    verbs: &["create", "get"],
    place: Place::WebhookNamespace,
    audience: Audience::Viewers,
};

/// For `off` and `check --pre`, which read Nodes directly.
pub static READ_NODES: Right = Right {
    purpose: "read the nodes",
    group: "",
    resource: "nodes",
    object: Objects::All,
    verbs: &["get", "list"],
    place: Place::Cluster,
    audience: Audience::Operators,
};

/// For the mode annotation, as `kubectl annotate` and `off` write it.
pub static ANNOTATE_NODES: Right = Right {
    purpose: "annotate a node",
    group: "",
    resource: "nodes",
    object: Objects::All,
    verbs: &["patch"],
    place: Place::Cluster,
    audience: Audience::Operators,
};

pub static RIGHTS: &[&Right] = &[
    &READ_CA,
    &REQUEST_TOKEN,
    &READ_SERVICE,
    &LIST_PODS,
    &FORWARD_PORT,
    &READ_NODES,
    &ANNOTATE_NODES,
    &READ_KOORDINATOR,
    &READ_FLUID,
    &READ_CHECKS_CA,
];

/// For free capacity before the installation. In no role: specs of all pods are more than an operator of Headroom needs,
/// and a cluster administrator has the permission.
pub static LIST_ALL_PODS: Right = Right {
    purpose: "list the pods of all namespaces",
    group: "",
    resource: "pods",
    object: Objects::All,
    verbs: &["list"],
    place: Place::Cluster,
    audience: Audience::Operators,
};

/// Permission to call the debug service, and the service account that has it.
#[derive(Debug, Clone, PartialEq)]
pub struct DebugRights {
    /// Role that permits calls of the debug service and nothing else.
    pub role: ClusterRole,
    /// Binding to the service account whose tokens users present.
    pub binding: ClusterRoleBinding,
}

/// Permission to call the debug service. Only the service account has it; users request its tokens.
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

/// Markdown table of permissions, for the documentation.
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
    const fn kind(self) -> &'static str {
        match self {
            Self::Cluster => "ClusterRole",
            Self::WebhookNamespace => "Role",
        }
    }
}

impl Audience {
    pub const ALL: [Self; 2] = [Self::Viewers, Self::Operators];

    /// Name of the ClusterRole and of the Role.
    pub const fn role(self) -> &'static str {
        match self {
            Self::Viewers => names::VIEWER,
            Self::Operators => names::OPERATOR,
        }
    }

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

    /// Role in the namespace of the webhook.
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

/// Prints the rule as in a role, and the role that has it.
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
    fn operators_have_all_permissions_of_viewers() {
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
    fn a_permission_is_printed_as_its_rule() {
        assert_eq!(
            FORWARD_PORT.to_string(),
            r#"{apiGroups: [""], resources: [pods/portforward], verbs: [create, get]} of Role headroom-viewer"#
        );
    }
}
