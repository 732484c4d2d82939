//! `bench node-storm`: the load of amplified nodes on API server and etcd, and their recovery from webhook failures.
//!
//! Half of the nodes are amplified while the other half is not: same control plane, same machine, same minutes, so that
//! a disturbance of one half disturbs the other. All kubelets are real code and report an unchanged status as often as
//! heartbeats of amplified nodes are let through, so writes of the two halves compare like with like. The floor
//! policies are not installed: nodes are to fall to raw when the webhook is away. Then all nodes are amplified, and the
//! webhook is killed, asked for many changes, and frozen.

mod testbed;

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Result, ensure};
use clap::{Args, FromArgMatches as _};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use tokio::runtime::Runtime;
use xtask::terminal::{print, span};

use self::testbed::StormTestbed;
use super::{
    audit::{Entry, What},
    criterion::Criterion,
    declaration::{BenchResult, Row},
    percentile,
    revisions::Revision,
};

/// How long the heartbeat of an amplified node may stay unwritten, and how often the others report.
const INTERVAL: Duration = Duration::from_secs(30);
/// Intervals that are counted: a little longer each, as kubelets write at the first sync after it.
const INTERVALS: u32 = 10;
const COUNTED_EACH: Duration = Duration::from_secs(31);
/// Intervals before that in which kubelets say what they say once after their start.
const SETTLING: u32 = 2;
/// How long the webhook is away, and how long it hangs.
const AWAY: Duration = Duration::from_secs(60);
/// Changes of a ratio.
const CHANGES: usize = 100;
/// How long anything may take that ends by itself.
const LIMIT: Duration = Duration::from_secs(60);
/// About how long it takes to start a node, and to apply all changes.
const START_EACH: Duration = Duration::from_secs(4);
const APPLYING: Duration = Duration::from_secs(120);

/// The bench.
pub static ROW: Row = Row {
    name: "node-storm",
    about: "Amplified nodes beside others, kept by real kubelet code: writes to etcd, and what a dead or frozen webhook does.",
    flags: NodeStorm::augment_args,
    run: |flags| {
        let report = Runtime::new()?.block_on(NodeStorm::from_arg_matches(flags)?.run())?;
        BenchResult::new(&report, report.criteria())
    },
};

/// `cargo xtask bench node-storm`.
#[derive(Debug, Clone, Args)]
pub struct NodeStorm {
    /// Nodes, each kept by real kubelet code; an even number, half of them amplified at first.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(2..=100))]
    nodes: u16,
}

/// The figures, and how many samples are behind each.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeStormReport {
    /// Writes to etcd of amplified nodes, per write of the others.
    pub etcd_writes_ratio: f64,
    /// Writes behind it.
    pub etcd_writes_samples_raw: usize,
    /// Writes behind it.
    pub etcd_writes_samples_amplified: usize,
    /// PATCHes of `nodes/status` by all kubelets whose node is raw.
    pub patches_per_s_raw: f64,
    /// PATCHes behind it.
    pub patches_samples_raw: usize,
    /// The same of as many amplified nodes.
    pub patches_per_s_amplified: f64,
    /// PATCHes behind it.
    pub patches_samples_amplified: usize,
    /// The greatest age that the stored heartbeat of an amplified node came to.
    pub heartbeat_age_max_s: f64,
    /// Heartbeats behind it.
    pub heartbeat_age_samples: usize,
    /// From the webhook's readiness after an outage until a node that had fallen to raw is amplified.
    pub repair_s_p99: f64,
    /// Nodes that had fallen; below 100 the percentile is the longest.
    pub repair_samples: usize,
    /// From the request that changes a ratio until allocatable is what it asks for.
    pub apply_s_p99: f64,
    /// Changes behind it.
    pub apply_samples: usize,
    /// Leases renewed per second while the webhook hangs, per those before.
    pub lease_ratio_hung: f64,
    /// Renewals while it hung.
    pub lease_samples_hung: usize,
    /// Renewals before.
    pub lease_samples_steady: usize,
    /// Nodes that were not Ready at any time.
    pub not_ready_nodes: usize,
    /// Nodes.
    pub nodes: usize,
}

/// A stretch of time.
#[derive(Debug, Clone, Copy)]
struct Interval {
    from: Timestamp,
    until: Timestamp,
}

/// What the kubelets of some nodes did in a stretch of time.
#[derive(Debug, Clone, Default)]
struct Steady {
    writes: usize,
    patches: usize,
    /// Greatest ages of heartbeats, in seconds.
    ages: Vec<f64>,
}

impl NodeStormReport {
    /// What must hold.
    pub fn criteria(&self) -> Vec<Criterion> {
        let at_most = |figure: &str, measured, most| Criterion {
            figure: figure.to_owned(),
            measured,
            range: f64::NEG_INFINITY..=most,
        };
        vec![
            Criterion {
                figure: "etcd_writes_ratio".to_owned(),
                measured: self.etcd_writes_ratio,
                range: 0.9..=1.1,
            },
            at_most(
                "heartbeat_age_max_s",
                self.heartbeat_age_max_s,
                (INTERVAL + Duration::from_secs(10)).as_secs_f64(),
            ),
            at_most("repair_s_p99", self.repair_s_p99, 15.0),
            at_most("apply_s_p99", self.apply_s_p99, 2.0),
            Criterion {
                figure: "lease_ratio_hung".to_owned(),
                measured: self.lease_ratio_hung,
                range: 0.95..=f64::INFINITY,
            },
            at_most("not_ready_nodes", count(self.not_ready_nodes), 0.0),
        ]
    }
}

impl NodeStorm {
    /// Says what is going to be done, and how long that takes.
    fn announce(&self, counted: Duration) {
        let total = START_EACH * u32::from(self.nodes) + INTERVAL * SETTLING + counted + AWAY * 2 + APPLYING;
        print(format!(
            "{} nodes, real kubelet code: sync every 10 s, report every {} s. Half of them are amplified 1.5 times for \
             {}, heartbeats quieted for {} s, beside the other half as it is; then all are: webhook killed for {}, \
             {CHANGES} changes of a ratio, webhook frozen for {}. About {} in all.",
            self.nodes,
            INTERVAL.as_secs(),
            span(counted),
            INTERVAL.as_secs(),
            span(AWAY),
            span(AWAY),
            span(total),
        ));
    }

    /// Measures; says beforehand what and how long.
    ///
    /// # Errors
    /// If a part cannot be had, does not do what it must in time, or a write may have gone uncounted.
    pub async fn run(&self) -> Result<NodeStormReport> {
        ensure!(self.nodes.is_multiple_of(2), "--nodes {} is odd", self.nodes);
        let counted = COUNTED_EACH * INTERVALS;
        self.announce(counted);
        let mut scene = StormTestbed::start(self.nodes, INTERVAL).await?;
        print("half of the nodes are amplified");
        scene.amplify_half().await?;
        tokio::time::sleep(INTERVAL * SETTLING).await;

        print(format!("counting writes for {}", span(counted)));
        let etcd = scene.etcd_writes().await?;
        let steady = scene.stretch(counted).await?;
        let etcd = scene.etcd_writes().await? - etcd;
        let (raw, amplified) = scene.split(steady)?;
        let told = count(raw.writes + amplified.writes);
        ensure!(
            (told - etcd).abs() <= 2.0,
            "the watch told of {told} writes of nodes, the API server made {etcd}"
        );

        scene.amplify_all().await?;
        print(format!("the webhook is killed, for {}", span(AWAY)));
        let repairs = scene.outage(AWAY).await?;
        print(format!("{CHANGES} changes of a ratio"));
        let applied = scene.changes(CHANGES).await?;
        print(format!("the webhook is frozen, for {}", span(AWAY)));
        let hung = scene.freeze(AWAY).await?;
        let leases_steady = scene.leases(steady)?;
        let leases_hung = scene.leases(hung)?;
        scene.revisions.ensure_gapless()?;
        scene.check()?;
        Ok(NodeStormReport {
            etcd_writes_ratio: count(amplified.writes) / count(raw.writes),
            etcd_writes_samples_raw: raw.writes,
            etcd_writes_samples_amplified: amplified.writes,
            patches_per_s_raw: count(raw.patches) / steady.seconds(),
            patches_samples_raw: raw.patches,
            patches_per_s_amplified: count(amplified.patches) / steady.seconds(),
            patches_samples_amplified: amplified.patches,
            heartbeat_age_max_s: percentile(&amplified.ages, 100),
            heartbeat_age_samples: amplified.ages.len(),
            repair_s_p99: percentile(&repairs, 99),
            repair_samples: repairs.len(),
            apply_s_p99: percentile(&applied, 99),
            apply_samples: applied.len(),
            lease_ratio_hung: (count(leases_hung) / hung.seconds())
                / (count(leases_steady) / steady.seconds()),
            lease_samples_hung: leases_hung,
            lease_samples_steady: leases_steady,
            not_ready_nodes: scene.not_ready(),
            nodes: usize::from(self.nodes),
        })
    }
}

impl Interval {
    fn seconds(self) -> f64 {
        self.until.duration_since(self.from).as_secs_f64()
    }
}

impl Steady {
    /// What the nodes did that are amplified, or are not, by the revisions and requests of a stretch and the
    /// revisions they began with.
    fn count(
        nodes: &BTreeSet<String>,
        before: &[Revision],
        revisions: &[Revision],
        entries: &[Entry],
        until: Timestamp,
    ) -> Self {
        let mut steady = Self {
            patches: entries
                .iter()
                .filter(|entry| entry.what == What::Status && nodes.contains(&entry.node))
                .count(),
            ..Self::default()
        };
        for node in nodes {
            let of_node = |revision: &&Revision| revision.node == *node;
            let mut stored = before.iter().find(of_node);
            let age = |stored: Option<&Revision>, at: Timestamp| {
                stored.map(|stored| at.duration_since(stored.heartbeat).as_secs_f64())
            };
            for revision in revisions.iter().filter(of_node) {
                steady.writes += 1;
                steady.ages.extend(age(stored, revision.at));
                stored = Some(revision);
            }
            steady.ages.extend(age(stored, until));
        }
        steady.ages.sort_by(f64::total_cmp);
        steady
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn count(events: usize) -> f64 {
    events as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_795_000_000 + second).unwrap()
    }

    fn revision(node: &str, second: i64) -> Revision {
        Revision {
            at: at(second),
            told: std::time::Instant::now(),
            node: node.to_owned(),
            cpu_milli: 6_000,
            memory_bytes: 0,
            seq: None,
            heartbeat: at(second),
            is_ready: true,
        }
    }

    #[test]
    fn only_the_nodes_asked_for_count_and_ages_run_to_the_end() {
        let entry = |node: &str, what| Entry {
            at: at(5),
            node: node.to_owned(),
            what,
            is_taken: true,
        };
        let entries = [
            entry("a", What::Status),
            entry("a", What::Lease),
            entry("b", What::Status),
        ];
        let steady = Steady::count(
            &BTreeSet::from(["a".to_owned()]),
            &[revision("a", -20), revision("b", -1)],
            &[revision("a", 10), revision("b", 11), revision("a", 41)],
            &entries,
            at(60),
        );
        assert_eq!((steady.writes, steady.patches), (2, 1));
        assert_eq!(steady.ages, [19.0, 30.0, 31.0]);
    }
}
