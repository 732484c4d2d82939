//! Reads an object's metadata without fields that no store uses, such as managed fields: their nesting is as deep as
//! the object, and one that is too deep would make its whole list unreadable.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::{Deserialize, Deserializer};

/// Metadata fields that are read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReadMeta {
    annotations: Option<BTreeMap<String, String>>,
    #[serde(deserialize_with = "any_time")]
    creation_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    #[serde(deserialize_with = "any_time")]
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    name: Option<String>,
    namespace: Option<String>,
    owner_references: Option<Vec<OwnerReference>>,
    resource_version: Option<String>,
    uid: Option<String>,
}

/// For `#[serde(deserialize_with)]`: name, namespace, owners, UID, resource version, times, labels and annotations.
///
/// # Errors
/// One of those has another type than in Kubernetes.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(metadata: D) -> Result<ObjectMeta, D::Error> {
    let ReadMeta {
        annotations,
        creation_timestamp,
        deletion_grace_period_seconds,
        deletion_timestamp,
        labels,
        name,
        namespace,
        owner_references,
        resource_version,
        uid,
    } = ReadMeta::deserialize(metadata)?;
    Ok(ObjectMeta {
        annotations,
        creation_timestamp,
        deletion_grace_period_seconds,
        deletion_timestamp,
        labels,
        name,
        namespace,
        owner_references,
        resource_version,
        uid,
        ..ObjectMeta::default()
    })
}

/// Reads a time. One beyond the range of [`Timestamp`] becomes the last one: Go writes times of the year 10000, and a
/// user can create an object with such a deletion time.
fn any_time<'de, D: Deserializer<'de>>(time: D) -> Result<Option<Time>, D::Error> {
    let text = Option::<String>::deserialize(time)?;
    Ok(text.map(|text| Time(text.parse().unwrap_or(Timestamp::MAX))))
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectList;

    use crate::store::{
        colocation::{namespaces::WatchedNamespace, profiles::WatchedProfile},
        fluid::{
            claims::WatchedClaim,
            datasets::WatchedDataset,
            runtimes::{Cache, WatchedRuntime},
        },
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
    fn time_after_the_year_9999_is_a_time() {
        let metadata =
            r#"{"metadata": {"deletionTimestamp": "10000-01-01T11:59:59Z", "creationTimestamp": null}}"#;
        let pod: WatchedPod = serde_json::from_str(metadata).unwrap();
        assert!(pod.metadata.deletion_timestamp.is_some() && pod.metadata.creation_timestamp.is_none());
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
            WatchedTree,
            WatchedClaim,
            WatchedDataset,
            WatchedRuntime<Cache>
        );
    }
}
