//! [`LineLimit`]: limits the log lines about events that a client can cause, so that a flood of events hides no others.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{metric::process::LOG_DROPPED, pace::Pace};

/// Number of keys from which on those that need no limit any more are removed.
const MANY: usize = 1024;

/// Selects the events that are logged: for each key a steady rate, with a burst after a quiet time.
#[derive(Debug)]
pub struct LineLimit<K = ()> {
    every: Duration,
    burst: u32,
    started: Instant,
    keys: Mutex<Keys<K>>,
}

#[derive(Debug)]
struct Keys<K> {
    counts: HashMap<K, LineCounts>,
    /// Number of keys at which unneeded ones are searched.
    search_at: usize,
}

#[derive(Debug)]
struct LineCounts {
    pace: Pace,
    left_out: u64,
}

impl<K: Eq + Hash> LineLimit<K> {
    /// One line per `every` for each key, and up to `burst` at once.
    pub fn new(every: Duration, burst: u32) -> Self {
        Self {
            every,
            burst,
            started: Instant::now(),
            keys: Mutex::new(Keys {
                counts: HashMap::new(),
                search_at: MANY,
            }),
        }
    }

    /// The number of events of this key without a line before this one; `None` if this one gets no line either.
    pub fn line(&self, key: K) -> Option<u64> {
        self.line_at(key, self.started.elapsed())
    }

    fn line_at(&self, key: K, now: Duration) -> Option<u64> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.counts.len() >= keys.search_at {
            keys.counts
                .retain(|_, counts| counts.left_out > 0 || !counts.pace.is_rested(now));
            keys.search_at = MANY.max(2 * keys.counts.len());
        }
        let counts = keys.counts.entry(key).or_insert_with(|| LineCounts {
            pace: Pace::new(self.every, self.burst),
            left_out: 0,
        });
        if counts.pace.try_acquire(now).is_err() {
            counts.left_out = counts.left_out.saturating_add(1);
            LOG_DROPPED.with(["rate"]).increment(1);
            return None;
        }
        Some(std::mem::take(&mut counts.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(1);
    const BURST: u32 = 50;

    #[test]
    fn a_flood_has_few_lines_and_the_next_one_counts_the_rest() {
        let limit = LineLimit::new(EVERY, BURST);
        let lines = (0..10_000)
            .filter_map(|_| limit.line_at("a", Duration::ZERO))
            .count();
        assert_eq!(lines, BURST as usize);
        assert_eq!(
            limit.line_at("b", Duration::ZERO),
            Some(0),
            "each key has its own limit"
        );
        assert_eq!(limit.line_at("a", EVERY), Some(10_000 - u64::from(BURST)));
        assert_eq!(limit.line_at("a", EVERY * 2), Some(0));
    }

    #[test]
    fn keys_of_quiet_clients_are_removed() {
        let limit = LineLimit::new(EVERY, BURST);
        for key in 0..100_000_u32 {
            limit.line_at(key, EVERY * key);
        }
        let known = limit.keys.lock().unwrap().counts.len();
        assert!(known <= MANY, "{known}");
    }
}
