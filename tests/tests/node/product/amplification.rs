//! Check of amplification: idle pods raise allocatable, and a pod that fits only then is scheduled and runs.

use e2e::product::Product;
use headroom_domain::names;
use headroom_testbed::real_node::pods;
use k8s_openapi::api::core::v1::Pod;

use super::workload::{WAITING, WAITING_MILLI, Workload, cpu, requested};

pub(super) async fn pending_pod_runs_on_the_amplified_node(product: &Product, workload: &Workload) {
    workload.create_waiting().await;
    product
        .until("the scheduler finds no place on the raw node", async || {
            is_unschedulable(&workload.pods.get(WAITING).await.expect("read a pod"))
        })
        .await;
    assert_eq!(
        cpu(&product.stored_node().await),
        workload.raw,
        "no mode requests amplification"
    );

    product.annotate(names::MODE, "auto").await;
    let requested = requested(product).await + WAITING_MILLI;
    product
        .until_idle("a pod runs that fits only the amplified node", async || {
            let pod = workload.pods.get(WAITING).await.expect("read a pod");
            e2e::product::is_ready(&pod)
        })
        .await;
    pods::await_running(&workload.pods, WAITING)
        .await
        .expect("the pod runs");
    let allocatable = cpu(&product.stored_node().await);
    assert!(
        requested > workload.raw && allocatable >= requested,
        "{allocatable} of {requested}"
    );
}

fn is_unschedulable(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.reason.as_deref() == Some("Unschedulable"))
}
