//! Check of kubelet restarts on a node whose pods request more than raw allocatable: no pod is rejected or restarted, whether the
//! webhook is up, hung or gone.

use e2e::{etcd::History, product::Product};
use headroom_domain::{names, resource::Resource};
use headroom_testbed::real_node::pods;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::workload::{Workload, cpu, requested};

pub(super) async fn restarted_kubelet_keeps_all_pods(product: &mut Product, workload: &Workload) {
    let mut history = History::follow(&product.cluster).await;
    restart(product, workload, &mut history, "up").await;

    let process = product.webhook().await;
    product.process(&process).signal("STOP");
    restart(product, workload, &mut history, "hung").await;
    product.process(&process).signal("CONT");
    product.await_ready().await;

    scale_webhook(product, 0).await;
    product
        .until("the webhook is gone", async || {
            product.list(names::NAMESPACE).await.is_empty()
        })
        .await;
    restart(product, workload, &mut history, "gone").await;
    scale_webhook(product, 1).await;
    product.await_ready().await;
    product
        .status_until("the agent reports to the new webhook", |status| {
            status.streams.iter().any(|stream| stream.last_ack.is_some())
        })
        .await;
}

async fn restart(product: &mut Product, workload: &Workload, history: &mut History, webhook: &str) {
    let requested = requested(product).await;
    assert!(requested > workload.raw, "{requested} of {}", workload.raw);
    let containers = workload.containers().await;
    product.node.restart_kubelet().await.expect("restart the kubelet");
    // The kubelet admits it after all pods that ran before.
    let name = format!("webhook-{webhook}");
    let pod = pods::idle(&name, &Value::Null).expect("a pod");
    pods::run(&workload.pods, &pod).await.expect("run another pod");
    assert_eq!(
        workload.containers().await,
        containers,
        "the webhook is {webhook}"
    );
    let lowest = history.new_revisions_of(product.node.name()).await;
    let lowest = lowest.iter().map(|revision| revision.amount(Resource::Cpu)).min();
    assert!(
        lowest.is_none_or(|lowest| lowest >= requested),
        "the webhook is {webhook}: {lowest:?}"
    );
    assert!(cpu(&product.stored_node().await) >= requested);
    let at_once = DeleteParams::default().grace_period(0);
    workload
        .pods
        .delete(&name, &at_once)
        .await
        .expect("delete the pod");
}

async fn scale_webhook(product: &Product, replicas: u32) {
    let deployments: Api<Deployment> = Api::namespaced(product.client.clone(), names::NAMESPACE);
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    let scaled = deployments
        .patch(names::WEBHOOK_SERVICE, &PatchParams::default(), &patch)
        .await;
    scaled.expect("scale the webhook");
}
