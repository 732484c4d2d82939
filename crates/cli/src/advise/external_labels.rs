//! Finds nodes that exist in several clusters: one name with several values of an external label, such as `cluster`.

use std::collections::{BTreeMap, BTreeSet};

use super::{error::AdviceError, series::Series, slots::NODE_LABEL};

/// Selector of series with all their labels, one per node and source. Its metric is that of `node-cpu-capacity`.
pub const NODE_SERIES: &str = r#"kube_node_status_capacity{resource="cpu"}"#;

/// Labels of the metric and of a scrape target. Two instances of kube-state-metrics in one cluster differ in them.
const OF_ONE_CLUSTER: [&str; 25] = [
    "__name__",
    "app",
    "chart",
    "component",
    "container",
    "controller_revision_hash",
    "endpoint",
    "heritage",
    "instance",
    "job",
    "kubernetes_name",
    "kubernetes_namespace",
    "kubernetes_node",
    "kubernetes_pod_name",
    "monitor",
    "namespace",
    "node",
    "pod",
    "prometheus",
    "receive",
    "release",
    "resource",
    "service",
    "uid",
    "unit",
];
/// Prefixes of such labels: those of Services and Pods, and those that the metric had before the scrape.
const PREFIXES_OF_ONE_CLUSTER: [&str; 5] = ["app_kubernetes_io_", "exported_", "helm_sh_", "label_", "pod_"];

/// Checks that no node has several values of an external label at one time.
///
/// # Errors
/// [`AdviceError::SeveralClusters`] for the first such node.
pub fn check_clusters(series: &[Series]) -> Result<(), AdviceError> {
    let mut values: BTreeMap<(&str, &str, u64), BTreeSet<&str>> = BTreeMap::new();
    for Series { labels, samples } in series {
        let Some(node) = labels.get(NODE_LABEL) else {
            continue;
        };
        for (label, value) in labels.iter().filter(|(label, _)| is_external(label)) {
            for (at_s, _) in samples {
                values.entry((node, label, *at_s)).or_default().insert(value);
            }
        }
    }
    let clash = values.into_iter().find(|(_, values)| values.len() > 1);
    let Some(((node, label, _), values)) = clash else {
        return Ok(());
    };
    Err(AdviceError::SeveralClusters {
        node: node.to_owned(),
        label: label.to_owned(),
        values: values.into_iter().map(ToOwned::to_owned).collect(),
    })
}

fn is_external(label: &str) -> bool {
    // Replicas of a Prometheus server scrape the same nodes.
    let is_of_replica = label.contains("replica");
    let has_prefix = PREFIXES_OF_ONE_CLUSTER
        .iter()
        .any(|prefix| label.starts_with(prefix));
    !is_of_replica && !has_prefix && !OF_ONE_CLUSTER.contains(&label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(labels: &[(&str, &str)], times: &[u64]) -> Series {
        let labels = labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Series {
            labels: labels.collect(),
            samples: times.iter().map(|at_s| (*at_s, 1)).collect(),
        }
    }

    #[test]
    fn a_node_in_two_clusters_is_refused_with_label_and_values() {
        let all = [
            series(&[("node", "a"), ("cluster", "x")], &[60, 120]),
            series(&[("node", "a"), ("cluster", "y")], &[120]),
            series(&[("node", "a"), ("cluster", "z")], &[180]),
        ];
        let error = check_clusters(&all).unwrap_err().to_string();
        assert_eq!(
            error,
            "node \"a\" has series of several clusters: label cluster is \"x\" and \"y\"; choose one with --selector cluster=x"
        );
    }

    #[test]
    fn nodes_of_different_names_times_or_targets_are_of_one_cluster() {
        let all = [
            series(
                &[
                    ("node", "a"),
                    ("region", "x"),
                    ("instance", "i"),
                    ("prometheus_replica", "0"),
                ],
                &[60],
            ),
            series(
                &[
                    ("node", "a"),
                    ("region", "x"),
                    ("instance", "j"),
                    ("prometheus_replica", "1"),
                ],
                &[60],
            ),
            series(
                &[("node", "a"), ("region", "x"), ("app_kubernetes_io_version", "2")],
                &[60],
            ),
            series(&[("node", "a")], &[60]),
            series(&[("node", "a"), ("region", "y")], &[120]),
            series(&[("node", "b"), ("region", "y")], &[60]),
            series(&[("region", "z")], &[60]),
        ];
        check_clusters(&all).unwrap();
    }
}
