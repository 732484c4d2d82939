//! The Event about a node whose mode has changed, and [`ModeTracker`], which notices that.
//!
//! No object contains the earlier mode, so every replica compares modes, leader or not.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use headroom_domain::{
    names,
    policy::{InForce, Mode, Source},
};
use jiff::Timestamp;

use super::{EventFact, EventObject, EventRow, EventStores, EventType, is_recent};
use crate::store::cluster::Cluster;

pub(super) static ROW: EventRow = EventRow {
    reason: "ModeChanged",
    action: "ApplyMode",
    event_type: EventType::Normal,
    about: "The mode of a node has changed by its annotation, its labels or Koordinator's ConfigMap, listed \
     for ten minutes.",
    every: Duration::from_secs(60),
    list,
};

/// Replicas notice a change at different moments. Those of one minute are one Event.
const SECONDS_OF_ONE_EVENT: i64 = 60;

/// The mode of each node, and how it last changed.
#[derive(Debug, Default)]
pub struct ModeTracker {
    nodes: Mutex<HashMap<String, TrackedMode>>,
}

#[derive(Debug)]
struct TrackedMode {
    uid: String,
    mode: Mode,
    change: Option<ModeChange>,
}

#[derive(Debug)]
struct ModeChange {
    before: Mode,
    by: Source,
    at: Timestamp,
}

impl ModeTracker {
    /// Compares the mode of each node with the one before. A node that is new has none before it, nor has any while the
    /// policies are not known.
    pub fn observe(&self, cluster: &Cluster, now: Timestamp) {
        if !cluster.nodes.has_synced() {
            return;
        }
        let mut before = std::mem::take(&mut *self.lock());
        let mut after = HashMap::with_capacity(before.len());
        for node in cluster.nodes.all() {
            let known = before.remove(&node.name).filter(|known| known.uid == node.uid);
            let tracked = match (known, cluster.policy(&node)) {
                (known, None) => known,
                (None, Some(InForce { policy, .. })) => Some(TrackedMode {
                    uid: node.uid.clone(),
                    mode: policy.mode,
                    change: None,
                }),
                (Some(known), Some(in_force)) => Some(known.with(&in_force, now)),
            };
            after.extend(tracked.map(|tracked| (node.name.clone(), tracked)));
        }
        *self.lock() = after;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, TrackedMode>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TrackedMode {
    fn with(mut self, in_force: &InForce, now: Timestamp) -> Self {
        let mode = in_force.policy.mode;
        if mode != self.mode {
            self.change = Some(ModeChange {
                before: self.mode,
                by: in_force.mode_from,
                at: now,
            });
            self.mode = mode;
        }
        self
    }
}

fn list(stores: &EventStores, now: Timestamp) -> Vec<EventFact> {
    let nodes = stores.modes.lock();
    let facts = nodes.iter().filter_map(|(name, tracked)| {
        let ModeChange { before, by, at } = tracked
            .change
            .as_ref()
            .filter(|change| is_recent(change.at, now))?;
        Some(EventFact {
            regarding: EventObject::node(name),
            note: format!("mode {} by {}, was {before}", tracked.mode, source(*by)),
            occurrence: (at.as_second() / SECONDS_OF_ONE_EVENT).to_string(),
        })
    });
    facts.collect()
}

/// Source of a mode, as text for users.
fn source(source: Source) -> String {
    match source {
        Source::Default => "default".to_owned(),
        Source::File => "the webhook's configuration file".to_owned(),
        Source::ConfigMap => "Koordinator's ConfigMap".to_owned(),
        Source::Entry => "an entry of Koordinator's ConfigMap".to_owned(),
        Source::Annotation => format!("annotation {}", names::MODE),
        Source::Gate => "a feature gate".to_owned(),
    }
}
