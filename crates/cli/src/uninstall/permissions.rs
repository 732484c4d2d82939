//! Asks the API server before any change whether the user may do all of it.

use std::collections::{BTreeMap, BTreeSet};

use headroom_domain::installation::Installation;
use k8s_openapi::api::{authorization::v1::ResourceAttributes, rbac::v1::PolicyRule};
use kube::Client;

use super::{
    inventory::{OwnObject, inventory},
    namespace_contents::KINDS,
    object_kind::{self as kinds, ObjectKind},
};
use crate::{access_review::is_allowed, error::Error};

/// One permission.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Permission {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    namespace: Option<String>,
    /// `None` for all objects.
    name: Option<String>,
}

/// Permissions that the user lacks, as texts such as `delete clusterroles`. A user with permissions for single names
/// is asked about each name.
///
/// # Errors
/// The API server does not answer.
pub async fn missing(
    client: &Client,
    installation: &Installation,
    own: &[OwnObject],
) -> Result<Vec<String>, Error> {
    let mut missing = Vec::new();
    let deletes_namespaces = own.iter().any(|object| object.kind == &kinds::NAMESPACE);
    let contents = deletes_namespaces.then(|| in_namespaces(installation));
    for needed in on_nodes().into_iter().chain(contents.into_iter().flatten()) {
        if !is_allowed(client, needed.to_attributes()).await? {
            missing.push(needed.to_text());
        }
    }
    let mut groups: BTreeMap<(&ObjectKind, Option<&str>), Vec<&str>> = BTreeMap::new();
    for object in own {
        let group = groups.entry((object.kind, object.namespace.as_deref()));
        group.or_default().push(&object.name);
    }
    for ((kind, namespace), all) in groups {
        for verb in ["get", "delete"] {
            let whole = Permission::new(verb, kind, namespace);
            if is_allowed(client, whole.to_attributes()).await? {
                continue;
            }
            for name in &all {
                let one = Permission {
                    name: Some((*name).to_owned()),
                    ..whole.clone()
                };
                if !is_allowed(client, one.to_attributes()).await? {
                    missing.push(one.to_text());
                }
            }
        }
    }
    Ok(missing)
}

/// Rules of a role that may run `uninstall --keep-objects`, and nothing else.
pub fn rules_without_objects(installation: &Installation) -> Vec<PolicyRule> {
    let on_nodes = on_nodes().into_iter().map(|permission| {
        let Permission {
            verb,
            group,
            resource,
            subresource,
            ..
        } = permission;
        let resource = if subresource.is_empty() {
            resource.to_owned()
        } else {
            format!("{resource}/{subresource}")
        };
        rule(group, resource, &[verb], None)
    });
    let mut names: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for object in inventory(installation) {
        if object.stage.acts() {
            let kind = object.kind;
            names
                .entry((kind.group, kind.plural))
                .or_default()
                .insert(object.name);
        }
    }
    let on_own = names
        .into_iter()
        .map(|((group, plural), names)| rule(group, plural.to_owned(), &["get", "delete"], Some(names)));
    on_nodes.chain(on_own).collect()
}

fn rule(group: &str, resource: String, verbs: &[&str], names: Option<BTreeSet<String>>) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource]),
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        resource_names: names.map(|names| names.into_iter().collect()),
        ..PolicyRule::default()
    }
}

/// For the mode, the leftovers and the requests of bound pods.
fn on_nodes() -> Vec<Permission> {
    let nodes = |verb, subresource| Permission {
        verb,
        group: "",
        resource: "nodes",
        subresource,
        namespace: None,
        name: None,
    };
    vec![
        nodes("list", ""),
        nodes("patch", ""),
        nodes("patch", "status"),
        Permission::new("list", &kinds::POD, None),
        Permission::new("list", &kinds::MUTATING_CONFIGURATION, None),
        Permission::new("list", &kinds::VALIDATING_CONFIGURATION, None),
        Permission::new("get", &kinds::DEFINITION, None),
    ]
}

/// For objects of other users in the namespaces.
fn in_namespaces(installation: &Installation) -> Vec<Permission> {
    let namespaces = [&installation.namespace, &installation.agent_namespace];
    let listed = namespaces.into_iter().flat_map(|namespace| {
        let list = move |kind: &&'static ObjectKind| Permission::new("list", kind, Some(namespace.as_str()));
        KINDS.iter().map(list)
    });
    listed.collect()
}

impl Permission {
    fn new(verb: &'static str, kind: &'static ObjectKind, namespace: Option<&str>) -> Self {
        Self {
            verb,
            group: kind.group,
            resource: kind.plural,
            subresource: "",
            namespace: namespace.map(str::to_owned),
            name: None,
        }
    }

    fn to_attributes(&self) -> ResourceAttributes {
        let Self {
            verb,
            group,
            resource,
            subresource,
            namespace,
            name,
        } = self.clone();
        ResourceAttributes {
            verb: Some(verb.to_owned()),
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            subresource: Some(subresource.to_owned()),
            namespace,
            name,
            ..ResourceAttributes::default()
        }
    }

    fn to_text(&self) -> String {
        let Self {
            verb,
            group: _,
            resource,
            subresource,
            namespace,
            name,
        } = self;
        let mut text = format!("{verb} {resource}");
        if !subresource.is_empty() {
            text.extend(["/", subresource]);
        }
        if let Some(name) = name {
            text.extend([" ", name]);
        }
        if let Some(namespace) = namespace {
            text.extend([" in namespace ", namespace]);
        }
        text
    }
}
