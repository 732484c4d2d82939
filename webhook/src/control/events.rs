//! Events of Kubernetes that the webhook publishes: each is a row, and one sender publishes all of them.
//!
//! A row lists the current facts. The leader publishes new facts at a bounded rate, outside any request: one Event
//! for each object, note and occurrence, while the fact holds. Its name follows from these three, so that every
//! leader writes the same Event, and an API server that has it already gets no further request.

mod certificate_steps;
mod invalid_profiles;
pub mod mode_changes;
mod node_brakes;
pub mod publisher;
mod quarantined_nodes;
mod quotas_above_limit;
mod ratio_owner_conflicts;
pub mod writer;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use self::mode_changes::ModeTracker;
use crate::{
    control::{certificates::CertificateState, quota_overshoot::QuotaOvershoots},
    store::{cluster::Cluster, lookup::ProfileLookup},
};

/// Time for which an Event about a past occurrence is listed.
const RECENT: Duration = Duration::from_secs(600);

/// An Event that the webhook publishes.
pub struct EventRow {
    /// Reason of the Event, in CamelCase.
    pub reason: &'static str,
    /// Action of the webhook, in CamelCase.
    pub action: &'static str,
    pub event_type: EventType,
    /// Description of the condition for users.
    pub about: &'static str,
    /// The least time between two of them about one object.
    pub every: Duration,
    /// Lists the facts that hold at a time of day.
    pub list: fn(&EventStores, Timestamp) -> Vec<EventFact>,
}

/// Type of an Event, as Kubernetes names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    Normal,
    /// Needs attention by an operator.
    Warning,
}

#[derive(Clone)]
pub struct EventStores {
    pub profiles: Arc<dyn ProfileLookup>,
    /// The quotas above their limit.
    pub overshoots: Arc<QuotaOvershoots>,
    /// The Nodes and their policies.
    pub cluster: Arc<Cluster>,
    pub modes: Arc<ModeTracker>,
    pub certificates: Arc<CertificateState>,
}

/// Something that is so, of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFact {
    pub regarding: EventObject,
    /// Fact and its consequence, for users.
    pub note: String,
    /// Distinguishes this occurrence from earlier ones with the same note, equally on all replicas; empty if
    /// occurrences are not distinguished.
    pub occurrence: String,
}

/// The object that an Event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventObject {
    pub api_version: &'static str,
    pub kind: &'static str,
    /// Its namespace, where the Event is as well; empty for none, and then the Event is in `default`.
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl EventType {
    /// Value of the Event's `type` field.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl EventObject {
    /// A Node. Its UID is its name, as in the Events of kubelets: every `kubectl describe node` shows those.
    fn node(name: &str) -> Self {
        Self {
            api_version: "v1",
            kind: "Node",
            namespace: String::new(),
            name: name.to_owned(),
            uid: name.to_owned(),
        }
    }
}

/// True for something that has happened not long before `now`, or after it by the clock of another replica.
fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    let age = now.duration_since(at);
    age.is_negative() || age.unsigned_abs() <= RECENT
}

/// Every Event. Where more are due than the rate allows, objects whose last Event is longest ago come first, and among these
/// the first rows.
pub static ROWS: &[&EventRow] = &[
    &quarantined_nodes::ROW,
    &ratio_owner_conflicts::ROW,
    &node_brakes::BRAKED,
    &node_brakes::RELEASED,
    &mode_changes::ROW,
    &invalid_profiles::ROW,
    &quotas_above_limit::ROW,
    &certificate_steps::PROBLEM,
    &certificate_steps::STEP,
];

#[cfg(test)]
mod tests;
