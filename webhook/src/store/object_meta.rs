//! Reads an object's metadata without fields that no store uses, such as managed fields: their nesting is as deep as
//! the object, and one that is too deep would make its whole list unreadable.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Deserializer};

/// Metadata fields that are read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReadMeta {
    annotations: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
    uid: Option<String>,
}

/// For `#[serde(deserialize_with)]`: name, namespace, UID, resource version, times, labels and annotations.
///
/// # Errors
/// One of those has another type than in Kubernetes.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(metadata: D) -> Result<ObjectMeta, D::Error> {
    let ReadMeta {
        annotations,
        creation_timestamp,
        deletion_timestamp,
        labels,
        name,
        namespace,
        resource_version,
        uid,
    } = ReadMeta::deserialize(metadata)?;
    Ok(ObjectMeta {
        annotations,
        creation_timestamp,
        deletion_timestamp,
        labels,
        name,
        namespace,
        resource_version,
        uid,
        ..ObjectMeta::default()
    })
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectList;

    use crate::store::{
        colocation::{namespaces::WatchedNamespace, profiles::WatchedProfile},
        kubelet_usage::NodeUse,
        node::object::WatchedNode,
        pods::object::WatchedPod,
        quota::{object::WatchedQuota, tree_nodes::WatchedTree},
        quota_pods::object::WatchedQuotaPod,
    };

    /// A list with an object whose manager owns a field so deep.
    fn list_with(depth: usize) -> String {
        let (opened, closed) = (r#"{"f:a":"#.repeat(depth), "}".repeat(depth));
        let fields = format!(r#"[{{"manager": "m", "fieldsV1": {opened}{{}}{closed}}}]"#);
        let metadata = format!(
            r#"{{"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {{"l": "1"}}, "managedFields": {fields}}}"#
        );
        format!(
            r#"{{"metadata": {{}}, "items": [{{"metadata": {metadata}}}, {{"metadata": {{"name": "b"}}}}]}}"#
        )
    }

    #[test]
    fn an_object_whose_fields_are_managed_however_deep_spoils_no_list() {
        let text = list_with(10_000);
        macro_rules! is_read {
            ($($watched:ty),*) => {$(
                let list: ObjectList<$watched> = serde_json::from_str(&text).expect(stringify!($watched));
                let [first, second] = &list.items[..] else {
                    panic!("{list:?}");
                };
                assert_eq!(second.metadata.name.as_deref(), Some("b"));
                let metadata = &first.metadata;
                assert_eq!((metadata.name.as_deref(), metadata.namespace.as_deref()), (Some("a"), Some("n")));
                assert_eq!((metadata.uid.as_deref(), metadata.resource_version.as_deref()), (Some("u"), Some("7")));
                assert_eq!(metadata.labels.as_ref().unwrap()["l"], "1");
                assert_eq!(metadata.managed_fields, None);
            )*};
        }
        is_read!(
            NodeUse,
            WatchedNamespace,
            WatchedNode,
            WatchedPod,
            WatchedProfile,
            WatchedQuota,
            WatchedQuotaPod,
            WatchedTree
        );
    }
}
