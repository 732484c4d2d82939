//! Three days of made-up samples of two nodes for a Prometheus server; the right advice on them can be computed by
//! hand.

use crate::prometheus::Samples;

/// The end of the past, and of a frame.
pub const UNTIL: u64 = 1_700_000_100;
/// Its length.
pub const DAYS: u64 = 3;
const FROM: u64 = UNTIL - DAYS * 86_400;
/// Scrape intervals of nodes and of all else.
const NODES_EVERY: usize = 60;
const PODS_EVERY: usize = 120;
const GIB: f64 = 1_073_741_824.0;
/// Each node has this many pods that request 3 cores each.
const PODS: u32 = 10;

fn times(every: usize) -> impl Iterator<Item = u64> {
    // A counter's rate needs samples from before.
    (FROM - 600..=UNTIL).step_by(every)
}

fn seconds(at_s: u64) -> f64 {
    f64::from(u32::try_from(at_s - (FROM - 600)).expect("days"))
}

/// A node with 32 cores, 31.5 of them allocatable, whose pods use so many cores each.
fn node(samples: &mut Samples, name: &str, pool: &str, cores: f64) {
    let all = cores * f64::from(PODS) + 0.5;
    samples.series(
        &format!(r#"container_cpu_usage_seconds_total{{id="/",node="{name}"}}"#),
        times(NODES_EVERY).map(|at_s| (at_s, all * seconds(at_s))),
    );
    samples.series(
        &format!(r#"container_memory_working_set_bytes{{id="/",node="{name}"}}"#),
        times(NODES_EVERY).map(|at_s| (at_s, 24.0 * GIB)),
    );
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
        &format!(r#"kube_node_labels{{node="{name}",label_pool="{pool}"}}"#),
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

/// One pool with room, and one whose nodes use more than is safe.
pub fn past() -> Samples {
    let mut samples = Samples::default();
    node(&mut samples, "quiet-1", "blue", 1.0);
    node(&mut samples, "hot-1", "red", 2.8);
    samples
}
