//! Requests of reviews for quotas of a tree and their pods.

use headroom_domain::names;
use serde_json::{Value, json};

use super::tree::{QuotaObject, Tree, name, namespace};

/// Creation of a quota with the same parent as the last one.
pub(super) fn created(tree: Tree) -> Value {
    request("CREATE", &tree.new_child(), None)
}

/// Update of the last quota with a lower `max`.
pub(super) fn changed(tree: Tree) -> Value {
    let old = tree.quota(tree.last());
    let mut new = old.clone();
    new.max /= 2;
    request("UPDATE", &new, Some(&old))
}

fn request(operation: &str, object: &QuotaObject, old: Option<&QuotaObject>) -> Value {
    let (group, version) = ("scheduling.sigs.k8s.io", "v1alpha1");
    json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800004",
        "kind": {"group": group, "version": version, "kind": "ElasticQuota"},
        "resource": {"group": group, "version": version, "resource": "elasticquotas"},
        "name": object.name,
        "namespace": object.namespace,
        "operation": operation,
        "object": if old.is_some() { object.stored() } else { object.written() },
        "oldObject": old.map(QuotaObject::stored),
    })
}

/// Creation of a Pod in the last quota.
pub(super) fn pod(tree: Tree) -> Value {
    let (quota, namespace) = (name(tree.last()), namespace(tree.last()));
    let asked = json!({"requests": {"cpu": "500m", "memory": "1Gi"}});
    let pod = json!({
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": "new",
            "namespace": namespace,
            "uid": "0c1c5e4e-8f0e-4b1c-9a53-1f6d6f0f9a02",
            "labels": {names::QUOTA_NAME: quota},
        },
        "spec": {"containers": [{"name": "main", "image": "registry.example.com/main:v1", "resources": asked}]},
    });
    json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800005",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": "new",
        "namespace": namespace,
        "operation": "CREATE",
        "object": pod,
        "oldObject": null,
    })
}
