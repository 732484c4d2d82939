//! Queue of token reviews, with limits in total, for each connection and for each source address. It limits reviews at
//! once, the wait of a caller, and the bad tokens of a connection or source.

use std::{
    collections::HashMap,
    hash::Hash,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use headroom_kit::{pace::Pace, serve::source};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout},
};

use crate::hints::CONNECTIONS;

/// Maximum time that a caller waits for a permit.
const WAIT: Duration = Duration::from_secs(2);
/// Connections, and sources, that have a share of their own; all others have one share together. The number equals
/// the connection limit of the port, since a whole fleet may reconnect at once.
const MOST_KNOWN: usize = CONNECTIONS;
/// Minimum time between two removals of shares that are no longer needed.
const FORGET_EVERY: Duration = Duration::from_secs(1);

/// Allowance of one connection: agents and tools present one token on each.
const OF_CONNECTION: Allowance = Allowance {
    running: 1,
    waiting: 4,
    bad_every: Duration::from_secs(1),
    bad_burst: 3,
};
/// Allowance of one source: enough for a machine that forwards many agents from one address.
const OF_SOURCE: Allowance = Allowance {
    running: 8,
    waiting: 64,
    bad_every: Duration::from_millis(100),
    bad_burst: 50,
};

/// Queue for token reviews.
pub(super) struct ReviewQueue {
    permits: Arc<Semaphore>,
    connections: Shares<SocketAddr>,
    sources: Shares<IpAddr>,
    started: Instant,
}

/// The right to have one token reviewed, given back on drop.
pub(super) struct ReviewPermit {
    shares: [Arc<Share>; 2],
    started: Instant,
    _held: Vec<OwnedSemaphorePermit>,
}

/// Part of a queue that one connection or source may use.
#[derive(Debug, Clone, Copy)]
struct Allowance {
    running: usize,
    /// Waiting callers; one more is refused.
    waiting: usize,
    /// Steady rate of invalid tokens; a source above it gets no reviews.
    bad_every: Duration,
    /// Bad tokens after a quiet time.
    bad_burst: u32,
}

/// The shares of all connections, or of all sources.
struct Shares<K> {
    allowance: Allowance,
    known: Mutex<Known<K>>,
    /// Share of all callers without one of their own.
    common: Arc<Share>,
}

struct Known<K> {
    shares: HashMap<K, Arc<Share>>,
    searched: Duration,
}

/// Use of one connection or source.
struct Share {
    places: Arc<Semaphore>,
    permits: Arc<Semaphore>,
    bad: Mutex<Pace>,
}

impl ReviewQueue {
    /// Queue with this number of concurrent reviews.
    pub(super) fn new(running: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(running)),
            connections: Shares::new(OF_CONNECTION),
            sources: Shares::new(OF_SOURCE),
            started: Instant::now(),
        }
    }

    /// Permit of a caller; `None` if too many wait, if the wait is too long or if the caller showed too many invalid
    /// tokens.
    pub(super) async fn acquire(&self, caller: SocketAddr) -> Option<ReviewPermit> {
        let now = self.started.elapsed();
        let shares = [
            self.connections.share(caller, now),
            self.sources.share(source(caller), now),
        ];
        if shares.iter().any(|share| share.is_spent(now)) {
            return None;
        }
        let mut held = Vec::with_capacity(5);
        for share in &shares {
            held.push(Arc::clone(&share.places).try_acquire_owned().ok()?);
        }
        let [connection, source] = &shares;
        // Own limits first: a connection or source that waits for them holds nothing that others wait for.
        let permits = async {
            for semaphore in [&connection.permits, &source.permits, &self.permits] {
                // None of them is ever closed.
                held.push(Arc::clone(semaphore).acquire_owned().await.ok()?);
            }
            Some(())
        };
        timeout(WAIT, permits).await.ok()??;
        // Invalid tokens of the same source in the meantime count as well.
        let now = self.started.elapsed();
        (!shares.iter().any(|share| share.is_spent(now))).then_some(ReviewPermit {
            shares,
            started: self.started,
            _held: held,
        })
    }
}

impl ReviewPermit {
    pub(super) fn was_bad(&self) {
        let now = self.started.elapsed();
        for share in &self.shares {
            share.lock().charge(now);
        }
    }
}

impl<K: Eq + Hash> Shares<K> {
    fn new(allowance: Allowance) -> Self {
        Self {
            allowance,
            known: Mutex::new(Known {
                shares: HashMap::new(),
                searched: Duration::ZERO,
            }),
            common: Arc::new(Share::new(allowance)),
        }
    }

    fn share(&self, key: K, now: Duration) -> Arc<Share> {
        // Every change leaves a whole map: a panic elsewhere does no harm.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = known.shares.get(&key) {
            return Arc::clone(share);
        }
        if known.shares.len() >= MOST_KNOWN / 2 && now >= known.searched + FORGET_EVERY {
            known.searched = now;
            known
                .shares
                .retain(|_, share| Arc::strong_count(share) > 1 || !share.is_rested(now));
        }
        if known.shares.len() >= MOST_KNOWN {
            return Arc::clone(&self.common);
        }
        let share = Arc::new(Share::new(self.allowance));
        known.shares.insert(key, Arc::clone(&share));
        share
    }
}

impl Share {
    fn new(allowance: Allowance) -> Self {
        let Allowance {
            running,
            waiting,
            bad_every,
            bad_burst,
        } = allowance;
        Self {
            places: Arc::new(Semaphore::new(running + waiting)),
            permits: Arc::new(Semaphore::new(running)),
            bad: Mutex::new(Pace::new(bad_every, bad_burst)),
        }
    }

    /// True if it is above its rate of invalid tokens.
    fn is_spent(&self, now: Duration) -> bool {
        // A copy: asking costs nothing, a bad token does.
        let mut pace = *self.lock();
        pace.try_acquire(now).is_err()
    }

    /// True if no invalid token of it counts any more.
    fn is_rested(&self, now: Duration) -> bool {
        self.lock().is_rested(now)
    }

    fn lock(&self) -> MutexGuard<'_, Pace> {
        self.bad.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn from(host: u8, port: u16) -> SocketAddr {
        ([127, 0, 0, host], port).into()
    }

    #[tokio::test(start_paused = true)]
    async fn one_source_gets_its_share_and_leaves_the_rest_to_others() {
        let queue = ReviewQueue::new(OF_SOURCE.running + 1);
        let mut permits = Vec::new();
        for port in 1..=8 {
            permits.push(queue.acquire(from(2, port)).await.unwrap());
        }
        let begun = Instant::now();
        assert!(queue.acquire(from(2, 9)).await.is_none());
        assert_eq!(begun.elapsed(), WAIT);
        permits.push(queue.acquire(from(1, 1)).await.unwrap());
        assert!(begun.elapsed() == WAIT, "another source waited");
        assert!(
            queue.acquire(from(1, 2)).await.is_none(),
            "more run than there are permits"
        );
        permits.clear();
        assert!(queue.acquire(from(2, 9)).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_has_one_review_at_a_time() {
        let queue = ReviewQueue::new(32);
        let first = queue.acquire(from(2, 1)).await.unwrap();
        assert!(queue.acquire(from(2, 1)).await.is_none());
        drop(first);
        assert!(queue.acquire(from(2, 1)).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn one_more_than_may_wait_is_refused_at_once() {
        let queue = Arc::new(ReviewQueue::new(32));
        let _first = queue.acquire(from(2, 1)).await.unwrap();
        let waiting: Vec<_> = (0..OF_CONNECTION.waiting)
            .map(|_| {
                let queue = Arc::clone(&queue);
                tokio::spawn(async move { queue.acquire(from(2, 1)).await.is_some() })
            })
            .collect();
        tokio::task::yield_now().await;
        let begun = Instant::now();
        assert!(queue.acquire(from(2, 1)).await.is_none());
        assert_eq!(begun.elapsed(), Duration::ZERO);
        drop(waiting);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_shows_bad_tokens_waits_longer_each_time() {
        let queue = ReviewQueue::new(32);
        for _ in 0..OF_CONNECTION.bad_burst {
            queue.acquire(from(2, 1)).await.unwrap().was_bad();
        }
        assert!(queue.acquire(from(2, 1)).await.is_none());
        assert!(
            queue.acquire(from(2, 2)).await.is_some(),
            "another connection suffers"
        );
        advance(OF_CONNECTION.bad_every).await;
        assert!(queue.acquire(from(2, 1)).await.is_some());

        // The same over many connections: the source is spent.
        let mut reviewed = 0;
        for port in 100..1100 {
            if let Some(permit) = queue.acquire(from(3, port)).await {
                permit.was_bad();
                reviewed += 1;
            }
        }
        assert_eq!(reviewed, OF_SOURCE.bad_burst);
        assert!(
            queue.acquire(from(1, 1)).await.is_some(),
            "another source suffers"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_fleet_that_comes_back_at_once_finds_a_share_for_each() {
        let queue = ReviewQueue::new(32);
        let now = Duration::ZERO;
        let shares: Vec<_> = (0..u32::try_from(CONNECTIONS).unwrap())
            .map(|agent| {
                queue
                    .sources
                    .share((0x0a00_0000 + agent).to_be_bytes().into(), now)
            })
            .collect();
        let common = &queue.sources.common;
        assert!(shares.iter().all(|share| !Arc::ptr_eq(share, common)));
        let beyond = queue.sources.share([127, 0, 0, 1].into(), now);
        assert!(Arc::ptr_eq(&beyond, common), "what is kept is not bounded");
    }

    #[tokio::test(start_paused = true)]
    async fn shares_at_rest_are_forgotten_and_what_is_kept_is_bounded() {
        let queue = ReviewQueue::new(32);
        let count = || queue.connections.known.lock().unwrap().shares.len();
        for port in 0..u16::MAX {
            if let Some(permit) = queue.acquire(from(2, port)).await {
                permit.was_bad();
            }
            if port % 8 == 0 {
                advance(Duration::from_millis(8)).await;
            }
            assert!(count() <= MOST_KNOWN);
        }
        advance(Duration::from_secs(60)).await;
        queue.acquire(from(4, 1)).await.unwrap();
        assert!(count() < MOST_KNOWN / 2, "{}", count());
    }
}
