//! [`Publisher`]: publishes what rows list, while this replica leads, at a bounded rate.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use headroom_kit::{log::chain, pace::Pace};
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

/// How often rows are asked.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The time between two Events after the first few, of all rows together.
const PUBLISH_EVERY: Duration = Duration::from_secs(6);
/// Events that are published at once after a quiet time.
const BURST: u32 = 20;
/// After this time an Event is published again if it is still so: API servers forget Events after an hour.
const AGAIN_AFTER: Duration = Duration::from_secs(3_600);

/// Of which object an Event is: its reason and the object's UID.
type EventKey = (&'static str, String);

/// Publishes Events.
pub struct Publisher {
    rows: &'static [&'static EventRow],
    stores: EventStores,
    writer: Arc<dyn EventWriter>,
    pace: Pace,
    started: Instant,
    /// What was published last, of each object of which something is so: the hash of its note, and when.
    published: BTreeMap<EventKey, (u64, Instant)>,
    /// When the API server refused what is so of an object: others come first then.
    failed: BTreeMap<EventKey, Instant>,
}

impl Publisher {
    /// Publishes through this writer what these rows list.
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
        }
    }

    /// Publishes whenever this replica leads, until told to stop.
    pub async fn publish(mut self, is_leader: watch::Receiver<bool>, stop: CancellationToken) {
        loop {
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

    /// Publishes what is due, as much as the rate allows.
    async fn publish_due(&mut self, is_leader: &watch::Receiver<bool>) {
        let mut current = BTreeSet::new();
        let mut due = Vec::new();
        let now = Instant::now();
        for row in self.rows {
            for fact in (row.list)(&self.stores) {
                let key = key_of(row, &fact);
                if self.is_due(&key, &fact, now) {
                    due.push((*row, fact));
                }
                current.insert(key);
            }
        }
        // What is so no longer is forgotten, so that memory is bounded by what is so.
        self.published.retain(|key, _| current.contains(key));
        self.failed.retain(|key, _| current.contains(key));
        due.sort_by_key(|(row, fact)| self.failed.get(&key_of(row, fact)).copied());
        for (row, fact) in due {
            let is_early = self.pace.try_acquire(self.started.elapsed()).is_err();
            if is_early || !*is_leader.borrow() {
                // The rest is still so when it is its turn.
                return;
            }
            self.write(row, &fact).await;
        }
    }

    fn is_due(&self, key: &EventKey, fact: &EventFact, now: Instant) -> bool {
        let published = self.published.get(key);
        published.is_none_or(|(note, at)| *note != hash(&fact.note) || now.duration_since(*at) >= AGAIN_AFTER)
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
                    "an Event cannot be published; it is tried again"
                );
                "failed"
            }
        };
        EVENTS.with([row.reason, result]).increment(1);
        let key = key_of(row, fact);
        if result == "failed" {
            self.failed.insert(key, Instant::now());
        } else {
            self.failed.remove(&key);
            self.published.insert(key, (hash(&fact.note), Instant::now()));
        }
    }
}

fn key_of(row: &EventRow, fact: &EventFact) -> EventKey {
    (row.reason, fact.regarding.uid.clone())
}

fn hash(note: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    note.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
