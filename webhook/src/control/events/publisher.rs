//! [`Publisher`]: publishes the facts of all rows, while this replica leads, at a bounded rate.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use headroom_kit::{log::chain, pace::Pace};
use jiff::Timestamp;
use tokio::{
    select,
    sync::watch,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    EventFact, EventRow, EventStores,
    writer::{EventResult, EventWriter},
};
use crate::control::metrics::EVENTS;

/// Interval between two evaluations of the rows.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The time between two Events after the first few, of all rows together.
const PUBLISH_EVERY: Duration = Duration::from_secs(6);
/// Events that are published at once after a quiet time.
const BURST: u32 = 20;
/// After this time an Event is published again if it is still so: API servers forget Events after an hour.
const AGAIN_AFTER: Duration = Duration::from_secs(3_600);

/// Time for which an object's last Event counts in the order of objects. At the rate above these are a few hundred.
const TURN_COUNTS_FOR: Duration = AGAIN_AFTER;

/// Of which object an Event is: its reason and the object's UID.
type EventKey = (&'static str, String);

/// An object: its kind and its UID, which of a Node is its name.
type ObjectKey = (&'static str, String);

/// An Event that was published.
struct Published {
    /// The hash of its note and occurrence.
    hash: u64,
    at: Instant,
    /// For how long the object has no other one of its row.
    every: Duration,
}

pub struct Publisher {
    rows: &'static [&'static EventRow],
    stores: EventStores,
    writer: Arc<dyn EventWriter>,
    pace: Pace,
    started: Instant,
    /// Last Event of each object, kept while its fact holds and while the object may have no other Event.
    published: BTreeMap<EventKey, Published>,
    /// Time of the last refused Event of an object: other objects go first.
    failed: BTreeMap<EventKey, Instant>,
    /// Time of the last Event of each object, refused ones included. Objects that have waited longer go first, so an
    /// object whose facts change all the time cannot delay the others.
    last_turns: BTreeMap<ObjectKey, Instant>,
}

impl Publisher {
    /// Publishes the facts of these rows through this writer.
    pub fn new(
        rows: &'static [&'static EventRow],
        stores: EventStores,
        writer: Arc<dyn EventWriter>,
    ) -> Self {
        Self {
            rows,
            stores,
            writer,
            pace: Pace::new(PUBLISH_EVERY, BURST),
            started: Instant::now(),
            published: BTreeMap::new(),
            failed: BTreeMap::new(),
            last_turns: BTreeMap::new(),
        }
    }

    /// Publishes whenever this replica leads, until `stop` is cancelled.
    pub async fn publish(mut self, is_leader: watch::Receiver<bool>, stop: CancellationToken) {
        loop {
            self.stores.modes.observe(&self.stores.cluster, Timestamp::now());
            if *is_leader.borrow() {
                select! {
                    () = stop.cancelled() => return,
                    () = self.publish_due(&is_leader) => {}
                }
            }
            select! {
                () = stop.cancelled() => return,
                () = sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Publishes due Events, as far as the rate allows.
    async fn publish_due(&mut self, is_leader: &watch::Receiver<bool>) {
        let mut current = BTreeSet::new();
        let mut due = Vec::new();
        let now = Instant::now();
        let time_of_day = Timestamp::now();
        for row in self.rows {
            for fact in (row.list)(&self.stores, time_of_day) {
                let key = key_of(row, &fact);
                if self.is_due(&key, &fact, now) {
                    due.push((*row, fact));
                }
                current.insert(key);
            }
        }
        // Facts that no longer hold are dropped, so that memory is bounded by current facts.
        self.published
            .retain(|key, published| current.contains(key) || !published.is_over(now));
        self.failed.retain(|key, _| current.contains(key));
        self.last_turns
            .retain(|_, at| now.duration_since(*at) < TURN_COUNTS_FOR);
        due.sort_by_cached_key(|(row, fact)| {
            let last_turn = self.last_turns.get(&object_of(fact)).copied();
            (last_turn, self.failed.get(&key_of(row, fact)).copied())
        });
        for (row, fact) in due {
            let is_early = self.pace.try_acquire(self.started.elapsed()).is_err();
            if is_early || !*is_leader.borrow() {
                // The other facts still hold at their turn.
                return;
            }
            self.write(row, &fact).await;
        }
    }

    fn is_due(&self, key: &EventKey, fact: &EventFact, now: Instant) -> bool {
        self.published.get(key).is_none_or(|published| {
            let is_other = published.hash != hash(fact);
            let is_forgotten = now.duration_since(published.at) >= AGAIN_AFTER;
            is_forgotten || is_other && published.is_over(now)
        })
    }

    async fn write(&mut self, row: &'static EventRow, fact: &EventFact) {
        let result = match self.writer.create(row, fact).await {
            Ok(EventResult::Created) => "created",
            Ok(EventResult::Present) => "present",
            Err(error) => {
                warn!(
                    reason = row.reason,
                    object = fact.regarding.name,
                    error = %chain(&error),
                    "could not publish an Event; retrying"
                );
                "failed"
            }
        };
        EVENTS.with([row.reason, result]).increment(1);
        self.last_turns.insert(object_of(fact), Instant::now());
        let key = key_of(row, fact);
        if result == "failed" {
            self.failed.insert(key, Instant::now());
        } else {
            self.failed.remove(&key);
            let published = Published {
                hash: hash(fact),
                at: Instant::now(),
                every: row.every,
            };
            self.published.insert(key, published);
        }
    }
}

impl Published {
    /// True if the object may have another one.
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.at) >= self.every
    }
}

fn key_of(row: &EventRow, fact: &EventFact) -> EventKey {
    (row.reason, fact.regarding.uid.clone())
}

fn object_of(fact: &EventFact) -> ObjectKey {
    (fact.regarding.kind, fact.regarding.uid.clone())
}

fn hash(fact: &EventFact) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&fact.note, &fact.occurrence).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
