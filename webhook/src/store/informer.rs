//! Keeps a store equal to the API server's objects through outages of any length, and marks it unknown when it may be
//! out of date.
//!
//! A store without activity of the API server for [`UNKNOWN_AFTER`] is unknown, not empty and not unchanged: a dead
//! connection resembles a quiet cluster. Bookmarks, and watches that end on time, distinguish the two.
//!
//! Objects are read one by one. One that cannot be read spoils neither its list nor its watch.

mod error_log;
mod event;
mod health;
mod list_splitter;
mod presence;
mod reading;
mod watch_error;
mod watch_loop;

use std::{fmt::Debug, sync::Arc, time::Duration};

use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::{
    select,
    sync::{Notify, watch},
};
use tokio_util::sync::CancellationToken;

use self::{health::InformerHealth, watch_loop::WatchLoop};
pub use self::{
    health::{LastActivity, UNKNOWN_AFTER},
    presence::Presence,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// Metric label and log field.
    pub name: &'static str,
    /// Presence of the resource in the API server.
    pub presence: Presence,
}

/// A store that follows one resource.
pub trait Store: Send + Sync {
    /// The objects, with as much of them as the store reads.
    type Object: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static;
    /// A list that is being received.
    type Listing: Default + Send;
    /// Field selector for the objects of the resource; all objects by default.
    fn fields(&self) -> Option<String> {
        None
    }

    /// Notified when all objects must be listed again without an error.
    fn relist(&self) -> Option<&Notify> {
        None
    }

    /// Time without a working watch after which the store is unknown; by default only [`UNKNOWN_AFTER`] without
    /// activity counts.
    fn fails_within(&self) -> Option<Duration> {
        None
    }

    /// An empty list, to which objects are added as they come.
    fn listing(&self) -> Self::Listing {
        Self::Listing::default()
    }

    /// Adds one object of a list.
    fn list(listing: &mut Self::Listing, object: Self::Object);
    /// Replaces everything by a complete list.
    fn replace(&self, listing: Self::Listing);
    /// Applies a new or changed object.
    fn apply(&self, object: Self::Object);
    /// Applies the last state of a deleted object.
    fn delete(&self, object: Self::Object);
    /// Applies a new or changed object that cannot be read. `object` has only its names, version, labels, annotations,
    /// node and phase. The last readable state stays in force.
    fn apply_unreadable(&self, _object: Self::Object) {}
    /// Adds an object of a list that cannot be read: its last readable state, if the store has one.
    fn list_unreadable(&self, _listing: &mut Self::Listing, _object: Self::Object) {}
    /// Records whether the store still follows the API server. Until it does, the store answers that it does not
    /// know; it begins as unknown, and a complete list makes it known.
    fn set_known(&self, is_known: bool);
}

/// Follows the resource until `stop` is cancelled, reports each change of its known state, and the time of the last
/// activity.
pub async fn follow<S: Store>(
    subject: Subject,
    api: Api<S::Object>,
    store: Arc<S>,
    (is_known, last_activity): (watch::Sender<bool>, LastActivity),
    stop: CancellationToken,
) {
    let health = InformerHealth::new(subject.name, &*store, is_known, last_activity);
    select! {
        () = stop.cancelled() => {}
        never = WatchLoop::new(subject, api, &*store, &health).follow() => match never {},
        never = health.watch() => match never {},
    }
}

/// Resource version as a number, which orders the versions of one resource; 0 if there is none.
pub fn version<K: Resource>(object: &K) -> u64 {
    object
        .meta()
        .resource_version
        .as_deref()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
