//! Event about a node whose agent is not trusted, because its reports contradict its kubelet or each other.

use std::time::Duration;

use headroom_domain::{hint::Contradiction, names};
use jiff::Timestamp;

use super::{EventFact, EventRow, EventStores, EventType};
use crate::store::node::{Node, OwnCondition};

pub(super) static ROW: EventRow = EventRow {
    reason: "Quarantined",
    action: "IgnoreReports",
    event_type: EventType::Warning,
    about: "The reports of a node's agent contradict its kubelet or each other, so the node is not amplified.",
    every: Duration::from_secs(60),
    list,
};

fn list(stores: &EventStores, _now: Timestamp) -> Vec<EventFact> {
    let facts = |node: &Node, condition: &OwnCondition| {
        let note = node.note().filter(|note| note.quarantine.is_some())?;
        let why = note
            .contradiction()
            .map_or("for a reason of a later version", Contradiction::about);
        condition
            .is_true
            .then(|| format!("the node is not amplified: {why}"))
    };
    stores.of_conditions(names::BRAKED, facts)
}
