//! `bench node-storm`: the load of amplified nodes on API server and etcd, and their recovery from webhook failures.
//!
//! Half of the nodes are amplified, with the same control plane, machine and time, so that a disturbance affects both
//! halves. All kubelets are real code and report an unchanged status as often as heartbeats of amplified nodes are
//! stored, so writes of the two halves are comparable. The floor policies are not installed: nodes fall to raw
//! without the webhook. Then all nodes are amplified, and the webhook is killed, receives many changes, and is
//! frozen.

mod testbed;

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Result, ensure};
use clap::Args;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use xtask::terminal::{print, span};

use self::testbed::StormTestbed;
use super::{
    audit::{Entry, WriteKind},
    criterion::Criterion,
    declaration::{Report, Row, run_async},
    revisions::Revision,
    statistics::{as_float, ascending, percentile},
};

/// Longest time between stored heartbeats of an amplified node, and report interval of all kubelets.
const INTERVAL: Duration = Duration::from_secs(30);
/// Counted intervals; each is a little longer, as kubelets write at the first sync after it.
const INTERVALS: u32 = 10;
const COUNTED_EACH: Duration = Duration::from_secs(31);
/// Intervals before the counted ones, for writes that kubelets make once after their start.
const SETTLING: u32 = 2;
/// Duration of the outage, and of the freeze.
const AWAY: Duration = Duration::from_secs(60);
const CHANGES: usize = 100;
/// Time limit of each step.
const LIMIT: Duration = Duration::from_secs(60);
/// Estimated durations of the start of a node, and of all changes.
const START_EACH: Duration = Duration::from_secs(4);
const APPLYING: Duration = Duration::from_secs(120);

pub static ROW: Row = Row {
    name: "node-storm",
    about: "Compares amplified and raw nodes with real kubelet code: writes to etcd, and the effects of a killed and a frozen webhook.",
    flags: NodeStorm::augment_args,
    run: |flags| run_async(flags, async |bench: NodeStorm| bench.run().await),
};

/// Flags of `cargo xtask bench node-storm`.
#[derive(Debug, Clone, Args)]
pub struct NodeStorm {
    /// Number of nodes with real kubelet code, even; half of them are amplified at first.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(2..=100))]
    nodes: u16,
}

/// Figures, each with its number of samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeStormReport {
    /// Writes to etcd of amplified nodes, divided by those of raw nodes.
    pub etcd_writes_ratio: f64,
    pub etcd_writes_samples_raw: usize,
    pub etcd_writes_samples_amplified: usize,
    /// PATCHes of `nodes/status` by the kubelets of all raw nodes.
    pub patches_per_s_raw: f64,
    pub patches_samples_raw: usize,
    /// PATCHes of `nodes/status` by the kubelets of as many amplified nodes.
    pub patches_per_s_amplified: f64,
    pub patches_samples_amplified: usize,
    /// Highest age of a stored heartbeat of an amplified node.
    pub heartbeat_age_max_s: f64,
    pub heartbeat_age_samples: usize,
    /// Time from readiness of the webhook after the outage until a node is amplified again.
    pub repair_s_p99: f64,
    /// Nodes that had fallen to raw; below 100, the p99 is the longest.
    pub repair_samples: usize,
    /// Time from a changed ratio annotation until allocatable follows.
    pub apply_s_p99: f64,
    pub apply_samples: usize,
    /// Lease renewals per second while the webhook is frozen, divided by those before.
    pub lease_ratio_hung: f64,
    pub lease_samples_hung: usize,
    pub lease_samples_steady: usize,
    /// Nodes that were not Ready at any time.
    pub not_ready_nodes: usize,
    pub nodes: usize,
}

#[derive(Debug, Clone, Copy)]
struct Interval {
    from: Timestamp,
    until: Timestamp,
}

/// Writes of some nodes in an interval.
#[derive(Debug, Clone, Default)]
struct Steady {
    writes: usize,
    patches: usize,
    /// Highest age of each heartbeat, in seconds.
    ages: Vec<f64>,
}

impl Report for NodeStormReport {
    fn criteria(&self) -> Vec<Criterion> {
        let at_most = Criterion::at_most;
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
            at_most("not_ready_nodes", as_float(self.not_ready_nodes), 0.0),
        ]
    }
}

impl NodeStorm {
    /// Prints workload and expected duration.
    fn announce(&self, counted: Duration) {
        let total = START_EACH * u32::from(self.nodes) + INTERVAL * SETTLING + counted + AWAY * 2 + APPLYING;
        print(format!(
            "{} nodes with real kubelet code: sync every 10 s, report every {} s. Half of them are amplified 1.5 times for {}, \
             with heartbeats quieted for {} s, and compared with the other half. Then all are amplified: the webhook is killed \
             for {}, {CHANGES} ratios change, and the webhook is frozen for {}. About {} in all.",
            self.nodes,
            INTERVAL.as_secs(),
            span(counted),
            INTERVAL.as_secs(),
            span(AWAY),
            span(AWAY),
            span(total),
        ));
    }

    /// # Errors
    /// If a part cannot be started or misses its time limit, or a write may be uncounted.
    pub async fn run(&self) -> Result<NodeStormReport> {
        ensure!(
            self.nodes.is_multiple_of(2),
            "--nodes {} is odd: one half of the nodes is compared with the other",
            self.nodes
        );
        let counted = COUNTED_EACH * INTERVALS;
        self.announce(counted);
        let mut storm = StormTestbed::start(self.nodes, INTERVAL).await?;
        print("amplifying half of the nodes");
        storm.amplify_half().await?;
        tokio::time::sleep(INTERVAL * SETTLING).await;

        print(format!("counting writes for {}", span(counted)));
        let etcd = storm.etcd_writes().await?;
        let steady = storm.run_for(counted).await?;
        let etcd = storm.etcd_writes().await? - etcd;
        let (raw, amplified) = storm.split(steady)?;
        let watched = as_float(raw.writes + amplified.writes);
        ensure!(
            (watched - etcd).abs() <= 2.0,
            "the watch delivered {watched} writes of nodes, the API server counted {etcd}"
        );

        storm.amplify_all().await?;
        print(format!("the webhook is killed for {}", span(AWAY)));
        let repairs = storm.outage(AWAY).await?;
        print(format!("{CHANGES} changes of a ratio"));
        let applied = storm.changes(CHANGES).await?;
        print(format!("the webhook is frozen for {}", span(AWAY)));
        let hung = storm.freeze(AWAY).await?;
        let leases_steady = storm.leases(steady)?;
        let leases_hung = storm.leases(hung)?;
        storm.revisions.ensure_gapless()?;
        storm.check()?;
        Ok(NodeStormReport {
            etcd_writes_ratio: as_float(amplified.writes) / as_float(raw.writes),
            etcd_writes_samples_raw: raw.writes,
            etcd_writes_samples_amplified: amplified.writes,
            patches_per_s_raw: as_float(raw.patches) / steady.seconds(),
            patches_samples_raw: raw.patches,
            patches_per_s_amplified: as_float(amplified.patches) / steady.seconds(),
            patches_samples_amplified: amplified.patches,
            heartbeat_age_max_s: percentile(&amplified.ages, 100),
            heartbeat_age_samples: amplified.ages.len(),
            repair_s_p99: percentile(&repairs, 99),
            repair_samples: repairs.len(),
            apply_s_p99: percentile(&applied, 99),
            apply_samples: applied.len(),
            lease_ratio_hung: (as_float(leases_hung) / hung.seconds())
                / (as_float(leases_steady) / steady.seconds()),
            lease_samples_hung: leases_hung,
            lease_samples_steady: leases_steady,
            not_ready_nodes: storm.not_ready(),
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
    /// Counts the writes of `nodes` from revisions and requests of an interval and the revisions before it.
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
                .filter(|entry| entry.kind == WriteKind::Status && nodes.contains(&entry.node))
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
        steady.ages = ascending(steady.ages);
        steady
    }
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
            observed: std::time::Instant::now(),
            node: node.to_owned(),
            cpu_milli: 6_000,
            memory_bytes: 0,
            seq: None,
            heartbeat: at(second),
            is_ready: true,
        }
    }

    #[test]
    fn only_the_given_nodes_count_and_ages_include_the_end() {
        let entry = |node: &str, kind| Entry {
            at: at(5),
            node: node.to_owned(),
            kind,
            is_accepted: true,
        };
        let entries = [
            entry("a", WriteKind::Status),
            entry("a", WriteKind::Lease),
            entry("b", WriteKind::Status),
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
