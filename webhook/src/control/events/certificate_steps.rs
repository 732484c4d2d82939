//! The Events about the Secret with certificates: a step of a rotation, and a problem.

use std::time::Duration;

use jiff::Timestamp;

use super::{EventFact, EventObject, EventRow, EventStores, EventType, is_recent};
use crate::control::certificates::LastStep;

pub(super) static STEP: EventRow = EventRow {
    reason: "CertificateRotation",
    action: "RotateCertificates",
    event_type: EventType::Normal,
    about: "The CA's rotation has reached its next state, listed for ten minutes. The Event is about the Secret.",
    every: Duration::ZERO,
    list: steps,
};

pub(super) static PROBLEM: EventRow = EventRow {
    reason: "CertificateProblem",
    action: "RotateCertificates",
    event_type: EventType::Warning,
    about: "The newest certificates cannot be used, or an object does not have the CA bundle. The Event is about the Secret.",
    every: Duration::from_secs(600),
    list: problems,
};

fn steps(stores: &EventStores, now: Timestamp) -> Vec<EventFact> {
    let steps = stores.certificates.steps().into_iter();
    let recent = steps.filter(|LastStep { progress, .. }| {
        Timestamp::from_second(progress.since_s).is_ok_and(|at| is_recent(at, now))
    });
    let facts = recent.map(|LastStep { uid, progress }| EventFact {
        regarding: secret(stores, uid),
        note: format!(
            "Rotation of the CA: {}, because {}",
            progress.state.name(),
            progress.reason
        ),
        occurrence: progress.since_s.to_string(),
    });
    facts.collect()
}

fn problems(stores: &EventStores, _now: Timestamp) -> Vec<EventFact> {
    let uid = stores
        .certificates
        .step()
        .map_or_else(String::new, |step| step.uid);
    let problems = stores.certificates.problems().into_iter();
    let facts = problems.map(|note| EventFact {
        regarding: secret(stores, uid.clone()),
        note,
        occurrence: String::new(),
    });
    facts.collect()
}

fn secret(stores: &EventStores, uid: String) -> EventObject {
    let installation = stores.cluster.floor.installation();
    EventObject {
        api_version: "v1",
        kind: "Secret",
        namespace: installation.namespace.to_string(),
        name: installation.named(headroom_domain::names::CERTIFICATES_SECRET),
        uid,
    }
}
