//! A scheduler's status writes: status and annotations of each quota change every second, and the watch delivers all
//! of them.

use std::{
    sync::{Arc, Weak},
    thread::{self, sleep},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use headroom_webhook::store::{informer::Store as _, quota::index::QuotaIndex};

use super::tree::Tree;
use crate::cost::cpu_us;

/// Interval between writes of one quota.
const ROUND: Duration = Duration::from_secs(1);
/// Events without a pause between them.
const AT_ONCE: usize = 100;
/// Rounds of events that are kept in memory and repeated.
const ROUNDS: u32 = 2;

/// Applies events to an index on a separate thread, until the index is dropped.
pub(super) fn start(tree: Tree, index: &Arc<QuotaIndex>) {
    let index = Arc::downgrade(index);
    thread::spawn(move || {
        let rounds: Vec<Vec<String>> = (2..2 + ROUNDS)
            .map(|round| tree.watched(round).collect())
            .collect();
        let mut rounds = rounds.iter().cycle();
        while let Some(events) = rounds.next()
            && apply(events, &index)
        {}
    });
}

/// Applies the events of one round; false once the index is dropped.
fn apply(events: &[String], index: &Weak<QuotaIndex>) -> bool {
    let began = Instant::now();
    let mut due = Duration::ZERO;
    for some in events.chunks(AT_ONCE) {
        let Some(index) = index.upgrade() else {
            return false;
        };
        for event in some {
            if let Ok(object) = serde_json::from_str(event) {
                index.apply(object);
            }
        }
        due +=
            ROUND * u32::try_from(some.len()).unwrap_or(u32::MAX) / u32::try_from(events.len()).unwrap_or(1);
        sleep(due.saturating_sub(began.elapsed()));
    }
    true
}

/// CPU time per event, decoding included, in microseconds.
///
/// # Errors
/// If an event changes data that requests read.
pub(super) fn cost(tree: Tree, index: &QuotaIndex) -> Result<f64> {
    let events: Vec<String> = tree.watched(2).collect();
    let (before, mut is_read) = (index.writes(), true);
    let total = cpu_us(|| {
        for event in &events {
            match serde_json::from_str(event) {
                Ok(object) => index.apply(object),
                Err(_) => is_read = false,
            }
        }
    });
    ensure!(is_read, "an event cannot be parsed");
    ensure!(
        index.writes() == before,
        "a status write changed data that requests read"
    );
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 events")]
    Ok(total / events.len() as f64)
}
