//! [`ProfileTable`]: what one replica knows of all workloads. Its memory is bounded in all and by namespace.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    NodeEvidence, PERIODS_A_DAY, PodEvidence, Workload, WorkloadProfile, entry::ProfileEntry, tally::OnNode,
};
use crate::resource::{PerResource, Resource};

/// Periods with a report after which a workload gets an entry.
const PERIODS_BEFORE_ENTRY: u32 = 2;
/// Periods after which a workload that was observed once is forgotten.
const CANDIDATE_PERIODS: u64 = 12;

/// Bounds of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most workloads.
    pub workloads: usize,
    /// Most workloads of one namespace.
    pub of_namespace: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            workloads: 100_000,
            of_namespace: 10_000,
        }
    }
}

/// Result of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// The report counts.
    Counted,
    /// The node has reported in this period already.
    Repeated,
}

/// One workload for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Hash of the controller.
    pub controller: u64,
    /// Pods in the last finished period.
    pub pods: u32,
    /// Nodes in the last finished period.
    pub nodes: u32,
    /// Version that appeared last.
    pub version: Option<u64>,
    /// Seconds since that version is observed.
    pub version_age_s: u64,
    /// Use, request and trust of that version.
    pub profile: WorkloadProfile,
}

/// A workload that does not have an entry yet.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    periods: u32,
    seen: u64,
}

/// Entries by the hash of the controller.
#[derive(Debug)]
pub struct ProfileTable {
    limits: Limits,
    entries: HashMap<u64, Box<ProfileEntry>>,
    candidates: HashMap<u64, Candidate>,
    /// Entries of each namespace.
    of_namespace: HashMap<u64, usize>,
    /// Period of each node's last report.
    reported: HashMap<u64, u64>,
    /// The latest period that was swept.
    swept: u64,
}

impl ProfileTable {
    /// Empty table.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            entries: HashMap::new(),
            candidates: HashMap::new(),
            of_namespace: HashMap::new(),
            reported: HashMap::new(),
            swept: 0,
        }
    }

    /// Number of workloads with an entry.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if no workload has an entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns true if a node has reported in this period.
    pub fn has_reported(&self, node: u64, period: u64) -> bool {
        self.reported.get(&node).is_some_and(|last| *last >= period)
    }

    /// Records the frame of a node in a period of the replica's clock. A node counts once per period.
    pub fn record(&mut self, evidence: &NodeEvidence, period: u64) -> Recorded {
        self.sweep(period);
        if self.has_reported(evidence.node, period) {
            return Recorded::Repeated;
        }
        self.reported.insert(evidence.node, period);
        let mut by_controller: BTreeMap<u64, Vec<&PodEvidence>> = BTreeMap::new();
        for pod in &evidence.pods {
            by_controller
                .entry(pod.workload.controller)
                .or_default()
                .push(pod);
        }
        for (controller, pods) in by_controller {
            let Some(namespace) = pods.first().map(|pod| pod.namespace) else {
                continue;
            };
            let mut on_node = PerResource::<OnNode>::default();
            for pod in &pods {
                for resource in Resource::ALL {
                    if *evidence.counts.get(resource) {
                        let on_node = on_node.get_mut(resource);
                        on_node.add(*pod.used.get(resource), *pod.requests.get(resource));
                    }
                }
            }
            if on_node.cpu.pods() == 0 && on_node.memory.pods() == 0 {
                continue;
            }
            let versions: BTreeSet<u64> = pods.iter().map(|pod| pod.workload.version).collect();
            if let Some(entry) = self.entry(controller, namespace, period) {
                entry.advance(period);
                entry.record(&on_node, versions.into_iter());
            }
        }
        Recorded::Counted
    }

    /// ProfileEntry of a workload; `None` before its second period, and if the table or the namespace's share is full.
    fn entry(&mut self, controller: u64, namespace: u64, period: u64) -> Option<&mut ProfileEntry> {
        if !self.entries.contains_key(&controller) {
            let share = self.of_namespace.get(&namespace).copied().unwrap_or_default();
            let is_full = |held: usize| held >= self.limits.workloads;
            if is_full(self.entries.len()) || share >= self.limits.of_namespace {
                return None;
            }
            if !self.candidates.contains_key(&controller) && is_full(self.candidates.len()) {
                return None;
            }
            let candidate = self.candidates.entry(controller).or_insert(Candidate {
                periods: 1,
                seen: period,
            });
            candidate.periods += u32::from(candidate.seen < period);
            candidate.seen = period;
            if candidate.periods < PERIODS_BEFORE_ENTRY {
                return None;
            }
            self.candidates.remove(&controller);
            *self.of_namespace.entry(namespace).or_default() += 1;
            self.entries
                .insert(controller, Box::new(ProfileEntry::new(namespace, period)));
        }
        self.entries.get_mut(&controller).map(AsMut::as_mut)
    }

    /// Forgets workloads without a report for a day, and nodes that no longer report. It costs a walk per period.
    fn sweep(&mut self, period: u64) {
        if period <= self.swept {
            return;
        }
        self.swept = period;
        let is_old = |seen: u64, span: u64| period.saturating_sub(seen) > span;
        let of_namespace = &mut self.of_namespace;
        self.entries.retain(|_, entry| {
            let is_kept = !is_old(entry.seen, PERIODS_A_DAY);
            if !is_kept && let Some(held) = of_namespace.get_mut(&entry.namespace) {
                *held = held.saturating_sub(1);
            }
            is_kept
        });
        self.of_namespace.retain(|_, held| *held > 0);
        self.candidates
            .retain(|_, candidate| !is_old(candidate.seen, CANDIDATE_PERIODS));
        self.reported.retain(|_, last| !is_old(*last, PERIODS_A_DAY));
    }

    /// Profile for pods of a workload; `None` without an entry.
    pub fn profile(&mut self, workload: &Workload, period: u64) -> Option<WorkloadProfile> {
        let entry = self.entries.get_mut(&workload.controller)?;
        entry.advance(period);
        Some(entry.profile(workload.version))
    }

    /// One workload for display; `None` without an entry.
    pub fn row(&mut self, controller: u64, period: u64) -> Option<Row> {
        let entry = self.entries.get_mut(&controller)?;
        entry.advance(period);
        let newest = entry.newest_version();
        let (pods, nodes) = entry.counts();
        Some(Row {
            controller,
            pods,
            nodes,
            version: newest.map(|(hash, _)| hash),
            version_age_s: newest.map_or(0, |(_, age)| age * super::PERIOD_SECONDS),
            profile: entry.profile(newest.map_or(0, |(hash, _)| hash)),
        })
    }
}
