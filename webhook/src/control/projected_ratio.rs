//! Metric of the projected ratio under mode `auto`, by pool, so that a cluster can be observed before a change.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use headroom_domain::resource::{PerResource, Resource};
use tokio::{select, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{metrics::WOULD_RATIO, time_slices::Slices};
use crate::store::{
    cluster::{Cluster, projection::ProjectedAllocatable},
    node::Node,
};

/// Interval of the computation: the usual scrape interval of Prometheus, or half of it.
const COUNT_EVERY: Duration = Duration::from_secs(15);

/// The pool of all nodes where no label names pools.
const ALL: &str = "all";
/// The pool of nodes without the label.
const NONE: &str = "none";
/// Pool of the nodes whose label value exceeds the limit of distinct values.
const OTHER: &str = "other";

/// Node label that names the pool, and the limit of distinct values.
#[derive(Debug, Clone)]
pub struct PoolLabel {
    /// Key of the label; `None` for one pool of all.
    pub key: Option<String>,
    /// Values that have a series of their own.
    pub most: usize,
}

/// The pools that have a series. A value that is one stays one: its text is needed for as long as the process runs.
#[derive(Debug)]
struct Pools {
    label: PoolLabel,
    known: BTreeMap<String, &'static str>,
}

/// Sums over the nodes of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct PoolSums {
    raw: PerResource<f64>,
    projected: PerResource<f64>,
}

/// Counts until `stop` is cancelled.
pub async fn follow(cluster: Arc<Cluster>, label: PoolLabel, stop: CancellationToken) {
    let mut pools = Pools::new(label);
    let mut shown: BTreeMap<&'static str, PoolSums> = BTreeMap::new();
    loop {
        let sums = pools.count(&cluster).await;
        for pool in shown.into_keys().filter(|pool| !sums.contains_key(pool)) {
            PoolSums::default().show(pool);
        }
        for (pool, sums) in &sums {
            sums.show(pool);
        }
        shown = sums;
        select! {
            () = stop.cancelled() => return,
            () = sleep(COUNT_EVERY) => {}
        }
    }
}

impl Pools {
    const fn new(label: PoolLabel) -> Self {
        Self {
            label,
            known: BTreeMap::new(),
        }
    }

    async fn count(&mut self, cluster: &Cluster) -> BTreeMap<&'static str, PoolSums> {
        let now = cluster.now();
        let mut sums: BTreeMap<&'static str, PoolSums> = BTreeMap::new();
        let mut slices = Slices::begin();
        for node in cluster.nodes.all() {
            if let Some(projected) = cluster.projected_allocatable(&node, now) {
                let pool = self.pool(&node);
                sums.entry(pool).or_default().add(projected);
            }
            slices.rest().await;
        }
        sums
    }

    /// The name of a node's pool.
    fn pool(&mut self, node: &Node) -> &'static str {
        let Some(key) = &self.label.key else {
            return ALL;
        };
        let Some(value) = node.labels.get(key) else {
            return NONE;
        };
        if let Some(known) = self.known.get(value.as_str()) {
            return known;
        }
        if self.known.len() >= self.label.most {
            return OTHER;
        }
        // Labels of metrics live for ever; there are no more of these than the flag allows.
        let kept: &'static str = Box::leak(value.clone().into_boxed_str());
        self.known.insert(value.clone(), kept);
        kept
    }
}

impl PoolSums {
    fn add(&mut self, node: ProjectedAllocatable) {
        for resource in Resource::ALL {
            if let (Some(raw), Some(projected)) = (*node.raw.get(resource), *node.allocatable.get(resource)) {
                *self.raw.get_mut(resource) += float(raw);
                *self.projected.get_mut(resource) += float(projected);
            }
        }
    }

    /// Sets the series; NaN where nothing was added.
    fn show(&self, pool: &'static str) {
        for resource in Resource::ALL {
            let ratio = self.projected.get(resource) / self.raw.get(resource);
            WOULD_RATIO.with([pool, resource.name()]).set(ratio);
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a ratio of sums needs no more digits than an f64 has"
)]
fn float(amount: u64) -> f64 {
    amount as f64
}

#[cfg(test)]
mod tests {
    use headroom_domain::names;
    use serde_json::{Value, json};

    use super::*;
    use crate::store::{cluster::tests::cluster, hint_table::tests::hint, informer::Store as _};

    /// A node of 4 CPUs and 8Gi in that mode and pool.
    fn node(name: &str, mode: &str, pool: Option<&str>) -> Value {
        json!({
            "metadata": {
                "name": name, "uid": "u1", "resourceVersion": "3",
                "annotations": {names::MODE: mode}, "labels": pool.map(|pool| json!({"pool": pool})),
            },
            "status": {
                "capacity": {"cpu": "4", "memory": "8Gi"},
                "allocatable": {"cpu": "4", "memory": "8Gi"},
            },
        })
    }

    fn pools(most: usize) -> Pools {
        Pools::new(PoolLabel {
            key: Some("pool".to_owned()),
            most,
        })
    }

    /// The ratio of CPU by pool, in cents.
    async fn cents(pools: &mut Pools, cluster: &Cluster) -> BTreeMap<&'static str, i64> {
        let sums = pools.count(cluster).await;
        let ratio = |sums: &PoolSums| sums.projected.cpu * 100.0 / sums.raw.cpu;
        #[expect(clippy::cast_possible_truncation, reason = "ratios are small")]
        let cents = |(pool, sums): (&'static str, PoolSums)| (pool, ratio(&sums).round() as i64);
        sums.into_iter().map(cents).collect()
    }

    #[tokio::test]
    async fn nodes_in_off_and_static_with_an_agent_count_for_their_pool() {
        let nodes = [
            node("a", "off", Some("blue")),
            node("b", "static", Some("blue")),
            node("c", "auto", Some("blue")),
            node("d", "off", Some("red")),
            node("e", "off", None),
            node("f", "off", Some("red")),
        ];
        let cluster = cluster(nodes, []);
        for (name, published) in [("a", 130), ("b", 110), ("c", 190), ("d", 150), ("e", 104)] {
            let mut report = hint(name, 1);
            report.resources.cpu.published = headroom_domain::ratio::Cents(published);
            cluster.hints.offer(report, cluster.now());
        }
        let expected = BTreeMap::from([("blue", 120), ("none", 104), ("red", 150)]);
        assert_eq!(cents(&mut pools(10), &cluster).await, expected);
        let expected = BTreeMap::from([("blue", 120), ("none", 104), ("other", 150)]);
        let mut bounded = pools(1);
        assert_eq!(cents(&mut bounded, &cluster).await, expected);
        // A pool keeps its series; a pool without nodes has none.
        for name in ["a", "b"] {
            cluster
                .nodes
                .delete(serde_json::from_value(node(name, "off", None)).unwrap());
        }
        let expected = BTreeMap::from([("none", 104), ("other", 150)]);
        assert_eq!(cents(&mut bounded, &cluster).await, expected);
        let mut whole = Pools::new(PoolLabel { key: None, most: 1 });
        assert_eq!(cents(&mut whole, &cluster).await, BTreeMap::from([("all", 127)]));
    }
}
