//! [`WorkloadTable`]: the profiles of workloads that this replica derives from agents' reports. They are not stored in
//! the API server.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use headroom_domain::{
    estimate::Profile,
    hint::{AgentMode, FrameUse, NodeHint},
    resource::{PerResource, Resource},
    workload::{Limits, NodeEvidence, PERIOD_SECONDS, PodEvidence, ProfileTable, Recorded, is_plausible},
};
use headroom_proto::WorkloadDirective;

use super::pods::bound::NodePods;

/// Age below which a replica sends no profiles: most agents have not reported yet.
const YOUNG: Duration = Duration::from_secs(120);
/// Seconds in a day.
const DAY_SECONDS: u64 = 86_400;

/// Profiles of workloads, shared by all streams. Switched off, it stays empty.
#[derive(Debug)]
pub struct WorkloadTable {
    is_on: bool,
    began: Instant,
    table: Mutex<ProfileTable>,
}

/// A report whose use of pods may count.
#[derive(Debug)]
pub struct UseReport {
    node_uid: String,
    usage: PerResource<u64>,
    capacity: PerResource<u64>,
    used: FrameUse,
}

impl UseReport {
    /// Removes the use of pods from a hint, which the table of hints does not keep. `None` without any, and for agents
    /// that give no evidence: blind ones, and those that measure with procfs or with compressed durations.
    pub fn take_from(hint: &mut NodeHint) -> Option<Self> {
        let used = hint.frame_use.take()?;
        let gives_evidence =
            matches!(hint.sight, AgentMode::Full | AgentMode::FullShed) && hint.timing == Profile::Production;
        gives_evidence.then(|| Self {
            node_uid: hint.node_uid.clone(),
            usage: hint.resources.map(|_, part| part.usage),
            capacity: hint.resources.map(|_, part| part.usable_capacity()),
            used,
        })
    }
}

impl WorkloadTable {
    /// Empty table of a replica that started at `began`.
    pub fn new(is_on: bool, began: Instant) -> Self {
        Self {
            is_on,
            began,
            table: Mutex::new(ProfileTable::new(Limits::default())),
        }
    }

    /// Records a report about the pods that the API server lists for the node. `wall` is the time since 1970. Returns
    /// true if the report counts: the first one of the node in a period of five minutes.
    pub fn record(&self, report: &UseReport, bound: &NodePods, wall: Duration) -> bool {
        if !self.is_on {
            return false;
        }
        let period = wall.as_secs() / PERIOD_SECONDS;
        let mut hasher = DefaultHasher::new();
        report.node_uid.hash(&mut hasher);
        let node = hasher.finish();
        if self.lock().has_reported(node, period) {
            return false;
        }
        let evidence = evidence(node, report, bound, wall);
        self.lock().record(&evidence, period) == Recorded::Counted
    }

    /// Profiles for the pods of a node; `None` while the replica is young, and if the table is off.
    pub fn directive(&self, bound: &NodePods, wall: Duration) -> Option<WorkloadDirective> {
        if !self.is_on || self.began.elapsed() < YOUNG {
            return None;
        }
        let period = wall.as_secs() / PERIOD_SECONDS;
        let mut table = self.lock();
        let workloads = bound.pods.values().filter_map(|pod| pod.owner.workload());
        let profiles = workloads.filter_map(|workload| Some((workload, table.profile(&workload, period)?)));
        Some(WorkloadDirective {
            profiles: profiles.collect(),
            seconds_of_day: u32::try_from(wall.as_secs() % DAY_SECONDS).unwrap_or_default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, ProfileTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Evidence of a report. Only pods that are bound to the node and have run for a whole period count, with the requests and
/// workloads of the API server: an agent writes the use alone.
fn evidence(node: u64, report: &UseReport, bound: &NodePods, wall: Duration) -> NodeEvidence {
    let used = report.used.pods.iter().map(|pod| (pod.uid.as_str(), pod.high));
    let used: HashMap<&str, PerResource<u64>> = used.collect();
    let now = i64::try_from(wall.as_secs()).unwrap_or(i64::MAX);
    let whole = i64::try_from(PERIOD_SECONDS).unwrap_or(i64::MAX);
    let mut sum = PerResource::<u64>::default();
    let mut pods = Vec::new();
    for (uid, pod) in &bound.pods {
        let Some(used) = used.get(bound.cgroup(uid)) else {
            continue;
        };
        for resource in Resource::ALL {
            let sum = sum.get_mut(resource);
            *sum = sum.saturating_add(*used.get(resource));
        }
        let is_whole = pod.created.saturating_add(whole) <= now;
        if let Some(workload) = pod.owner.workload().filter(|_| is_whole) {
            pods.push(PodEvidence {
                namespace: pod.owner.namespace_hash().into(),
                workload,
                requests: pod.requests,
                used: *used,
            });
        }
    }
    NodeEvidence {
        node,
        pods,
        counts: sum.map(|resource, sum| {
            let (usage, capacity) = (report.usage.get(resource), report.capacity.get(resource));
            is_plausible(*sum, *usage, *capacity)
        }),
    }
}

#[cfg(test)]
mod tests {
    use headroom_domain::hint::PodFrameUse;
    use serde_json::{Value, json};

    use super::*;
    use crate::store::cluster::{
        Cluster,
        tests::{amplified, cluster, pod, published},
    };

    const DAY: u64 = 20_000 * 86_400;

    fn began() -> Instant {
        Instant::now().checked_sub(YOUNG).unwrap()
    }

    fn owned(created: &str) -> Value {
        let mut pod = pod("a", 5, "1");
        pod["metadata"]["creationTimestamp"] = json!(created);
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "name": "x".repeat(253),
            "uid": "s1",
            "controller": true,
        }]);
        pod
    }

    fn with_pod(created: &str) -> Cluster {
        cluster([amplified(3, "4800m", 120)], [owned(created)])
    }

    fn used(change: impl FnOnce(&mut NodeHint)) -> Option<UseReport> {
        let high = PerResource {
            cpu: 400,
            memory: 1 << 30,
        };
        let mut hint = published(8, 120);
        hint.resources.cpu.usage = 400;
        hint.resources.memory.usage = 1 << 30;
        hint.frame_use = Some(FrameUse {
            frame: 8,
            pods: vec![PodFrameUse {
                uid: "a".to_owned(),
                low: high,
                high,
            }],
        });
        change(&mut hint);
        let report = UseReport::take_from(&mut hint);
        assert_eq!(hint.frame_use, None);
        report
    }

    /// Records a report in each period of eight hours; returns the trust in the pod's workload after that.
    fn trust(table: &WorkloadTable, cluster: &Cluster, report: &UseReport) -> Option<u32> {
        for period in 0..96 {
            let wall = Duration::from_secs(DAY + period * PERIOD_SECONDS);
            cluster
                .pods
                .with_node("n1", |bound| table.record(report, bound, wall));
        }
        let wall = Duration::from_secs(DAY + 96 * PERIOD_SECONDS);
        let directive = cluster
            .pods
            .with_node("n1", |bound| table.directive(bound, wall))?;
        directive
            .profiles
            .values()
            .next()
            .map(|profile| profile.trust_ppm.cpu)
    }

    #[test]
    fn a_workload_is_known_after_the_hours_that_were_observed() {
        let (table, cluster) = (
            WorkloadTable::new(true, began()),
            with_pod("2020-01-01T00:00:00Z"),
        );
        assert_eq!(trust(&table, &cluster, &used(|_| {}).unwrap()), Some(333_333));
    }

    #[test]
    fn a_table_that_is_off_and_a_young_replica_send_nothing() {
        let cluster = with_pod("2020-01-01T00:00:00Z");
        let report = used(|_| {}).unwrap();
        assert_eq!(
            trust(&WorkloadTable::new(false, began()), &cluster, &report),
            None
        );
        assert_eq!(
            trust(&WorkloadTable::new(true, Instant::now()), &cluster, &report),
            None
        );
    }

    #[test]
    fn a_pod_counts_only_within_its_age() {
        let (table, cluster) = (
            WorkloadTable::new(true, began()),
            with_pod("2099-01-01T00:00:00Z"),
        );
        assert_eq!(trust(&table, &cluster, &used(|_| {}).unwrap()), None);
    }

    #[test]
    fn pods_that_do_not_explain_the_use_of_their_node_do_not_count() {
        let (table, cluster) = (
            WorkloadTable::new(true, began()),
            with_pod("2020-01-01T00:00:00Z"),
        );
        let report = used(|hint| {
            hint.resources.cpu.usage = 30_000;
            hint.resources.memory.usage = 1 << 50;
        });
        assert_eq!(trust(&table, &cluster, &report.unwrap()), None);
    }

    #[test]
    fn agents_without_kernel_programs_or_with_compressed_durations_give_no_evidence() {
        assert!(used(|hint| hint.sight = AgentMode::Proc).is_none());
        assert!(used(|hint| hint.sight = AgentMode::Blind).is_none());
        assert!(used(|hint| hint.timing = Profile::Demo).is_none());
        assert!(used(|hint| hint.sight = AgentMode::FullShed).is_some());
    }

    #[test]
    fn a_node_counts_once_in_five_minutes() {
        let (table, cluster) = (
            WorkloadTable::new(true, began()),
            with_pod("2020-01-01T00:00:00Z"),
        );
        let report = used(|_| {}).unwrap();
        let record = |seconds| {
            let wall = Duration::from_secs(DAY + seconds);
            cluster
                .pods
                .with_node("n1", |bound| table.record(&report, bound, wall))
        };
        assert_eq!([record(0), record(299), record(300)], [true, false, true]);
    }
}
