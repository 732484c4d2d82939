//! The Event about a colocation profile that is applied to no pod, because it cannot be read.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::Resource as _;

use super::{EventFact, EventObject, EventRow, EventStores, EventType};
use crate::store::colocation::profiles::WatchedProfile;

pub(super) static ROW: EventRow = EventRow {
    reason: "ProfileInvalid",
    action: "Skip",
    event_type: EventType::Warning,
    about: "A ClusterColocationProfile is invalid, so it is applied to no pod.",
    every: Duration::ZERO,
    list,
};

fn list(stores: &EventStores, _now: Timestamp) -> Vec<EventFact> {
    let profiles = stores.profiles.profiles();
    let faulty = profiles.iter().filter_map(|(name, known)| {
        let fault = known.fault()?;
        Some(EventFact {
            regarding: EventObject {
                api_version: WatchedProfile::API_VERSION,
                kind: WatchedProfile::KIND,
                namespace: String::new(),
                name: name.to_string(),
                uid: known.uid.clone(),
            },
            note: format!("The profile is applied to no pod: {fault}"),
            occurrence: String::new(),
        })
    });
    faulty.collect()
}
