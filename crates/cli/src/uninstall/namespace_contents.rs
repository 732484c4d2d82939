//! Lists the objects in a namespace of ours that the installation did not create.

use std::collections::BTreeSet;

use headroom_domain::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Client, ResourceExt as _, api::ListParams};

use super::{
    found_object::is_labelled,
    inventory::{OwnObject, Stage},
    object_kind::{self as kinds, ObjectKind},
};

/// Kinds that are looked for. Their owners are too, so an owned object is reported through its owner.
pub(super) static KINDS: [&ObjectKind; 11] = [
    &kinds::POD,
    &kinds::CLAIM,
    &kinds::SECRET,
    &kinds::CONFIG_MAP,
    &kinds::SERVICE,
    &kinds::DEPLOYMENT,
    &kinds::DAEMON_SET,
    &kinds::STATEFUL_SET,
    &kinds::REPLICA_SET,
    &kinds::JOB,
    &kinds::CRON_JOB,
];
/// ConfigMaps that Kubernetes and OpenShift create in each namespace.
const IN_EACH_NAMESPACE: [&str; 2] = ["kube-root-ca.crt", "openshift-service-ca.crt"];
/// Leaves out the Secrets that Kubernetes and OpenShift create for service accounts.
const NOT_OF_ACCOUNTS: &str = "type!=kubernetes.io/service-account-token,type!=kubernetes.io/dockercfg";

/// Contents of a namespace besides the objects with fixed names.
#[derive(Debug, Default)]
pub(super) struct NamespaceContents {
    /// ConfigMaps of ours whose names end in a hash.
    pub(super) hashed: Vec<OwnObject>,
    /// Objects of other users, as `Kind name`.
    pub(super) foreign: Vec<String>,
}

impl NamespaceContents {
    /// Lists one namespace. The content of Secrets is not read.
    pub(super) async fn read(
        client: &Client,
        namespace: &str,
        own: &[OwnObject],
        config_map: &str,
    ) -> kube::Result<Self> {
        let here = own
            .iter()
            .filter(|object| object.namespace.as_deref() == Some(namespace));
        let known: BTreeSet<(&ObjectKind, &str)> =
            here.map(|object| (object.kind, object.name.as_str())).collect();
        let hashed_prefix = format!("{config_map}-");
        let mut contents = Self::default();
        for kind in KINDS {
            let mut params = ListParams::default();
            if kind == &kinds::SECRET {
                params = params.fields(NOT_OF_ACCOUNTS);
            }
            let listed = kind.api(client, Some(namespace)).list_metadata(&params).await?;
            for object in listed {
                let name = object.name_any();
                let is_of_kubernetes =
                    kind == &kinds::CONFIG_MAP && IN_EACH_NAMESPACE.contains(&name.as_str());
                let is_known = known.contains(&(kind, name.as_str())) || is_labelled(&object);
                if is_known || is_of_kubernetes || is_owned(object.owner_references()) {
                    continue;
                }
                if kind == &kinds::CONFIG_MAP && name.starts_with(&hashed_prefix) {
                    contents.hashed.push(OwnObject {
                        stage: Stage::Objects,
                        kind,
                        namespace: Some(namespace.to_owned()),
                        name,
                    });
                } else {
                    contents.foreign.push(format!("{} {name}", kind.kind));
                }
            }
        }
        Ok(contents)
    }
}

/// True if the controller of the object is of a kind that is listed too.
fn is_owned(owners: &[OwnerReference]) -> bool {
    let controller = owners.iter().find(|owner| owner.controller == Some(true));
    controller.is_some_and(|owner| KINDS.iter().any(|kind| is_of_kind(owner, kind)))
}

fn is_of_kind(owner: &OwnerReference, kind: &ObjectKind) -> bool {
    owner.kind == kind.kind && owner.api_version == kind.api_version()
}

/// Name of the ConfigMap whose copies have a hash at the end.
pub(super) const HASHED: &str = names::CONFIG_MAP;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_of_listed_controllers_are_left_out() {
        let owner = |api_version: &str, kind: &str, is_controller: bool| OwnerReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            controller: Some(is_controller),
            ..OwnerReference::default()
        };
        assert!(is_owned(&[owner("apps/v1", "ReplicaSet", true)]));
        assert!(!is_owned(&[owner("apps/v1", "ReplicaSet", false)]));
        assert!(!is_owned(&[owner("argoproj.io/v1alpha1", "Workflow", true)]));
        assert!(!is_owned(&[owner("example.com/v1", "Job", true)]));
        assert!(!is_owned(&[]));
    }
}
