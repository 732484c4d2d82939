//! Pods of a node without containers: sets bound pods to Running, and removes pods with a deletion timestamp.

use std::pin::pin;

use anyhow::{Context as _, Result};
use futures::TryStreamExt as _;
use k8s_openapi::{
    api::core::v1::{Pod, PodSpec},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, Preconditions},
    runtime::watcher::{self, Event, watcher},
};
use serde_json::{Value, json};

/// Conditions of a running pod. The scheduler has set `PodScheduled`.
const CONDITIONS: [&str; 4] = [
    "PodReadyToStartContainers",
    "Initialized",
    "ContainersReady",
    "Ready",
];

/// Watches the node's pods until an error.
pub(super) async fn follow(client: &Client, node: &str) -> Result<()> {
    let own = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
    let mut events = pin!(watcher(Api::<Pod>::all(client.clone()), own));
    while let Some(event) = events.try_next().await.context("watch pods")? {
        match event {
            Event::Apply(pod) | Event::InitApply(pod) => update(client, &pod)
                .await
                .with_context(|| format!("update pod {}", pod.name_any()))?,
            Event::Delete(_) | Event::Init | Event::InitDone => {}
        }
    }
    Ok(())
}

async fn update(client: &Client, pod: &Pod) -> kube::Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let name = pod.name_any();
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if pod.metadata.deletion_timestamp.is_some() {
        let only_this = Preconditions {
            uid: pod.uid(),
            ..Preconditions::default()
        };
        let now = DeleteParams::default().grace_period(0).preconditions(only_this);
        pods.delete(&name, &now).await?;
    } else if let (Some("Pending"), Some(spec)) = (phase, &pod.spec) {
        let patch = json!({ "status": running(spec, &Time(Timestamp::now())) });
        pods.patch_status(&name, &super::as_kubelet(), &Patch::Strategic(patch))
            .await?;
    }
    Ok(())
}

fn running(spec: &PodSpec, now: &Time) -> Value {
    let containers = spec.containers.iter().map(|container| {
        json!({
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "restartCount": 0,
            "started": true,
            "ready": true,
            "state": {"running": {"startedAt": now}},
        })
    });
    json!({
        "phase": "Running",
        "startTime": now,
        "conditions": CONDITIONS.map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": now})),
        "containerStatuses": containers.collect::<Vec<_>>(),
    })
}
