//! Reads one object of the API server, or of an unreadable object the parts that name it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

/// Result of reading an object.
#[derive(Debug)]
pub(super) enum Reading<T> {
    Readable(T),
    Unreadable(UnreadableObject<T>),
}

/// An object that does not have the type of its resource.
#[derive(Debug)]
pub(super) struct UnreadableObject<T> {
    /// The object with only its names, version, labels, annotations, node and phase; `None` without a name.
    pub(super) reduced: Option<T>,
    /// Namespace and name, as text for users.
    pub(super) name: String,
    /// Resource version; empty if it cannot be read.
    pub(super) version: String,
    pub(super) error: serde_json::Error,
}

/// Reads an object.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Reading<T> {
    match serde_json::from_str(text) {
        Ok(object) => Reading::Readable(object),
        Err(error) => {
            let identity = Identity::read(text);
            Reading::Unreadable(UnreadableObject {
                reduced: identity.reduce(),
                name: identity.to_string(),
                version: identity.metadata.resource_version.unwrap_or_default(),
                error,
            })
        }
    }
}

/// Parts of an object, each read by itself.
#[derive(Debug, Default, Serialize)]
struct Identity {
    metadata: IdentityMeta,
    spec: IdentitySpec,
    status: IdentityStatus,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct IdentityMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct IdentitySpec {
    node_name: Option<String>,
}

#[derive(Debug, Default, Serialize)]
struct IdentityStatus {
    phase: Option<String>,
}

/// MemberTexts of an object that are read one by one.
type MemberTexts<'t> = BTreeMap<String, &'t RawValue>;

impl Identity {
    fn read(text: &str) -> Self {
        let object = members(text);
        let of = |name: &str| members(object.get(name).map_or("", |member| member.get()));
        let (metadata, spec, status) = (of("metadata"), of("spec"), of("status"));
        Self {
            metadata: IdentityMeta {
                name: member(&metadata, "name"),
                namespace: member(&metadata, "namespace"),
                uid: member(&metadata, "uid"),
                resource_version: member(&metadata, "resourceVersion"),
                labels: member(&metadata, "labels"),
                annotations: member(&metadata, "annotations"),
            },
            spec: IdentitySpec {
                node_name: member(&spec, "nodeName"),
            },
            status: IdentityStatus {
                phase: member(&status, "phase"),
            },
        }
    }

    fn reduce<T: DeserializeOwned>(&self) -> Option<T> {
        self.metadata.name.as_ref()?;
        let text = serde_json::to_string(self).ok()?;
        serde_json::from_str(&text).ok()
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let IdentityMeta { name, namespace, .. } = &self.metadata;
        if let Some(namespace) = namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(name.as_deref().unwrap_or("(unnamed)"))
    }
}

fn members(text: &str) -> MemberTexts<'_> {
    serde_json::from_str(text).unwrap_or_default()
}

/// A member of an object; `None` if it is absent or has another type.
fn member<'t, T: Deserialize<'t>>(members: &MemberTexts<'t>, name: &str) -> Option<T> {
    serde_json::from_str(members.get(name)?.get()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::pods::object::WatchedPod;

    fn unreadable(object: &serde_json::Value) -> UnreadableObject<WatchedPod> {
        match read(&object.to_string()) {
            Reading::Unreadable(object) => object,
            Reading::Readable(pod) => panic!("{pod:?}"),
        }
    }

    #[test]
    fn unreadable_pod_keeps_its_names_node_and_phase() {
        let pod = unreadable(&json!({
            "metadata": {
                "name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"},
                "annotations": ["none"], "ownerReferences": 3,
            },
            "spec": {"nodeName": "n1", "containers": [{"resources": {"requests": {"cpu": "many"}}}]},
            "status": {"phase": "Running", "conditions": "none"},
        }));
        assert_eq!((pod.name.as_str(), pod.version.as_str()), ("n/p", "7"));
        let reduced = pod.reduced.unwrap();
        assert_eq!(reduced.metadata.uid.as_deref(), Some("u"));
        assert_eq!(reduced.metadata.labels.unwrap()["a"], "b");
        assert_eq!(reduced.spec.node_name.as_deref(), Some("n1"));
        assert_eq!(reduced.status.phase.as_deref(), Some("Running"));
    }

    #[test]
    fn object_without_a_name_has_no_reduced_form() {
        for object in [json!(5), json!({"metadata": {"name": 1}, "spec": 2})] {
            let object = unreadable(&object);
            assert!(object.reduced.is_none());
            assert_eq!(object.name, "(unnamed)");
        }
    }
}
