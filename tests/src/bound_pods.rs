//! Pods bound to a Node without a scheduler: functions that bind, resize and delete them, and wait for the kubelet's
//! verdict.

use headroom_domain::names;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::stand::{Stand, until};

/// The pods of a namespace.
pub fn pods(stand: &Stand, namespace: &str) -> Api<Pod> {
    Api::namespaced(stand.client.clone(), namespace)
}

/// Pods of the tests' own namespace.
fn plain(stand: &Stand) -> Api<Pod> {
    pods(stand, names::AGENT_NAMESPACE)
}

/// Binds a pod to a node, as a scheduler does.
pub async fn bind(stand: &Stand, namespace: &str, account: &str, name: &str, node: &str, cpu: &str) {
    let object = json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "serviceAccountName": account,
            "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu}}}],
        },
    });
    let object = serde_json::from_value(object).expect("a Pod");
    let created = pods(stand, namespace)
        .create(&PostParams::default(), &object)
        .await;
    created.expect("create the pod");
}

/// Binds a pod of the tests' own namespace to n1.
pub async fn bind_to_n1(stand: &Stand, name: &str, cpu: &str) {
    let (namespace, account) = (names::AGENT_NAMESPACE, names::AGENT_SERVICE_ACCOUNT);
    bind(stand, namespace, account, name, "n1", cpu).await;
}

/// Deletes such a pod without a grace period.
pub async fn delete(stand: &Stand, name: &str) {
    let at_once = DeleteParams::default().grace_period(0);
    plain(stand).delete(name, &at_once).await.expect("delete the pod");
}

/// Resizes the CPU request of such a pod in place, through `pods/resize`; returns the pod's generation.
pub async fn resize(stand: &Stand, name: &str, cpu: &str) -> i64 {
    let patch = json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}});
    let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
    let resized = plain(stand)
        .patch_subresource("resize", name, &params, &patch)
        .await;
    resized
        .expect("resize the pod")
        .metadata
        .generation
        .expect("a generation")
}

/// The kubelet's reason for a pending resize of such a pod, if there is one.
pub async fn pending_resize(stand: &Stand, name: &str) -> Option<PodCondition> {
    let pod = plain(stand).get(name).await.expect("read the pod");
    let mut conditions = pod.status?.conditions?.into_iter();
    conditions.find(|condition| condition.type_ == "PodResizePending")
}

/// Phase and reason of such a pod.
pub async fn phase(stand: &Stand, name: &str) -> (String, String) {
    let pod = plain(stand).get(name).await.expect("read the pod");
    let PodStatus { phase, reason, .. } = pod.status.unwrap_or_default();
    (phase.unwrap_or_default(), reason.unwrap_or_default())
}

/// Name, phase and reason of all such pods.
pub async fn phases(stand: &Stand) -> Vec<(String, String, String)> {
    let all = plain(stand).list(&ListParams::default()).await;
    let all = all.expect("list the pods").items.into_iter();
    all.map(|pod| {
        let PodStatus { phase, reason, .. } = pod.status.clone().unwrap_or_default();
        (
            pod.name_any(),
            phase.unwrap_or_default(),
            reason.unwrap_or_default(),
        )
    })
    .collect()
}

/// Waits until all such pods run; fails if one was rejected.
pub async fn all_run(stand: &Stand, when: &str) {
    until(when, async || {
        let phases = phases(stand).await;
        assert!(
            phases.iter().all(|(_, phase, _)| phase != "Failed"),
            "{when}: {phases:?}"
        );
        phases.iter().all(|(_, phase, _)| phase == "Running")
    })
    .await;
}

/// Waits until the kubelet has rejected exactly one such pod for lack of CPU; returns its name.
pub async fn one_is_rejected(stand: &Stand) -> String {
    let mut turned_away = None;
    until("a pod is turned away", async || {
        let phases = phases(stand).await;
        let mut failed = phases.iter().filter(|(_, phase, _)| phase == "Failed");
        let first = failed.next();
        assert_eq!(failed.next(), None, "more than one: {phases:?}");
        if let Some((name, _, reason)) = first {
            assert_eq!(reason, "OutOfcpu", "{phases:?}");
            turned_away = Some(name.clone());
        }
        turned_away.is_some()
    })
    .await;
    turned_away.expect("one")
}
