//! Check of the brake: real load on all CPUs withdraws the free capacity within seconds, no pod is harmed, and the capacity returns
//! after the load.

use std::{
    thread::available_parallelism,
    time::{Duration, Instant},
};

use e2e::product::Product;
use headroom_testbed::real_node::pods;
use kube::api::DeleteParams;
use serde_json::Value;

use super::workload::Workload;

const BURNER: &str = "burner";
/// Free milli-cores before the load.
const FREE: u64 = 150;
/// Limit from the first burning second to the withdrawal. The agent brakes within a period of 1 s here.
const WITHDRAWN_WITHIN: Duration = Duration::from_secs(30);

pub(super) async fn load_withdraws_free_capacity_until_it_ends(product: &Product, workload: &Workload) {
    product
        .until_idle("the node has free capacity", async || {
            workload.free(product).await >= FREE
        })
        .await;
    let containers = workload.containers().await;
    let threads = available_parallelism().expect("a number").get();
    let burner =
        pods::burner(BURNER, u32::try_from(threads).expect("a number"), &Value::Null).expect("a pod");
    let before = workload.free(product).await;
    pods::run(&workload.pods, &burner).await.expect("run the load");
    let began = Instant::now();
    product
        .until("the free capacity is halved", async || {
            workload.free(product).await * 2 <= before
        })
        .await;
    let took = began.elapsed();
    println!("free capacity of {before}m is halved {took:?} after the load began");
    assert!(took <= WITHDRAWN_WITHIN, "{took:?}");
    product
        .until("all amplified capacity without a pod is withdrawn", async || {
            // Allocatable is a whole number of hundredths of raw.
            workload.free(product).await * 100 <= workload.raw
        })
        .await;
    assert_eq!(workload.containers().await, containers, "the load ends no pod");

    let at_once = DeleteParams::default().grace_period(0);
    workload
        .pods
        .delete(BURNER, &at_once)
        .await
        .expect("end the load");
    product
        .until_idle("free capacity returns", async || {
            workload.free(product).await >= FREE
        })
        .await;
    assert_eq!(workload.containers().await, containers);
}
