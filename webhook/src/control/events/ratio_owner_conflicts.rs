//! The Event about a node whose ratio another controller keeps writing.

use std::time::Duration;

use headroom_domain::names;
use jiff::Timestamp;

use super::{EventFact, EventRow, EventStores, EventType};
use crate::store::node::{Node, OwnCondition};

pub(super) static ROW: EventRow = EventRow {
    reason: "RatioOwnerConflict",
    action: "RestoreRatio",
    event_type: EventType::Warning,
    about: "Another controller keeps writing the ratio of a node in mode `auto`, where the webhook writes it.",
    every: Duration::from_secs(60),
    list,
};

fn list(stores: &EventStores, _now: Timestamp) -> Vec<EventFact> {
    let facts = |_: &Node, condition: &OwnCondition| condition.is_true.then(|| condition.message.clone());
    stores.of_conditions(names::RATIO_OWNER_CONFLICT, facts)
}
