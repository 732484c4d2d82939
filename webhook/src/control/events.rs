//! Events of Kubernetes that the webhook publishes: each is a row, and one sender publishes all of them.
//!
//! A row lists what is so now. The leader publishes what it has not published yet, at a bounded rate, off the path of any
//! request: one Event for each object and note, as long as it is so. Its name follows from both, so that the Event is the same
//! one whichever replica leads, and an API server that has it already is asked for nothing more.

mod invalid_profiles;
pub mod publisher;
mod quotas_above_limit;
pub mod writer;

use std::sync::Arc;

use crate::{control::quota_overshoot::QuotaOvershoots, store::lookup::ProfileLookup};

/// An Event that the webhook publishes.
pub struct EventRow {
    /// Why, in CamelCase.
    pub reason: &'static str,
    /// What the webhook did, in CamelCase.
    pub action: &'static str,
    /// When there is one, for people.
    pub about: &'static str,
    /// What is so now.
    pub list: fn(&EventStores) -> Vec<EventFact>,
}

/// What rows read.
#[derive(Clone)]
pub struct EventStores {
    /// The colocation profiles.
    pub profiles: Arc<dyn ProfileLookup>,
    /// The quotas above their limit.
    pub overshoots: Arc<QuotaOvershoots>,
}

/// Something that is so, of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFact {
    /// The object.
    pub regarding: EventObject,
    /// What is so, and what follows.
    pub note: String,
}

/// The object that an Event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventObject {
    /// As in `v1`.
    pub api_version: &'static str,
    /// As in `Node`.
    pub kind: &'static str,
    /// Its namespace, where the Event is as well; empty for none, and then the Event is in `default`.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// Every Event.
pub static ROWS: &[&EventRow] = &[&invalid_profiles::ROW, &quotas_above_limit::ROW];
