//! [`Workload`] is idle pods that request nearly all of raw allocatable, and one that fits only the amplified node.

use e2e::product::Product;
use headroom_domain::{capacity::amount, quantity::Quantity, resource::Resource};
use headroom_testbed::real_node::pods;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, PostParams},
};
use serde_json::json;

/// Milli-cores of raw allocatable that the idle pods leave.
const LEFT: u64 = 150;
/// Request of the pod that does not fit into them. Small, so that a node on which other processes use a CPU is amplified enough.
pub(super) const WAITING_MILLI: u64 = 300;
pub(super) const WAITING: &str = "waiting";
const IDLE: [&str; 2] = ["idle-0", "idle-1"];

/// The pods, and the Node's raw allocatable.
pub(super) struct Workload {
    /// Milli-cores.
    pub(super) raw: u64,
    pub(super) pods: Api<Pod>,
}

/// Identity of a pod's container, and number of its restarts.
type ContainerIdentity = (String, String, i32);

impl Workload {
    /// Runs the idle pods.
    pub(super) async fn start(product: &Product) -> Self {
        let workload = Self {
            raw: cpu(&product.stored_node().await),
            pods: product.pods(),
        };
        let request = (workload.raw - requested(product).await - LEFT) / 2;
        for name in IDLE {
            let pod = pods::idle(name, &json!({"requests": {"cpu": format!("{request}m")}})).expect("a pod");
            pods::run(&workload.pods, &pod).await.expect("run a pod");
        }
        workload
    }

    /// Creates a pod that waits until the node is amplified.
    pub(super) async fn create_waiting(&self) {
        let requests = json!({"requests": {"cpu": format!("{WAITING_MILLI}m")}});
        let pod = pods::idle(WAITING, &requests).expect("a pod");
        self.pods
            .create(&PostParams::default(), &pod)
            .await
            .expect("create a pod");
    }

    /// Free capacity of the node, in milli-cores.
    pub(super) async fn free(&self, product: &Product) -> u64 {
        cpu(&product.stored_node().await).saturating_sub(requested(product).await)
    }

    /// Containers of the workload. All pods must run.
    pub(super) async fn containers(&self) -> Vec<ContainerIdentity> {
        let pods = self
            .pods
            .list(&ListParams::default())
            .await
            .expect("list pods")
            .items;
        let ours = pods
            .iter()
            .filter(|pod| pod.name_any() == WAITING || IDLE.contains(&pod.name_any().as_str()));
        let container = |pod: &Pod| {
            let status = pod.status.clone().expect("a status");
            assert_eq!(
                status.phase.as_deref(),
                Some("Running"),
                "{}: {status:#?}",
                pod.name_any()
            );
            let container = status.container_statuses.expect("containers").remove(0);
            (
                pod.name_any(),
                container.container_id.expect("an identity"),
                container.restart_count,
            )
        };
        ours.map(container).collect()
    }
}

/// Milli-cores that all pods on the node request.
pub(crate) async fn requested(product: &Product) -> u64 {
    let pods: Api<Pod> = Api::all(product.client.clone());
    let pods = pods.list(&ListParams::default()).await.expect("list pods").items;
    let bound = pods
        .iter()
        .filter_map(|pod| pod.spec.as_ref())
        .filter(|spec| spec.node_name.is_some());
    let containers = bound.flat_map(|spec| &spec.containers);
    let requests = containers.filter_map(|container| {
        let requests = container.resources.as_ref()?.requests.as_ref()?;
        Some(milli(&requests.get("cpu")?.0))
    });
    requests.sum()
}

/// Allocatable CPU in milli-cores.
pub(crate) fn cpu(node: &Node) -> u64 {
    let allocatable = node
        .status
        .as_ref()
        .and_then(|status| status.allocatable.as_ref());
    milli(&allocatable.expect("allocatable")["cpu"].0)
}

fn milli(text: &str) -> u64 {
    let quantity: Quantity = text.parse().expect("a quantity");
    amount(Resource::Cpu, &quantity).expect("an amount")
}
