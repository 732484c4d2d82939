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
                let key = (row.reason, fact.regarding.uid.clone());
                if self.is_due(&key, &fact, now) {
                    due.push((*row, fact));
                }
                current.insert(key);
            }
        }
        // What is so no longer is forgotten, so that memory is bounded by what is so.
        self.published.retain(|key, _| current.contains(key));
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
        if result != "failed" {
            let key = (row.reason, fact.regarding.uid.clone());
            self.published.insert(key, (hash(&fact.note), Instant::now()));
        }
    }
}

fn hash(note: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    note.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
