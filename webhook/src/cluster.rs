//! All that this replica knows, in memory, and what follows from it for a node.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use headroom_domain::{
    capacity::{self, Annotations, Basis, Decision, Write, Writer},
    hint::{Found, Note, Standing},
    policy::{InForce, Policy},
    resource::PerResource,
};

use crate::{
    changes::Changes,
    config::Amplification,
    endpoint,
    hints::table::Hints,
    node::{Labels, Node, watch::Nodes},
    pods::Pods,
    policies::Policies,
};

/// The stores of this replica.
#[derive(Debug)]
pub struct Cluster {
    /// The Nodes.
    pub nodes: Arc<Nodes>,
    /// The pods bound to them.
    pub pods: Arc<Pods>,
    /// The newest hints.
    pub hints: Arc<Hints>,
    /// Who follows which node.
    pub changes: Arc<Changes>,
    /// The policies in force.
    pub policies: Arc<Policies>,
    origin: Instant,
}

impl Cluster {
    /// Stores that know nothing yet but what the configuration file says, and which ConfigMap may say more. `origin`
    /// is where monotonic time begins.
    pub fn new(file: Amplification, config_map: String, origin: Instant) -> Self {
        let (changes, hints) = (Arc::new(Changes::default()), Arc::new(Hints::default()));
        Self {
            nodes: Arc::new(Nodes::new(Arc::clone(&changes), Arc::clone(&hints))),
            pods: Arc::new(Pods::new(Arc::clone(&changes))),
            policies: Arc::new(Policies::new(file, config_map, Arc::clone(&changes))),
            hints,
            changes,
            origin,
        }
    }

    /// Monotonic time since the origin.
    pub fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// True once Nodes, pods and the ConfigMap are known.
    pub fn has_synced(&self) -> bool {
        self.nodes.has_synced() && self.pods.has_synced() && self.policies.has_synced()
    }

    /// The policy in force for a node; `None` while it is not known.
    pub fn policy(&self, node: &Node) -> Option<InForce> {
        let configured = self.policies.of(|| node.labels.clone())?;
        Some(configured.with_mode(node.mode))
    }

    /// What a write of `nodes/status` that changes nothing but the hint annotation would come to now, and the hint
    /// that it would carry.
    pub fn preview(&self, node: &Node, now: Duration) -> (Decision, Option<Found>) {
        let annotation = node.state.annotations.hint.as_deref();
        let hint = endpoint::Nodes::hint(self, &node.name, &node.uid, annotation, now);
        let mut new = node.state.clone();
        if let Some(found) = &hint {
            new.annotations = Annotations {
                hint: Some(found.note.to_string()),
                ..new.annotations
            };
        }
        let write = Write {
            uid: &node.uid,
            writer: Writer::Other,
            old: &node.state,
            new: &new,
        };
        let decision = match self.policy(node) {
            None => capacity::keep(&write),
            Some(InForce { policy, .. }) => {
                let basis = Basis {
                    policy: &policy,
                    hint: hint.as_ref(),
                    bound: self.pods.bound(&node.name),
                };
                capacity::decide(&write, &basis)
            }
        };
        (decision, hint)
    }

    /// A hint that was computed before the node's pods last changed may lower, not raise.
    fn held_if_outdated(&self, node: &str, found: Found, now: Duration) -> Found {
        let generation = self.hints.get(node, now).map(|(hint, _)| hint.pods_generation);
        let is_outdated = generation.is_some_and(|generation| generation < self.pods.changed_at(node));
        if !is_outdated {
            return found;
        }
        let applied = self.nodes.get(node).and_then(|node| node.note());
        let Found { note, standing } = found;
        Found {
            note: no_higher(note, applied.as_ref()),
            standing: match standing {
                Standing::Fresh | Standing::Hold => Standing::Hold,
                Standing::Stop => Standing::Stop,
            },
        }
    }
}

/// `note` with no ratio above the one applied, or 1.00 if none was.
fn no_higher(mut note: Note, applied: Option<&Note>) -> Note {
    let applied = applied.map_or(
        PerResource {
            cpu: 100,
            memory: 100,
        },
        |applied| applied.resources().map(|_, part| part.published),
    );
    note.cpu.published = note.cpu.published.min(applied.cpu);
    note.memory.published = note.memory.published.min(applied.memory);
    note
}

impl endpoint::Nodes for Cluster {
    fn policy(&self, labels: &dyn Fn() -> Labels) -> Option<Policy> {
        Some(self.policies.of(labels)?.policy)
    }

    fn hint(&self, node: &str, uid: &str, annotation: Option<&str>, now: Duration) -> Option<Found> {
        let found = self.hints.lookup(node, uid, annotation, now)?;
        Some(self.held_if_outdated(node, found, now))
    }

    fn bound(&self, node: &str) -> Option<PerResource<u64>> {
        self.pods.bound(node)
    }
}

#[cfg(test)]
pub(crate) mod tests;
