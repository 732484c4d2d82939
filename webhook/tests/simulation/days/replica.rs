//! Simulated webhook replica of the days: its real stores, and its decisions on writes of the status.

use std::sync::Arc;

use headroom_domain::{
    annotation::Annotation,
    capacity::{self, Basis, Decision, NodeState, PodDemand, Write, Writer},
    estimate::Profile,
    hint::{HintQuery, NodeHint, ReportVerdict},
    policy::Bounds,
    resource::{PerResource, Resource},
};
use headroom_proto::v1alpha1 as wire;
use headroom_webhook::{
    control::{
        nudge,
        sweep::remedy::{self, Remedy},
    },
    hints::directive,
    store::{
        clock::Clock,
        cluster::Cluster,
        informer::Store as _,
        lookup::NodeLookup as _,
        node::{Labels, machine, object::WatchedNode as NodeObject},
        nodes, pods,
    },
};
use serde_json::json;

use super::{
    SimulatedDays,
    node_and_pods::{NAME, Stored, UID},
};
use crate::settings;

pub(super) struct SimulatedReplica {
    cluster: Cluster,
    /// Events that its stopped watches have not delivered.
    pub(super) missed: Option<Missed>,
}

/// Events that a replica has not received.
#[derive(Default)]
pub(super) struct Missed {
    node: Option<NodeObject>,
    pods: Vec<(pods::object::WatchedPod, bool)>,
}

impl SimulatedReplica {
    /// Replica that has received everything, in the mode and within the bounds of a run.
    pub(super) fn new(run: &SimulatedDays, stored: &Stored, bound: Vec<pods::object::WatchedPod>) -> Self {
        let written = |resource: Resource| {
            let Bounds { min, max } = *run.bounds.get(resource);
            json!({"min": f64::from(min.0) / 100.0, "max": f64::from(max.0) / 100.0})
        };
        let file = json!({
            "mode": run.mode.name(),
            "bounds": {"cpu": written(Resource::Cpu), "memory": written(Resource::Memory)},
        });
        let file = serde_json::from_value(file).expect("a configuration");
        let cluster = Cluster::new(settings(file), Arc::new(Clock::uninterrupted()));
        cluster.policies.replace(None);
        let mut listing = pods::PodListing::default();
        for pod in bound {
            pods::Pods::list(&mut listing, pod);
        }
        cluster.pods.replace(listing);
        let mut listing = nodes::NodeListing::default();
        nodes::Nodes::list(&mut listing, stored.object());
        cluster.nodes.replace(listing);
        let in_force = cluster.policy(&cluster.nodes.get(NAME).expect("the Node"));
        let policy = in_force.expect("a policy").policy;
        assert_eq!((policy.mode, policy.bounds), (run.mode, run.bounds));
        Self {
            cluster,
            missed: None,
        }
    }

    pub(super) fn is_deaf(&self) -> bool {
        self.missed.is_some()
    }

    /// Observes the stored Node.
    pub(super) fn observe(&mut self, stored: &Stored) {
        match &mut self.missed {
            Some(missed) => missed.node = Some(stored.object()),
            None => self.cluster.nodes.apply(stored.object()),
        }
    }

    /// Observes a pod: its state, or its deletion.
    pub(super) fn observe_pod(&mut self, pod: pods::object::WatchedPod, is_gone: bool) {
        match &mut self.missed {
            Some(missed) => missed.pods.push((pod, is_gone)),
            None if is_gone => self.cluster.pods.delete(pod),
            None => self.cluster.pods.apply(pod),
        }
    }

    /// Observes the missed events.
    pub(super) fn catch_up(&mut self) {
        let Some(Missed { node, pods }) = self.missed.take() else {
            return;
        };
        for (pod, is_gone) in pods {
            self.observe_pod(pod, is_gone);
        }
        if let Some(node) = node {
            self.cluster.nodes.apply(node);
        }
    }

    /// Directive to the agent, if the replica knows enough.
    pub(super) fn directives(&self) -> Option<(wire::Pods, wire::Policy)> {
        let (pods, _) = directive::pods(&self.cluster, NAME)?;
        let policy = directive::policy(&self.cluster, NAME, &Profile::ALL)?;
        Some((pods, policy))
    }

    /// Takes a report that came over the stream of its agent.
    pub(super) fn report(&self, hint: NodeHint) {
        let now = self.cluster.now();
        let verdict = self.cluster.hints.offer(hint, now);
        assert_eq!(verdict, ReportVerdict::Accepted);
    }

    /// The agent's stream to it has ended.
    pub(super) fn leave(&self) {
        self.cluster.hints.leave(NAME);
    }

    /// Requests of admitted pods as the replica knows them.
    pub(super) fn admitted(&self) -> PerResource<u64> {
        self.pod_demand(PerResource::default())
            .expect("pods are known")
            .map(|_, held| held.admitted)
    }

    fn pod_demand(&self, stored: PerResource<Option<u64>>) -> Option<PerResource<PodDemand>> {
        self.cluster.pod_demand(NAME, stored, true)
    }

    /// Result of admission for a status write; `nudged` is the hint annotation of our nudge.
    pub(super) fn decide(
        &self,
        stored: &Stored,
        (writer, new): (Writer, &NodeState),
        nudged: Option<&str>,
    ) -> Decision {
        let policy = self
            .cluster
            .policies
            .for_labels(Labels::new)
            .expect("a policy")
            .policy;
        let hint = endpoint_hint(&self.cluster, stored, nudged);
        let basis = Basis {
            policy: &policy,
            hint: hint.as_ref(),
            pod_demand: self.pod_demand(stored.state.amounts()),
        };
        let write = Write {
            uid: UID,
            writer,
            old: &stored.state,
            new,
        };
        capacity::decide(&write, &basis)
    }

    /// The hint annotation of the nudge that is due.
    pub(super) fn nudge(&self) -> Option<String> {
        let node = self.cluster.nodes.get(NAME)?;
        Some(nudge::due(&self.cluster, &node).nudge?.note)
    }

    /// Write of a sweep, if a fault is found: with a hint, or without content.
    #[expect(clippy::option_option, reason = "what is amiss, and what goes with the write")]
    pub(super) fn sweep(&self) -> Option<Option<String>> {
        let node = self.cluster.nodes.get(NAME).expect("the Node");
        Some(match remedy::find(&self.cluster, &node)? {
            Remedy::TriggerAdmission(_) => None,
            Remedy::Nudge { nudge, .. } => Some(nudge.note),
        })
    }
}

fn endpoint_hint(
    cluster: &Cluster,
    stored: &Stored,
    nudged: Option<&str>,
) -> Option<headroom_domain::hint::EffectiveHint> {
    let nudged = nudged.map(Annotation::from);
    cluster.hint(&HintQuery {
        node: NAME,
        uid: UID,
        version: stored.version,
        stored: stored.state.annotations.hint.as_ref(),
        written: capacity::written_ratios(&stored.state.annotations, UID),
        nudged: nudged.as_ref(),
        machine: machine(&stored.state, stored.has_memory_pressure),
    })
}
