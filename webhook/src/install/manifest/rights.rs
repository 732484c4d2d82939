//! Generates the roles of the webhook and their bindings to its account, separately for each configuration object: an
//! installation without one object grants no right that only this object needs.

use std::collections::{BTreeMap, BTreeSet};

use headroom_domain::installation::Installation;
use k8s_openapi::{
    api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::named;
use crate::{
    admission::endpoint::{AnyEndpoint, ConfigurationObject},
    store::access::{Access, AccessNamespace},
};

/// RBAC rights of the webhook for the endpoints of one configuration object.
#[derive(Debug, Clone, PartialEq)]
pub struct Rights {
    /// Rights in the whole cluster.
    pub role: ClusterRole,
    pub binding: ClusterRoleBinding,
    /// Rights in single namespaces.
    pub namespaces: Vec<NamespaceRights>,
}

/// RBAC rights of the webhook in one namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct NamespaceRights {
    pub role: Role,
    pub binding: RoleBinding,
}

/// Rights for the endpoints of one configuration object: those that their steps read, switched on or not, and those
/// of the process itself.
pub fn rights(
    installation: &Installation,
    object: ConfigurationObject,
    endpoints: &[&dyn AnyEndpoint],
    besides: &[Access],
) -> Rights {
    let own = endpoints
        .iter()
        .filter(|endpoint| endpoint.declaration().configuration == object);
    let sources = own.flat_map(|endpoint| endpoint.sources());
    let accesses = sources.map(|source| source.access).chain(besides.iter().copied());
    let mut by_namespace: BTreeMap<Option<AccessNamespace>, Vec<Access>> = BTreeMap::new();
    for access in accesses {
        by_namespace.entry(access.namespace).or_default().push(access);
    }
    let name = installation.named(object.name());
    let cluster_wide = by_namespace.remove(&None).unwrap_or_default();
    Rights {
        role: ClusterRole {
            metadata: named(name.clone()),
            rules: Some(rules(installation, &cluster_wide)),
            ..ClusterRole::default()
        },
        binding: ClusterRoleBinding {
            metadata: named(name.clone()),
            role_ref: role_ref("ClusterRole", &name),
            subjects: Some(vec![webhook(installation)]),
        },
        namespaces: by_namespace
            .into_iter()
            .filter_map(|(namespace, accesses)| {
                let namespace = namespace?.in_installation(installation);
                Some(in_namespace(installation, &name, namespace, &accesses))
            })
            .collect(),
    }
}

fn in_namespace(
    installation: &Installation,
    name: &str,
    namespace: String,
    accesses: &[Access],
) -> NamespaceRights {
    let metadata = ObjectMeta {
        namespace: Some(namespace),
        ..named(name.to_owned())
    };
    NamespaceRights {
        role: Role {
            metadata: metadata.clone(),
            rules: Some(rules(installation, accesses)),
        },
        binding: RoleBinding {
            metadata,
            role_ref: role_ref("Role", name),
            subjects: Some(vec![webhook(installation)]),
        },
    }
}

/// One rule for each resource and each list of names, in order.
fn rules(installation: &Installation, accesses: &[Access]) -> Vec<PolicyRule> {
    let mut verbs: BTreeMap<(&str, &str, Vec<String>), BTreeSet<&str>> = BTreeMap::new();
    for access in accesses {
        let objects = access.objects.in_installation(installation);
        verbs
            .entry((access.group, access.resource, objects))
            .or_default()
            .extend(access.verbs);
    }
    let rules = verbs
        .into_iter()
        .map(|((group, resource, names), verbs)| PolicyRule {
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(vec![resource.to_owned()]),
            resource_names: (!names.is_empty()).then_some(names),
            verbs: verbs.into_iter().map(str::to_owned).collect(),
            ..PolicyRule::default()
        });
    rules.collect()
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: Some("rbac.authorization.k8s.io".to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

fn webhook(installation: &Installation) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: installation.service_account(),
        namespace: Some(installation.namespace.to_string()),
        ..Subject::default()
    }
}
