//! The Events about brakes: one while a resource of a node is braked, and one when no resource is any more.
//!
//! Both follow from the condition that is stored on the Node, so all replicas would publish the same.

use std::time::Duration;

use headroom_domain::names;
use jiff::Timestamp;

use super::{EventFact, EventObject, EventRow, EventStores, EventType, is_recent};
use crate::store::node::{Node, OwnCondition};

/// A brake that fires and lets go again and again has no more Events of a node than one in this time.
const EVERY: Duration = Duration::from_secs(60);

pub(super) static BRAKED: EventRow = EventRow {
    reason: "Braked",
    action: "LimitAllocatable",
    event_type: EventType::Warning,
    about: "A brake limits a resource of a node: hold, shed or stop. Each level has its own Event.",
    every: EVERY,
    list: list_braked,
};

pub(super) static RELEASED: EventRow = EventRow {
    reason: "BrakeReleased",
    action: "Amplify",
    event_type: EventType::Normal,
    about: "All brakes and the quarantine of a node have ended, listed for ten minutes.",
    every: EVERY,
    list: list_released,
};

fn list_braked(stores: &EventStores, _now: Timestamp) -> Vec<EventFact> {
    let facts = |node: &Node, condition: &OwnCondition| {
        // A quarantine has an Event of its own.
        let is_quarantined = node.note().is_some_and(|note| note.quarantine.is_some());
        (condition.is_true && !is_quarantined).then(|| condition.message.clone())
    };
    stores.of_conditions(names::BRAKED, facts)
}

fn list_released(stores: &EventStores, now: Timestamp) -> Vec<EventFact> {
    let facts = |_: &Node, condition: &OwnCondition| {
        let is_released = !condition.is_true && condition.since.is_some_and(|since| is_recent(since, now));
        is_released.then(|| "no brake limits its allocatable any more".to_owned())
    };
    stores.of_conditions(names::BRAKED, facts)
}

impl EventStores {
    /// Events of one condition over all nodes.
    pub(super) fn of_conditions(
        &self,
        kind: &str,
        note: impl Fn(&Node, &OwnCondition) -> Option<String>,
    ) -> Vec<EventFact> {
        let nodes = self.cluster.nodes.all();
        let facts = nodes.iter().filter_map(|node| {
            let mut conditions = node.own_conditions.iter();
            let condition = conditions.find(|condition| condition.kind == kind)?;
            Some(EventFact {
                regarding: EventObject::node(&node.name),
                note: note(node, condition)?,
                occurrence: condition.since.map(|since| since.to_string()).unwrap_or_default(),
            })
        });
        facts.collect()
    }
}
