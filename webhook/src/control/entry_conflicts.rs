//! Counts the Nodes that several entries of one key in Koordinator's ConfigMap select, for a metric and the log.
//!
//! Admission refuses to make such a Node, but not at its creation, not while no replica answers, and not when the
//! ConfigMap changes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use headroom_rules::{slo::strategies::Strategies, switch::Switches};
use tokio::{select, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::metrics::CONFLICTING_NODES;
use crate::store::{cluster::Cluster, node::Node};

/// Minimum time between two counts, which bounds their cost under frequent changes of Nodes.
const COUNT_EVERY: Duration = Duration::from_secs(5);

/// Of each key, how many Nodes are in conflict, and the first of them by name.
type Counts = BTreeMap<&'static str, (usize, String)>;

/// Counts after each change of Nodes or entries, until `stop` is cancelled. `switches` are those in force.
pub async fn detect(cluster: Arc<Cluster>, switches: impl Fn() -> Switches + Send, stop: CancellationToken) {
    let (mut changes, mut strategies) = (cluster.changes.follow_all(), cluster.policies.strategies());
    let mut told = Counts::new();
    loop {
        changes.mark_unchanged();
        let current = Arc::clone(&strategies.borrow_and_update());
        let found = count(&current, &switches(), &cluster.nodes.all());
        log_changes(&told, &found);
        told = found;
        select! {
            () = stop.cancelled() => return,
            () = sleep(COUNT_EVERY) => {}
        }
        // The senders live in the cluster that we hold.
        select! {
            () = stop.cancelled() => return,
            _changed = changes.changed(), if !current.is_empty() => {}
            _changed = strategies.changed() => {}
        }
    }
}

fn count(strategies: &Strategies, switches: &Switches, nodes: &[Arc<Node>]) -> Counts {
    let mut counts = Counts::new();
    if strategies.is_empty() {
        return counts;
    }
    for node in nodes {
        for conflict in strategies.conflicts(&node.labels, switches) {
            let (number, _first) = counts
                .entry(conflict.key)
                .or_insert_with(|| (0, node.name.clone()));
            *number += 1;
        }
    }
    counts
}

fn log_changes(before: &Counts, now: &Counts) {
    for key in Strategies::keys() {
        let (was, is) = (before.get(key), now.get(key));
        let number = is.map_or(0, |(number, _)| *number);
        // No cluster has more nodes than `u32::MAX`.
        let shown = u32::try_from(number).unwrap_or(u32::MAX);
        CONFLICTING_NODES.with([key]).set(f64::from(shown));
        match (was, is) {
            (was, Some((nodes, example))) if was != is => warn!(
                config = key,
                nodes, example, "several entries select the same nodes; the first entry applies"
            ),
            (Some(_), None) => info!(config = key, "each node is selected by at most one entry again"),
            (Some(_) | None, Some(_)) | (None, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use headroom_domain::names;
    use serde_json::json;

    use super::*;
    use crate::store::cluster::tests::{cluster, node};

    #[test]
    fn nodes_are_counted_by_key_with_an_example() {
        let labelled = |name: &str, labels: serde_json::Value| {
            let mut node = node(1, "4", &json!({}));
            node["metadata"]["name"] = name.into();
            node["metadata"]["labels"] = labels;
            node
        };
        let cluster = cluster(
            [
                labelled("n3", json!({"a": "1", "b": "1"})),
                labelled("n2", json!({"a": "1", "b": "1", "c": "1"})),
                labelled("n1", json!({"a": "1"})),
            ],
            [],
        );
        let entry = |key: &str| json!({"nodeSelector": {"matchLabels": {key: "1"}}});
        let text = |first, second| json!({"nodeStrategies": [entry(first), entry(second)]}).to_string();
        let strategies = Strategies::read(&BTreeMap::from([
            (names::SYSTEM_CONFIG.to_owned(), text("a", "b")),
            (names::CPU_BURST_CONFIG.to_owned(), text("b", "c")),
        ]));
        let expected = Counts::from([
            (names::SYSTEM_CONFIG, (2, "n2".to_owned())),
            (names::CPU_BURST_CONFIG, (1, "n2".to_owned())),
        ]);
        let switches = Switches::default();
        let count = |strategies| count(strategies, &switches, &cluster.nodes.all());
        assert_eq!(count(&strategies), expected);
        assert_eq!(count(&Strategies::default()), Counts::new());
    }
}
