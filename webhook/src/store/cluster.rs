//! All stores of this replica, and the policy, hint and preview of a decision that follow from them for a node.

mod hint_correction;
pub mod projection;
mod report_check;

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use headroom_domain::{
    capacity::{self, Basis, Decision, PodDemand, Write, Writer},
    hint::{EffectiveHint, HintQuery, NoRaiseReason},
    installation::Installation,
    policy::{InForce, Mode, Policy, Source},
    resource::PerResource,
};
use headroom_rules::slo::strategies::Strategies;

use crate::store::{
    changes::Changes,
    clock::Clock,
    configuration::Amplification,
    floor::{Floor, MissingFloor},
    hint_table::HintTable,
    lookup::NodeLookup,
    node::{Labels, Node},
    nodes::Nodes,
    pods::Pods,
    policies::Policies,
};

/// The stores of this replica.
#[derive(Debug)]
pub struct Cluster {
    pub nodes: Arc<Nodes>,
    /// The pods bound to them.
    pub pods: Arc<Pods>,
    pub hints: Arc<HintTable>,
    pub changes: Arc<Changes>,
    pub policies: Arc<Policies>,
    /// State of the floor policies in the API server.
    pub floor: Arc<Floor>,
    amplifies: bool,
    heartbeat_interval: Duration,
    denies_above_hint: bool,
    webhook_user: String,
    clock: Arc<Clock>,
    previews: AtomicU64,
}

/// Settings that are fixed at the start of a replica.
#[derive(Debug)]
pub struct Settings {
    /// Settings of the configuration file.
    pub file: Amplification,
    /// Behaviour while the floor is missing.
    pub missing_floor: MissingFloor,
    /// False if the gate of amplification is off: every node is, and the endpoint that would restore it is not called.
    pub amplifies: bool,
    /// Maximum age of an amplified node's stored heartbeat; zero turns quieting off.
    pub heartbeat_interval: Duration,
    /// True if a ratio above the current hint is refused where it is written, and not only warned of.
    pub denies_above_hint: bool,
    pub installation: Installation,
}

impl Cluster {
    /// Stores that know nothing yet. Hints age by `clock`.
    pub fn new(settings: Settings, clock: Arc<Clock>) -> Self {
        let Settings {
            file,
            missing_floor: without,
            amplifies,
            heartbeat_interval,
            denies_above_hint,
            installation,
        } = settings;
        let (changes, hints) = (Arc::new(Changes::default()), Arc::new(HintTable::default()));
        let config_map = installation.slo_config.name.to_string();
        let pods = Arc::new(Pods::new(Arc::clone(&changes), Arc::clone(&clock)));
        Self {
            nodes: Arc::new(Nodes::new(
                Arc::clone(&changes),
                Arc::clone(&hints),
                Arc::clone(&pods),
                Arc::clone(&clock),
            )),
            pods,
            webhook_user: installation.webhook_user(),
            floor: Arc::new(Floor::new(installation, without, Arc::clone(&changes))),
            policies: Arc::new(Policies::new(file, config_map, Arc::clone(&changes))),
            hints,
            changes,
            amplifies,
            heartbeat_interval,
            denies_above_hint,
            clock,
            previews: AtomicU64::new(0),
        }
    }

    /// The time by which hints age.
    pub fn now(&self) -> Duration {
        self.clock.now()
    }

    /// True while Nodes, pods and the ConfigMap are known.
    pub fn has_synced(&self) -> bool {
        self.nodes.has_synced() && self.pods.has_synced() && self.policies.has_synced()
    }

    /// False if the gate of amplification is off.
    pub const fn amplifies(&self) -> bool {
        self.amplifies
    }

    /// Number of previews so far, from which benches compute the cost of background work.
    pub fn previews(&self) -> u64 {
        self.previews.load(Ordering::Relaxed)
    }

    /// The policy in force for a node; `None` while it is not known.
    pub fn policy(&self, node: &Node) -> Option<InForce> {
        let configured = self.policies.for_labels(|| &node.labels)?;
        let mut in_force = configured.with_mode(node.mode);
        if !self.amplifies {
            (in_force.policy.mode, in_force.mode_from) = (Mode::Off, Source::Gate);
        }
        Some(in_force)
    }

    /// Decision for a write of `nodes/status` that changes nothing else now, and the hint that counts.
    pub fn preview(&self, node: &Node, now: Duration) -> (Decision, Option<EffectiveHint>) {
        self.previews.fetch_add(1, Ordering::Relaxed);
        let hint = self.hint_at(&node.asked(), now);
        let write = Write {
            uid: &node.uid,
            writer: Writer::Other,
            old: &node.state,
            new: &node.state,
        };
        let decision = match self.policy(node) {
            None => capacity::keep(&write),
            Some(InForce { policy, .. }) => {
                let basis = Basis {
                    policy: &policy,
                    hint: hint.as_ref(),
                    pod_demand: self.held_by(node),
                };
                capacity::decide(&write, &basis)
            }
        };
        (decision, hint)
    }

    /// Demand of a node's pods compared with the stored values. `None` while pods or Nodes are unknown: nothing is
    /// lowered below the stored value then.
    pub fn held_by(&self, node: &Node) -> Option<PerResource<PodDemand>> {
        NodeLookup::pod_demand(self, &node.name, node.state.amounts(), node.tells_allocated)
    }

    /// The hint that counts for a node at a time. None may raise while the floor is neither in force nor done without.
    fn hint_at(&self, asked: &HintQuery<'_>, now: Duration) -> Option<EffectiveHint> {
        let found = self.hints.lookup(asked, now)?;
        let held = self.hints.get(asked.node, now).map(|(hint, _)| hint);
        let mut found = hint_correction::of_now(self, asked, held.as_deref(), found);
        if !self.floor.may_raise() {
            found.caution.get_or_insert(NoRaiseReason::NoFloor);
        }
        Some(found)
    }
}

impl NodeLookup for Cluster {
    fn policy<'l>(&self, labels: &dyn Fn() -> Cow<'l, Labels>) -> Option<Policy> {
        Some(self.policies.for_labels(labels)?.policy)
    }

    fn hint(&self, asked: &HintQuery<'_>) -> Option<EffectiveHint> {
        self.hint_at(asked, self.now())
    }

    fn stored(&self, node: &str) -> Option<Arc<Node>> {
        self.nodes.get(node)
    }

    fn is_contested(&self, node: &str) -> Option<bool> {
        self.nodes.is_contested(node)
    }

    fn pod_demand(
        &self,
        node: &str,
        stored: PerResource<Option<u64>>,
        is_told: bool,
    ) -> Option<PerResource<PodDemand>> {
        let held = self.pods.pod_demand(node, stored, is_told);
        held.filter(|_| self.nodes.has_synced())
    }

    fn strategies(&self) -> Arc<Strategies> {
        Arc::clone(&self.policies.strategies().borrow())
    }

    fn heartbeat_interval(&self) -> Duration {
        self.heartbeat_interval
    }

    fn denies_above_hint(&self) -> bool {
        self.denies_above_hint
    }

    fn webhook_user(&self) -> &str {
        &self.webhook_user
    }
}

#[cfg(test)]
pub(crate) mod tests;
