//! Check of amplification: idle pods raise allocatable, a pod that fits only then is scheduled and runs, and a container without a limit
//! reads the amplified value from the downward API.

use e2e::product::Product;
use headroom_domain::names;
use headroom_testbed::real_node::pods;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, LogParams};
use serde_json::{Value, json};

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

pub(super) async fn container_without_limit_reads_the_amplified_value(
    product: &Product,
    workload: &Workload,
) {
    const READER: &str = "reader";
    let mut pod = pods::script(READER, "echo $CPU; sleep 1000000", &Value::Null).expect("a pod");
    let limit = json!([{
        "name": "CPU",
        "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}},
    }]);
    let containers = &mut pod.spec.as_mut().expect("a spec").containers;
    containers[0].env = Some(serde_json::from_value(limit).expect("a variable"));
    pods::run(&workload.pods, &pod).await.expect("run a pod");
    let mut read = String::new();
    product
        .until("the container prints its limit", async || {
            let text = workload.pods.logs(READER, &LogParams::default()).await;
            read = text.unwrap_or_default();
            !read.is_empty()
        })
        .await;
    let milli: u64 = read.trim().parse().expect("a number");
    assert!(milli > workload.raw, "{milli} of {}", workload.raw);
    let at_once = DeleteParams::default().grace_period(0);
    workload
        .pods
        .delete(READER, &at_once)
        .await
        .expect("delete the pod");
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
