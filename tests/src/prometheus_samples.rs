//! Three days of generated samples of two nodes for a Prometheus server; the correct advice on them can be computed
//! by hand.

use crate::prometheus::Samples;

/// End of the samples, and of a frame.
pub const UNTIL: u64 = 1_700_000_100;
pub const DAYS: u64 = 3;
const FROM: u64 = UNTIL - DAYS * 86_400;
/// Scrape intervals of nodes and of all other targets.
const NODES_EVERY: usize = 60;
const PODS_EVERY: usize = 120;
const GIB: f64 = 1_073_741_824.0;
/// Pods per node, each with a request of 3 cores.
const PODS: u32 = 10;

fn times(every: usize) -> impl Iterator<Item = u64> {
    // The rate of a counter needs earlier samples.
    (FROM - 600..=UNTIL).step_by(every)
}

fn seconds(at_s: u64) -> f64 {
    f64::from(u32::try_from(at_s - (FROM - 600)).expect("days"))
}

/// Exporter of the use of whole nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeUseSource {
    Cadvisor,
    /// node-exporter; its series are labelled with its pod.
    NodeExporter,
}

/// Use of a whole node: `cores`, and 24 GiB.
fn node_use(samples: &mut Samples, name: &str, cores: f64, source: NodeUseSource) {
    if source == NodeUseSource::Cadvisor {
        samples.series(
            &format!(r#"container_cpu_usage_seconds_total{{id="/",node="{name}"}}"#),
            times(NODES_EVERY).map(|at_s| (at_s, cores * seconds(at_s))),
        );
        samples.series(
            &format!(r#"container_memory_working_set_bytes{{id="/",node="{name}"}}"#),
            times(NODES_EVERY).map(|at_s| (at_s, 24.0 * GIB)),
        );
        return;
    }
    let pod = format!(r#"namespace="monitoring",pod="exporter-{name}""#);
    let exporter = format!(r#"{pod},job="node-exporter",instance="{name}:9100""#);
    // Two modes that count as use and two that do not.
    for (mode, cores) in [
        ("user", cores * 0.75),
        ("system", cores * 0.25),
        ("idle", 32.0 - cores),
        ("iowait", 0.5),
    ] {
        samples.series(
            &format!(r#"node_cpu_seconds_total{{{exporter},cpu="0",mode="{mode}"}}"#),
            times(NODES_EVERY).map(|at_s| (at_s, cores * seconds(at_s))),
        );
    }
    for (series, value) in [
        ("node_memory_MemTotal_bytes", 128.0 * GIB),
        ("node_memory_MemAvailable_bytes", 104.0 * GIB),
    ] {
        samples.series(
            &format!("{series}{{{exporter}}}"),
            times(NODES_EVERY).map(|at_s| (at_s, value)),
        );
    }
    // kube-state-metrics reports the same pod from two instances, as after its own restart.
    for instance in ["a", "b"] {
        samples.series(
            &format!(r#"kube_pod_info{{{pod},node="{name}",instance="{instance}"}}"#),
            times(PODS_EVERY).map(|at_s| (at_s, 1.0)),
        );
    }
}

/// A node with 32 cores, 31.5 of them allocatable, whose pods use `cores` each.
fn node(samples: &mut Samples, name: &str, pool: &str, cores: f64, source: NodeUseSource) {
    node_use(samples, name, cores * f64::from(PODS) + 0.5, source);
    for (series, labels, value) in [
        ("kube_node_status_capacity", r#"resource="cpu""#, 32.0),
        ("kube_node_status_allocatable", r#"resource="cpu""#, 31.5),
        ("kube_node_status_capacity", r#"resource="memory""#, 128.0 * GIB),
        (
            "kube_node_status_allocatable",
            r#"resource="memory""#,
            120.0 * GIB,
        ),
    ] {
        samples.series(
            &format!(r#"{series}{{node="{name}",{labels}}}"#),
            times(PODS_EVERY).map(|at_s| (at_s, value)),
        );
    }
    samples.series(
        &format!(r#"kube_node_labels{{node="{name}",label_pool="{pool}",label_node_kubernetes_io_instance_type="{pool}"}}"#),
        times(PODS_EVERY).map(|at_s| (at_s, 1.0)),
    );
    for number in 0..PODS {
        let pod = format!(r#"namespace="n",pod="{name}-{number}""#);
        let container = format!(r#"{pod},node="{name}",container="c""#);
        samples.series(
            &format!("container_cpu_usage_seconds_total{{{container}}}"),
            times(PODS_EVERY).map(|at_s| (at_s, cores * seconds(at_s))),
        );
        for memory in ["container_memory_working_set_bytes", "container_memory_rss"] {
            samples.series(
                &format!("{memory}{{{container}}}"),
                times(PODS_EVERY).map(|at_s| (at_s, 2.0 * GIB)),
            );
        }
        for (resource, request) in [("cpu", 3.0), ("memory", 4.0 * GIB)] {
            samples.series(
                &format!(r#"kube_pod_container_resource_requests{{{container},resource="{resource}"}}"#),
                times(PODS_EVERY).map(|at_s| (at_s, request)),
            );
        }
        samples.series(
            &format!(r#"kube_pod_status_phase{{{pod},phase="Running"}}"#),
            times(PODS_EVERY).map(|at_s| (at_s, 1.0)),
        );
    }
}

/// One pool with free capacity, and one whose nodes use more than is safe.
pub fn past() -> Samples {
    measured_by(NodeUseSource::Cadvisor)
}

/// The samples as kube-prometheus-stack stores them: no node-level series of cAdvisor, but a node-exporter on each
/// node.
pub fn past_of_kube_prometheus_stack() -> Samples {
    measured_by(NodeUseSource::NodeExporter)
}

fn measured_by(source: NodeUseSource) -> Samples {
    let mut samples = Samples::default();
    node(&mut samples, "quiet-1", "blue", 1.0, source);
    node(&mut samples, "hot-1", "red", 2.8, source);
    samples
}
