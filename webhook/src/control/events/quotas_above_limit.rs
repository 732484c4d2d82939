//! The Event about an ElasticQuota whose pods ask for more than its limit.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::Resource as _;

use super::{EventFact, EventObject, EventRow, EventStores, EventType};
use crate::{control::quota_overshoot::Overshoot, store::quota::object::WatchedQuota};

pub(super) static ROW: EventRow = EventRow {
    reason: "QuotaAboveLimit",
    action: "Measure",
    event_type: EventType::Warning,
    about: "The pods of an ElasticQuota request more than its limit. The Event is in the quota's namespace.",
    every: Duration::ZERO,
    list,
};

fn list(stores: &EventStores, _now: Timestamp) -> Vec<EventFact> {
    let found = stores.overshoots.list().into_iter();
    let facts = found.map(|overshoot| {
        let Overshoot {
            namespace,
            name,
            uid,
            note,
        } = overshoot;
        EventFact {
            regarding: EventObject {
                api_version: WatchedQuota::API_VERSION,
                kind: WatchedQuota::KIND,
                namespace,
                name,
                uid,
            },
            note,
            occurrence: String::new(),
        }
    });
    facts.collect()
}
