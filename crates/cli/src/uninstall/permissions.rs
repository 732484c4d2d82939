//! Asks the API server before any change whether the user may do all of it.

use std::collections::BTreeMap;

use headroom_domain::installation::Installation;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube::Client;

use super::{
    inventory::OwnObject,
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
    for needed in on_nodes().into_iter().chain(in_namespaces(installation)) {
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
