//! [`FullNode`] is the product on a node whose pods request more than raw allocatable, and all states of its Node since.

use std::ops::RangeInclusive;

use e2e::{
    etcd::{History, course},
    product::{Changes, Product, ProductOptions, is_ready},
};
use headroom_domain::{names, resource::Resource};
use headroom_testbed::real_node::pods;
use kube::api::PostParams;
use serde_json::json;

use super::containers::{self, Container};
use crate::product::workload::{cpu, requested};

/// Milli-cores of raw allocatable that the first pod leaves.
const LEFT: u64 = 50;
/// Milli-cores above raw allocatable that the pods request. Small, so that a node on which other processes use a CPU is amplified
/// enough.
const ABOVE_RAW: u64 = 60;
/// Highest ratio, in hundredths.
const HIGHEST: u64 = 120;
const PODS: [&str; 2] = ["first", "second"];

pub(super) struct FullNode {
    pub(super) product: Product,
    /// Milli-cores.
    pub(super) raw: u64,
    history: History,
}

impl FullNode {
    /// A node whose ratio is annotated: allocatable does not depend on load.
    pub(super) async fn annotated() -> Self {
        Self::start(
            names::RATIO,
            &format!(r#"{{"cpu":{}.{:02}}}"#, HIGHEST / 100, HIGHEST % 100),
        )
        .await
    }

    /// A node whose ratio follows its agent.
    pub(super) async fn measured() -> Self {
        Self::start(names::MODE, "auto").await
    }

    async fn start(annotation: &str, value: &str) -> Self {
        let configuration = format!(
            "amplification: {{bounds: {{cpu: {{max: {}.{:02}}}}}}}\n",
            HIGHEST / 100,
            HIGHEST % 100
        );
        let product = Product::start(ProductOptions {
            changes: Changes {
                configuration: Some(configuration),
                ..Changes::default()
            },
            ..ProductOptions::default()
        })
        .await;
        let raw = cpu(&product.stored_node().await);
        let history = History::follow(&product.cluster).await;
        let mut node = Self {
            product,
            raw,
            history,
        };
        node.fill(PODS[0], raw - LEFT).await;
        node.product.annotate(annotation, value).await;
        node.fill(PODS[1], raw + ABOVE_RAW).await;
        node.amounts().await;
        node
    }

    /// Runs an idle pod that requests all of this total that other pods leave.
    async fn fill(&self, name: &str, total: u64) {
        let request = total - requested(&self.product).await;
        let pod = pods::idle(name, &json!({"requests": {"cpu": format!("{request}m")}})).expect("a pod");
        let pods = self.product.pods();
        pods.create(&PostParams::default(), &pod)
            .await
            .expect("create a pod");
        self.product
            .until_idle("the pod runs", async || {
                is_ready(&pods.get(name).await.expect("read a pod"))
            })
            .await;
    }

    /// Waits until the node has this number of free milli-cores.
    pub(super) async fn await_free(&self, milli: u64) {
        self.product
            .until_idle("the node has free capacity", async || self.free().await >= milli)
            .await;
    }

    /// Free milli-cores of the node.
    pub(super) async fn free(&self) -> u64 {
        let allocatable = cpu(&self.product.stored_node().await);
        allocatable.saturating_sub(requested(&self.product).await)
    }

    /// Amounts of allocatable CPU since the last call, one for each change.
    pub(super) async fn amounts(&mut self) -> Vec<u64> {
        let states = self.history.new_revisions_of(self.product.node.name()).await;
        course(&states, Resource::Cpu)
    }

    /// Amounts since the last call, which cover the requests of pods and do not exceed the bound.
    pub(super) async fn amounts_within_bounds(&mut self) -> Vec<u64> {
        let amounts = self.amounts().await;
        let allowed = self.allowed();
        assert!(
            amounts.iter().all(|amount| allowed.contains(amount)),
            "{amounts:?} in {allowed:?}"
        );
        amounts
    }

    fn allowed(&self) -> RangeInclusive<u64> {
        self.raw + ABOVE_RAW..=self.raw * HIGHEST / 100
    }

    /// The pods that request the capacity. All of them run.
    pub(super) async fn containers(&self) -> Vec<Container> {
        containers::read(&self.product.pods(), &PODS).await
    }
}

/// Fails if an amount is above the one before it.
#[track_caller]
pub(super) fn assert_no_rise(amounts: &[u64]) {
    assert!(
        amounts.is_sorted_by(|before, after| after <= before),
        "{amounts:?} rises"
    );
}
