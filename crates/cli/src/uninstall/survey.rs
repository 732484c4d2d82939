//! [`Survey`]: what the cluster contains of an installation at one time.

use std::collections::{BTreeMap, BTreeSet};

use headroom_domain::{installation::Installation, names};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, ListParams},
};
use serde_json::Value;

use super::{
    found_object::{Callee, FoundObject, Standing, callee, is_labelled},
    inventory::{OwnObject, Stage},
    namespace_contents::{HASHED, NamespaceContents},
    node_leftovers::NodeLeftovers,
    object_kind::{self as kinds, ObjectKind},
};
use crate::{error::Error, rights};

/// Nodes per page of a list.
const PAGE: u32 = 500;

#[derive(Debug, Default)]
pub struct Survey {
    /// Objects with our names, in the order of deletion; also webhook configurations of other names that call our
    /// Service.
    pub found: Vec<FoundObject>,
    /// Objects of other users by namespace of ours. These namespaces stay.
    pub crowded: BTreeMap<String, Vec<String>>,
    pub leftovers: Vec<NodeLeftovers>,
    /// Folders that stay on nodes.
    pub host_paths: BTreeSet<String>,
    /// CustomResourceDefinitions of Koordinator, which stay.
    pub definitions: Vec<&'static str>,
}

impl Survey {
    /// Reads the cluster, and changes nothing.
    ///
    /// # Errors
    /// The API server refuses or does not answer.
    pub async fn read(
        client: &Client,
        installation: &Installation,
        own: &[OwnObject],
    ) -> Result<Self, Error> {
        let mut survey = Self {
            host_paths: names::HOST_PATHS.map(str::to_owned).into(),
            leftovers: leftovers(client, false).await?,
            ..Self::default()
        };
        survey
            .read_objects(client, installation, own)
            .await
            .map_err(read_error)?;
        for name in names::KOORDINATOR_KINDS {
            let found = kinds::DEFINITION.find_metadata(client, None, name).await;
            survey
                .definitions
                .extend(found.map_err(read_error)?.map(|_| name));
        }
        survey.found.sort_by_key(|found| found.object.stage);
        Ok(survey)
    }

    async fn read_objects(
        &mut self,
        client: &Client,
        installation: &Installation,
        own: &[OwnObject],
    ) -> kube::Result<()> {
        for kind in [&kinds::MUTATING_CONFIGURATION, &kinds::VALIDATING_CONFIGURATION] {
            self.read_configurations(client, installation, own, kind).await?;
        }
        let mut own_namespaces = BTreeSet::new();
        for object in own.iter().filter(|object| object.kind == &kinds::NAMESPACE) {
            let Some(found) = kinds::NAMESPACE.find_metadata(client, None, &object.name).await? else {
                continue;
            };
            self.found
                .push(FoundObject::from_metadata(object.clone(), &found, false));
            if !is_labelled(&found) {
                continue;
            }
            own_namespaces.insert(object.name.clone());
            let hashed = installation.named(HASHED);
            let contents = NamespaceContents::read(client, &object.name, own, &hashed).await?;
            if !contents.foreign.is_empty() {
                self.crowded.insert(object.name.clone(), contents.foreign);
            }
            for object in contents.hashed {
                self.read_object(client, object, &own_namespaces).await?;
            }
        }
        let is_read = |kind: &ObjectKind| {
            [
                &kinds::NAMESPACE,
                &kinds::MUTATING_CONFIGURATION,
                &kinds::VALIDATING_CONFIGURATION,
            ]
            .contains(&kind)
        };
        for object in own.iter().filter(|object| !is_read(object.kind)) {
            self.read_object(client, object.clone(), &own_namespaces).await?;
        }
        Ok(())
    }

    async fn read_object(
        &mut self,
        client: &Client,
        object: OwnObject,
        own_namespaces: &BTreeSet<String>,
    ) -> kube::Result<()> {
        let (kind, namespace) = (object.kind, object.namespace.as_deref());
        let is_ours = object
            .namespace
            .as_ref()
            .is_some_and(|name| own_namespaces.contains(name));
        if object.kind == &kinds::DAEMON_SET {
            // Its mounts name the folders on nodes.
            let Some(found) = kind.find(client, namespace, &object.name).await? else {
                return Ok(());
            };
            self.host_paths.extend(writable_host_paths(&found.data));
            self.found
                .push(FoundObject::from_metadata(object, &found, is_ours));
        } else if let Some(found) = kind.find_metadata(client, namespace, &object.name).await? {
            self.found
                .push(FoundObject::from_metadata(object, &found, is_ours));
        }
        Ok(())
    }

    async fn read_configurations(
        &mut self,
        client: &Client,
        installation: &Installation,
        own: &[OwnObject],
        kind: &'static ObjectKind,
    ) -> kube::Result<()> {
        let known: BTreeSet<&str> = own
            .iter()
            .filter(|object| object.kind == kind)
            .map(|object| object.name.as_str())
            .collect();
        for found in kind.api(client, None).list(&ListParams::default()).await? {
            let DynamicObject { data, .. } = &found;
            let callee = callee(data, installation);
            let name = found.name_any();
            if !known.contains(name.as_str()) && matches!(callee, Callee::Others | Callee::NoService) {
                continue;
            }
            let object = OwnObject {
                stage: Stage::Admission,
                kind,
                namespace: None,
                name,
            };
            self.found
                .push(FoundObject::configuration(object, &found, callee));
        }
        Ok(())
    }

    /// Objects of the installation that are not deleted yet; without namespaces that contain objects of other users.
    pub fn deletable(&self) -> impl Iterator<Item = &FoundObject> {
        self.found
            .iter()
            .filter(|found| found.is_left() && !self.is_crowded(found))
    }

    /// Everything of the installation that a deletion leaves: for the last message.
    pub fn left(&self) -> Vec<String> {
        let objects = self.found.iter().filter(|found| found.is_left());
        let objects = objects.map(|found| match self.crowd(found) {
            None => found.object.to_string(),
            Some(crowd) => format!("{} contains {}", found.object, crowd.join(", ")),
        });
        let nodes = self
            .leftovers
            .iter()
            .map(|left| format!("annotations of node {}", left.node));
        objects.chain(nodes).collect()
    }

    /// Objects with our names that belong to another installation or user, with the reasons.
    pub fn foreign(&self) -> impl Iterator<Item = (&OwnObject, &'static str)> {
        self.found.iter().filter_map(|found| match found.standing {
            Standing::Ours => None,
            Standing::Foreign(reason) => Some((&found.object, reason)),
        })
    }

    fn is_crowded(&self, found: &FoundObject) -> bool {
        self.crowd(found).is_some()
    }

    fn crowd(&self, found: &FoundObject) -> Option<&Vec<String>> {
        let is_namespace = found.object.kind == &kinds::NAMESPACE;
        is_namespace
            .then(|| self.crowded.get(&found.object.name))
            .flatten()
    }
}

/// Leftovers on all nodes, read page by page.
///
/// # Errors
/// The API server refuses or does not answer.
pub async fn leftovers(client: &Client, is_mode_kept: bool) -> Result<Vec<NodeLeftovers>, Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = nodes.list(&params).await;
        let page = page.map_err(|source| Error::api(&rights::READ_NODES, source))?;
        let left = page
            .items
            .iter()
            .filter_map(|node| NodeLeftovers::find(node, is_mode_kept));
        found.extend(left);
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            None => return Ok(found),
            Some(next) => params = params.continue_token(&next),
        }
    }
}

fn read_error(source: kube::Error) -> Error {
    Error::Cluster {
        attempt: "read the objects of the installation",
        reason: Box::new(source),
    }
}

/// Paths of a DaemonSet's volumes that a container mounts writable.
fn writable_host_paths(daemon_set: &Value) -> Vec<String> {
    let items = |object: &Value, path: &str| {
        let list = object.pointer(path).and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    };
    let containers = items(daemon_set, "/spec/template/spec/containers");
    let mounts = containers
        .iter()
        .flat_map(|container| items(container, "/volumeMounts"));
    let mounts: Vec<Value> = mounts.filter(|mount| mount["readOnly"] != true).collect();
    let volumes = items(daemon_set, "/spec/template/spec/volumes");
    let paths = volumes
        .iter()
        .filter(|volume| mounts.iter().any(|mount| mount["name"] == volume["name"]))
        .filter_map(|volume| volume.pointer("/hostPath/path")?.as_str());
    paths.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn writable_folders_of_agents_are_named() {
        let volume = |name: &str, path: &str| json!({"name": name, "hostPath": {"path": path}});
        let daemon_set = json!({"spec": {"template": {"spec": {
            "containers": [{"volumeMounts": [
                {"name": "cgroup", "readOnly": true}, {"name": "state"}, {"name": "scratch"},
            ]}],
            "volumes": [volume("cgroup", "/sys/fs/cgroup"), volume("state", "/data/headroom"),
                json!({"name": "scratch", "emptyDir": {}})],
        }}}});
        assert_eq!(writable_host_paths(&daemon_set), ["/data/headroom"]);
        assert_eq!(writable_host_paths(&json!({})), [""; 0]);
    }
}
