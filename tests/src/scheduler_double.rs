//! [`SchedulerDouble`] writes like Koordinator's scheduler without its logic: it binds each pod that names it to one
//! node, and updates the used amounts of each quota every second.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use headroom_domain::names;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Error, ResourceExt as _,
    api::{DynamicObject, ListParams, Patch, PatchParams},
    core::Status,
};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

use crate::{custom_kinds::QUOTAS, stand::Stand};

/// Interval between searches for pods.
const BINDS_EVERY: Duration = Duration::from_millis(100);
/// Interval between writes of each quota.
const WRITES_EVERY: Duration = Duration::from_secs(1);

/// A scheduler with a user's credential; ended on drop.
#[derive(Debug)]
pub struct SchedulerDouble {
    counts: Arc<Counts>,
    _binding: AbortOnDropHandle<()>,
    _writing: AbortOnDropHandle<()>,
}

#[derive(Debug, Default)]
struct Counts {
    bound: AtomicU64,
    refused: AtomicU64,
    quota_writes: AtomicU64,
}

impl SchedulerDouble {
    /// Starts the scheduler as `user`. Pods with scheduler name `name` are bound to `node`; quotas are those of
    /// `namespace`, if the API server has the kind.
    pub async fn start(stand: &Stand, user: &str, name: &str, node: &str, namespace: &str) -> Self {
        let client = stand.cluster.client_for(user, Some("system:masters")).await;
        let client = client.expect("a client");
        let counts = Arc::<Counts>::default();
        let binding = bind_all(
            client.clone(),
            name.to_owned(),
            node.to_owned(),
            Arc::clone(&counts),
        );
        let quotas = Api::namespaced_with(client, namespace, &QUOTAS.resource());
        let writing = write_quotas(quotas, Arc::clone(&counts));
        Self {
            counts,
            _binding: AbortOnDropHandle::new(tokio::spawn(binding)),
            _writing: AbortOnDropHandle::new(tokio::spawn(writing)),
        }
    }

    pub fn bound(&self) -> u64 {
        self.counts.bound.load(Ordering::Relaxed)
    }

    pub fn refused(&self) -> u64 {
        self.counts.refused.load(Ordering::Relaxed)
    }

    pub fn quota_writes(&self) -> u64 {
        self.counts.quota_writes.load(Ordering::Relaxed)
    }
}

/// Binds a pod to a node, as a scheduler does.
///
/// # Errors
/// If the API server refuses or does not answer.
pub async fn bind(client: &Client, namespace: &str, name: &str, node: &str) -> Result<Status, Error> {
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(binding.to_string().into_bytes())
        .expect("a request");
    client.request(request).await
}

/// Repeatedly binds all pods that wait for this scheduler.
async fn bind_all(client: Client, scheduler: String, node: String, counts: Arc<Counts>) {
    let pods: Api<Pod> = Api::all(client.clone());
    let waiting = ListParams::default().fields(&format!("spec.nodeName=,spec.schedulerName={scheduler}"));
    let mut ticks = interval(BINDS_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // The API server ends with its test.
        let Ok(listed) = pods.list(&waiting).await else {
            continue;
        };
        for pod in listed {
            let namespace = pod.namespace().expect("a namespace");
            match bind(&client, &namespace, &pod.name_any(), &node).await {
                Ok(_) => counts.bound.fetch_add(1, Ordering::Relaxed),
                Err(Error::Api(status)) if status.code == 403 => {
                    counts.refused.fetch_add(1, Ordering::Relaxed)
                }
                Err(_) => 0,
            };
        }
    }
}

/// Repeatedly writes annotation and status of each quota, whatever is stored.
async fn write_quotas(quotas: Api<DynamicObject>, counts: Arc<Counts>) {
    let mut ticks = interval(WRITES_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0_u64.. {
        ticks.tick().await;
        let Ok(listed) = quotas.list(&ListParams::default()).await else {
            continue;
        };
        let used = json!({"cpu": number.to_string()});
        let annotations = json!({names::QUOTA_CHILD_REQUEST: used.to_string()});
        for quota in listed {
            let name = quota.name_any();
            let params = PatchParams::default();
            let patch: Patch<Value> = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
            let annotated = quotas.patch(&name, &params, &patch).await;
            let patch: Patch<Value> = Patch::Merge(json!({"status": {"used": used}}));
            let told = quotas.patch_status(&name, &params, &patch).await;
            let passed = u64::from(annotated.is_ok()) + u64::from(told.is_ok());
            counts.quota_writes.fetch_add(passed, Ordering::Relaxed);
        }
    }
}
