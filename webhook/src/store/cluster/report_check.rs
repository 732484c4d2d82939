//! Checks agents' reports against their kubelets' values and their earlier reports. A node is in quarantine while a
//! contradiction counts; `headroom_domain::hint::ReportCheck` decides when one does.

use headroom_domain::{
    hint::{ByKubelet, Contradiction},
    resource::PerResource,
};
use tracing::{info, warn};

use super::Cluster;
use crate::store::{changes::Urgency, hint_table::ContradictionChange, metrics::QUARANTINES};

impl Cluster {
    /// Compares a node's newest report with the Node, if the Node is known.
    pub fn check_report(&self, node: &str) {
        let Some(object) = self.nodes.get(node).filter(|_| self.nodes.has_synced()) else {
            return;
        };
        let kubelet = ByKubelet {
            capacity: object.capacity(),
            raw: object.raw_allocatable(),
            has_memory_pressure: object.has_memory_pressure,
        };
        self.log_change(node, self.hints.check_report(node, &kubelet, self.now()));
    }

    /// Compares the last report of a node with its kubelet's measurement of use, in milli-cores and bytes.
    pub fn try_use(&self, node: &str, used: PerResource<u64>) {
        self.log_change(node, self.hints.try_use(node, used, self.now()));
    }

    /// Contradiction in a node's reports, if any.
    pub fn quarantine(&self, node: &str) -> Option<Contradiction> {
        self.hints.quarantine(node, self.now())
    }

    /// True if a contradiction counts that the Node has on record and no report of its agent has refuted here.
    pub(super) fn upholds(&self, node: &str, contradiction: Contradiction) -> bool {
        self.hints.upholds(node, contradiction, self.now())
    }

    fn log_change(&self, node: &str, change: ContradictionChange) {
        match change {
            (before, after) if before == after => return,
            (_, Some(contradiction)) => {
                QUARANTINES.with([contradiction.name()]).increment(1);
                warn!(
                    node,
                    reason = contradiction.name(),
                    "quarantine: {}",
                    contradiction.about()
                );
            }
            (_, None) => info!(
                node,
                "the quarantine has ended: reports agree with the kubelet again"
            ),
        }
        self.changes.notify(node, Urgency::AtOnce);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use headroom_domain::{
        capacity::Why,
        estimate::Profile,
        hint::{HintQuery, Machine, NoRaiseReason, NodeHint, Origin},
        names,
    };
    use serde_json::{Value, json};
    use tokio::time::advance;

    use super::*;
    use crate::{
        control::nudge::{self, Direction},
        hints::directive,
        store::{
            cluster::tests::{amplified, cluster, pod, published},
            informer::Store as _,
            lookup::NodeLookup,
        },
    };

    /// A Node that is amplified to 1.25, of 4 CPUs and 8Gi, with that status of its condition MemoryPressure.
    fn node(memory_pressure: &str) -> Value {
        let mut node = amplified(1, "5", 125);
        node["status"]["conditions"] = json!([
            {"type": "MemoryPressure", "status": memory_pressure},
            {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-20T00:00:00Z"},
        ]);
        node
    }

    /// Reports of a machine with this many milli-cores, every 15 seconds for the given time; returns the result of
    /// the last one.
    async fn reported(
        cluster: &Cluster,
        seqs: std::ops::RangeInclusive<u64>,
        cpu_milli: u64,
    ) -> (u64, Vec<Why>) {
        for seq in seqs {
            let mut hint = published(seq, 125);
            hint.pods_generation = 1;
            hint.resources.cpu.capacity = cpu_milli;
            hint.resources.cpu.usage = 100;
            hint.resources.memory.capacity = 8 << 30;
            report(cluster, hint).await;
        }
        let node = cluster.nodes.get("n1").unwrap();
        let cpu = cluster.preview(&node, cluster.now()).0.outcomes.cpu;
        (cpu.result.unwrap(), cpu.why)
    }

    async fn report(cluster: &Cluster, hint: NodeHint) {
        advance(Duration::from_secs(15)).await;
        cluster.hints.offer(hint, cluster.now());
        cluster.check_report("n1");
    }

    fn state_text(cluster: &Cluster) -> String {
        directive::policy(cluster, "n1", &Profile::ALL)
            .unwrap()
            .quarantine
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_contradicts_a_node_that_is_not_followed_any_more() {
        let cluster = cluster([node("False")], []);
        cluster.nodes.set_known(false);
        reported(&cluster, 1..=6, 8_000).await;
        assert_eq!(state_text(&cluster), "");
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_goes_on_speaking_of_another_machine_is_not_believed_until_it_agrees() {
        let cluster = cluster([node("False")], []);
        let (result, why) = reported(&cluster, 1..=4, 8_000).await;
        assert_eq!((result, why.last()), (5_000, Some(&Why::OtherCapacity)));
        assert_eq!(state_text(&cluster), "");
        let mut changes = cluster.changes.follow("n1");
        changes.mark_unchanged();
        let (result, why) = reported(&cluster, 5..=5, 8_000).await;
        assert_eq!((result, why.last()), (4_000, Some(&Why::QuarantinedCapacity)));
        assert!(
            state_text(&cluster).contains("another capacity"),
            "{}",
            state_text(&cluster)
        );
        assert!(changes.has_changed().unwrap(), "whoever nudges looks at once");
        let nudge = nudge::due(&cluster, &cluster.nodes.get("n1").unwrap())
            .nudge
            .unwrap();
        let node = cluster.nodes.get("n1").unwrap();
        let asked = HintQuery {
            nudged: Some(&nudge.note.as_str().into()),
            ..node.asked()
        };
        let found = NodeLookup::hint(&cluster, &asked).unwrap();
        assert_eq!(found.origin, Origin::Nudge);
        let why = NoRaiseReason::Quarantined(Contradiction::Capacity);
        assert_eq!(found.caution, Some(why), "the write of a nudge says why, too");
        let (result, why) = reported(&cluster, 6..=6, 4_000).await;
        assert_eq!((result, why), (5_000, vec![Why::Hint]));
        assert_eq!(state_text(&cluster), "");
    }

    /// The Node once the replica whose agent speaks of another machine has put that on record.
    async fn recorded() -> Value {
        let cluster = cluster([node("False")], []);
        reported(&cluster, 1..=5, 8_000).await;
        let stored = cluster.nodes.get("n1").unwrap();
        let nudge = nudge::due(&cluster, &stored).nudge.unwrap();
        let mut recorded = node("False");
        recorded["metadata"]["annotations"][names::HINT] = nudge.note.into();
        recorded
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_without_the_stream_says_the_same_of_a_quarantine() {
        let cluster = cluster([recorded().await], []);
        let node = cluster.nodes.get("n1").unwrap();
        let (decision, found) = cluster.preview(&node, cluster.now());
        let found = found.unwrap();
        assert_eq!(found.origin, Origin::Annotation);
        assert_eq!(found.note.contradiction(), Some(Contradiction::Capacity));
        let why = decision.outcomes.cpu.why;
        assert!(why.contains(&Why::QuarantinedCapacity), "{why:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_that_starts_anew_upholds_a_quarantine_until_a_report_refutes_it() {
        let cluster = cluster([recorded().await], []);
        let (_, why) = reported(&cluster, 6..=6, 8_000).await;
        assert!(why.contains(&Why::QuarantinedCapacity), "{why:?}");
        let node = cluster.nodes.get("n1").unwrap();
        let (_, found) = cluster.preview(&node, cluster.now());
        assert_eq!(found.unwrap().origin, Origin::Stream);
        let (_, why) = reported(&cluster, 7..=7, 4_000).await;
        assert!(!why.contains(&Why::QuarantinedCapacity), "{why:?}");
        let nudge = nudge::due(&cluster, &node).nudge.unwrap();
        assert!(!nudge.note.contains("quarantine"), "{}", nudge.note);
    }

    #[tokio::test(start_paused = true)]
    async fn a_quarantine_is_put_on_record_where_allocatable_does_not_move() {
        let cluster = cluster([node("False")], [pod("a", 1, "5")]);
        let (result, _) = reported(&cluster, 1..=5, 8_000).await;
        assert_eq!(result, 5_000, "what is bound stays covered");
        let node = cluster.nodes.get("n1").unwrap();
        let nudge = nudge::due(&cluster, &node).nudge.unwrap();
        assert_eq!(nudge.direction, Direction::Note);
        assert!(
            nudge.note.contains(r#""quarantine":"capacity""#),
            "{}",
            nudge.note
        );
    }

    #[tokio::test(start_paused = true)]
    async fn pressure_and_capacity_are_those_of_the_write_that_is_decided() {
        let cluster = cluster([node("False")], []);
        reported(&cluster, 1..=2, 4_000).await;
        let node = cluster.nodes.get("n1").unwrap();
        let found = |machine| {
            let asked = HintQuery {
                machine,
                ..node.asked()
            };
            NodeLookup::hint(&cluster, &asked).unwrap()
        };
        let known = node.asked().machine;
        assert_eq!((found(known).note.memory.brake, found(known).caution), (0, None));
        let pressed = Machine {
            has_memory_pressure: true,
            ..known
        };
        assert_eq!(found(pressed).note.memory.brake, 3);
        let grown = Machine {
            capacity: PerResource {
                cpu: Some(8_000),
                ..known.capacity
            },
            ..known
        };
        assert_eq!(found(grown).caution, Some(NoRaiseReason::OtherCapacity));
    }

    #[tokio::test(start_paused = true)]
    async fn memory_pressure_stops_memory_at_once_and_an_agent_that_denies_it_all() {
        let cluster = cluster([node("False")], []);
        reported(&cluster, 1..=2, 4_000).await;
        let mut pressed = node("True");
        pressed["metadata"]["resourceVersion"] = "2".into();
        cluster.nodes.apply(serde_json::from_value(pressed).unwrap());
        let node = cluster.nodes.get("n1").unwrap();
        let (decision, found) = cluster.preview(&node, cluster.now());
        let note = found.unwrap().note;
        assert_eq!(
            (note.memory.brake, note.cpu.brake, note.why[0].as_str()),
            (3, 1, "memory-pressure")
        );
        assert_eq!(
            decision.outcomes.cpu.result,
            Some(5_000),
            "what was handed out of CPU stays"
        );
        assert!(decision.outcomes.memory.why.contains(&Why::Braked));
        let (result, why) = reported(&cluster, 3..=7, 4_000).await;
        assert_eq!(result, 4_000);
        assert!(why.contains(&Why::QuarantinedPressure), "{why:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn use_is_compared_with_reports_that_are_recent_and_forgotten_with_the_node() {
        let cluster = cluster([node("False")], []);
        let used = PerResource {
            cpu: 3_000,
            memory: 0,
        };
        for minute in 0..20 {
            let (_, why) = reported(&cluster, minute * 4 + 1..=minute * 4 + 4, 4_000).await;
            cluster.try_use("n1", used);
            assert_eq!(
                why.contains(&Why::QuarantinedUse),
                minute > 12,
                "minute {minute}: {why:?}"
            );
        }
        assert_eq!(cluster.quarantine("n1"), Some(Contradiction::Use));
        cluster.hints.forget("n1");
        assert_eq!(cluster.quarantine("n1"), None);
        cluster.try_use("n1", used);
        assert_eq!(cluster.quarantine("n1"), None, "nobody has reported");
    }
}
