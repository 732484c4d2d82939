//! Writes simulated nodes under raw Kubernetes as Prometheus samples, to test `kubectl headroom advise`.
//!
//! Its rows are the results of Headroom's estimator on the same use, which `advise` must reproduce from the samples.
//!
//! Samples are OpenMetrics text for `promtool tsdb create-blocks-from openmetrics`. Counters are those of cAdvisor,
//! all other series are those of kube-state-metrics; memory is constant. Use is constant within a frame, because the
//! simulator has only means of frames.

use std::{collections::BTreeMap, io::Write};

use anyhow::Result;
use headroom_domain::{estimate::FRAME_SECONDS, ratio::Cents};
use serde::Serialize;

use super::{
    closed::Run,
    convert::{long, real},
    node::Node,
    policy::{MeasuredSlack, Policy as _, RAW_KIND},
    source::DAY,
    synthetic::mean_use,
};

/// Start of the simulated past, in seconds since 1970: the start of a day.
pub const FROM_S: u64 = 1_699_488_000;
const FRAME_S: u64 = FRAME_SECONDS as u64;
/// Seconds of a frame at which nodes, pods and kube-state-metrics are scraped.
const NODES_AT: [u64; 5] = [30, 90, 150, 210, 270];
const PODS_AT: [u64; 2] = [75, 225];
const STATE_AT: u64 = 150;
/// Memory of a node in bytes: capacity, allocatable, use.
const MEMORY: (u64, u64, u64) = (128 << 30, 120 << 30, 24 << 30);
/// Frames between two evaluated decisions.
const DECISION: usize = 12;

/// Results of Headroom's policy for a pool of nodes, from the second day on.
#[derive(Debug, Clone, Serialize)]
pub(super) struct PoolRow {
    /// Pool: nodes whose services use the same share of their requests.
    pool: String,
    nodes: usize,
    /// Coefficient of variation of a pod's use within a frame in the estimator's input; 0 if the input is averages.
    cv: f64,
    frames: usize,
    ratio_p5_cents: u32,
    ratio_p50_cents: u32,
    ratio_p95_cents: u32,
    gained_ppm: u64,
    /// Frames with F above capacity.
    saturated_ppm: u64,
    /// Frames with F above capacity if pods with the same use per request had filled the added capacity.
    would_saturate_ppm: u64,
    /// Hourly decisions that were followed by a whole day.
    judged: u64,
    /// Decisions after which the present pods used more than predicted.
    missed_ppm: u64,
}

/// Counters of the nodes of a pool.
#[derive(Debug, Clone, Default)]
struct Tally {
    nodes: usize,
    ratios: Vec<u32>,
    raw: u64,
    gained: u64,
    saturated: u64,
    would_saturate: u64,
    judged: u64,
    missed: u64,
}

struct Scrapes<'w, W> {
    to: &'w mut W,
    node: String,
    pool: String,
    /// CPU time of the node before the frame, in milli-core seconds.
    used: u64,
    /// CPU time of each pod before the frame, in milli-core seconds.
    of_pods: BTreeMap<String, u64>,
}

fn pool(node: u32) -> String {
    format!("use-{:.0}", 100.0 * mean_use(node))
}

/// Writes the past of all nodes.
///
/// # Errors
/// If it cannot be written.
pub(super) fn write<W: Write>(run: &Run<'_>, to: &mut W) -> Result<()> {
    for number in 0..run.nodes {
        let mut scrapes = Scrapes {
            node: format!("sim-{number}"),
            pool: pool(number),
            used: 0,
            of_pods: BTreeMap::new(),
            to: &mut *to,
        };
        let mut result = Ok(());
        run.play(number, (RAW_KIND.build)(&run.settings).as_mut(), |node, _, _| {
            if result.is_ok() {
                result = scrapes.frame(node);
            }
        });
        result?;
    }
    writeln!(to, "# EOF")?;
    Ok(to.flush()?)
}

/// Results of Headroom's policy by pool.
pub(super) fn rows(run: &Run<'_>) -> Vec<PoolRow> {
    let mut pools: BTreeMap<String, Tally> = BTreeMap::new();
    for number in 0..run.nodes {
        let tally = pools.entry(pool(number)).or_default();
        tally.nodes += 1;
        let mut ours = MeasuredSlack::new(&run.settings);
        run.play(number, (RAW_KIND.build)(&run.settings).as_mut(), |node, _, _| {
            ours.allocatable(node);
            ours.end_frame(node);
            if node.now >= DAY {
                tally.record(node, &ours, run.frames);
            }
        });
    }
    let row = |(pool, tally): (String, Tally)| tally.row(pool, run.cv);
    pools.into_iter().map(row).collect()
}

impl<W: Write> Scrapes<'_, W> {
    /// Writes the samples of a frame.
    fn frame(&mut self, node: &Node) -> Result<()> {
        let start = FROM_S + node.index() * FRAME_S;
        let (name, used) = (self.node.clone(), node.used(node.now));
        for at in NODES_AT {
            let labels = format!("id=\"/\",node=\"{name}\"");
            self.counter(&labels, self.used + used * at, start + at)?;
        }
        self.used += used * FRAME_S;
        self.node_state(node, start + STATE_AT)?;
        for pod in node.pods() {
            let Some(used) = pod.used(node.now) else { continue };
            let of_pod = format!("namespace=\"sim\",pod=\"{name}-{}\"", pod.uid);
            let labels = format!("{of_pod},node=\"{name}\",container=\"main\"");
            let before = self.of_pods.get(&pod.uid).copied().unwrap_or(0);
            for at in PODS_AT {
                self.counter(&labels, before + used * at, start + at)?;
            }
            self.of_pods.insert(pod.uid.clone(), before + used * FRAME_S);
            let at = start + STATE_AT;
            let request = real(pod.request) / 1000.0;
            writeln!(
                self.to,
                "kube_pod_container_resource_requests{{{labels},resource=\"cpu\"}} {request} {at}"
            )?;
            writeln!(
                self.to,
                "kube_pod_status_phase{{{of_pod},phase=\"Running\"}} 1 {at}"
            )?;
        }
        Ok(())
    }

    fn counter(&mut self, labels: &str, milli_seconds: u64, at: u64) -> Result<()> {
        let seconds = real(milli_seconds) / 1000.0;
        Ok(writeln!(
            self.to,
            "container_cpu_usage_seconds_total{{{labels}}} {seconds} {at}"
        )?)
    }

    fn node_state(&mut self, node: &Node, at: u64) -> Result<()> {
        let Self {
            to, node: name, pool, ..
        } = self;
        let (capacity, allocatable, used) = MEMORY;
        let cores = |milli: u64| real(milli) / 1000.0;
        writeln!(
            to,
            "container_memory_working_set_bytes{{id=\"/\",node=\"{name}\"}} {used} {at}"
        )?;
        for (series, cpu, memory) in [
            ("capacity", node.machine.capacity, capacity),
            ("allocatable", node.machine.raw, allocatable),
        ] {
            let series = format!("kube_node_status_{series}{{node=\"{name}\",resource=");
            writeln!(to, "{series}\"cpu\"}} {} {at}", cores(cpu))?;
            writeln!(to, "{series}\"memory\"}} {memory} {at}")?;
        }
        Ok(writeln!(
            to,
            "kube_node_labels{{node=\"{name}\",label_pool=\"{pool}\"}} 1 {at}"
        )?)
    }
}

impl Tally {
    /// Adds the frame that has just run.
    fn record(&mut self, node: &Node, ours: &MeasuredSlack, frames: usize) {
        let estimate = ours.estimate();
        let Cents(cents) = estimate.published;
        let (raw, capacity) = (node.machine.raw, node.machine.capacity);
        let gained = raw * u64::from(cents.saturating_sub(Cents::ONE.0)) / 100;
        let (peak, bound) = (node.peak(node.now), node.bound().max(1));
        self.ratios.push(cents);
        self.raw += raw;
        self.gained += gained;
        self.saturated += u64::from(peak > capacity);
        self.would_saturate += u64::from(peak * (bound + gained) / bound > capacity);
        if node.now.is_multiple_of(DECISION) && estimate.published > Cents::ONE && node.now + DAY < frames {
            let most = (node.now + 1..=node.now + DAY)
                .map(|frame| node.peak(frame))
                .max();
            self.judged += 1;
            self.missed += u64::from(most.unwrap_or(0) > estimate.slack.predicted_peak);
        }
    }

    fn row(mut self, pool: String, cv: f64) -> PoolRow {
        self.ratios.sort_unstable();
        let percentile = |percent: usize| {
            let rank = (self.ratios.len() * percent).div_ceil(100).max(1);
            self.ratios.get(rank - 1).copied().unwrap_or_default()
        };
        let ppm = |part: u64, whole: u64| part * 1_000_000 / whole.max(1);
        let frames = long(self.ratios.len());
        PoolRow {
            pool,
            nodes: self.nodes,
            cv,
            frames: self.ratios.len(),
            ratio_p5_cents: percentile(5),
            ratio_p50_cents: percentile(50),
            ratio_p95_cents: percentile(95),
            gained_ppm: ppm(self.gained, self.raw),
            saturated_ppm: ppm(self.saturated, frames),
            would_saturate_ppm: ppm(self.would_saturate, frames),
            judged: self.judged,
            missed_ppm: ppm(self.missed, self.judged),
        }
    }
}
