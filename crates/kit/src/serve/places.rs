//! The places of a listener, one for each connection. A full listener closes an idle connection for a newcomer.
//!
//! A connection is idle while the next step is up to its client: the handshake, a request, the reading of an answer. A
//! connection that was never of use is closed before one that was, the longest idle before others. None is closed before
//! it was idle for `Limits::settle`.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::{future::poll_fn, task::AtomicWaker};
use tokio::time::Instant;

use super::Limits;
use crate::metric::process::{CONNECTIONS, REFUSED};

/// Connections looked at to find one that is idle; those found at work are not looked at again for a while.
const LOOKS: usize = 64;
/// Set in the rank of a connection that was of use.
const WAS_OF_USE: u64 = 1 << 63;

/// Everybody who has a place.
pub(super) struct Places {
    name: &'static str,
    limits: Limits,
    started: Instant,
    state: Mutex<PlacesState>,
}

#[derive(Default)]
struct PlacesState {
    /// Places taken, without those of connections that were told to close.
    open: usize,
    next_id: u64,
    /// All that nobody holds.
    queue: Queue,
    /// The same by source, where a source has its limit.
    sources: HashMap<IpAddr, Queue>,
}

/// Connections in the order in which they are to be closed, by the rank that they had when they were last looked at.
type Queue = BTreeMap<(u64, u64), Arc<Usage>>;

/// A place, given back on drop.
pub(super) struct Place {
    handle: ConnectionPlace,
    open: metrics::Gauge,
}

/// How one connection is used.
pub(super) struct Usage {
    id: u64,
    source: IpAddr,
    /// Answers under way.
    answers: AtomicUsize,
    /// [`WAS_OF_USE`] or not, and since when it is idle, in microseconds since the listener's start.
    rank: AtomicU64,
    /// Under which rank it is queued. Changes while the state is locked, as the next two do.
    queued: AtomicU64,
    holds: AtomicUsize,
    is_closing: AtomicBool,
    waker: AtomicWaker,
}

/// A connection's usage and where it is kept.
#[derive(Clone)]
pub(super) struct ConnectionPlace {
    places: Arc<Places>,
    usage: Arc<Usage>,
}

/// While this lives, its connection is not closed to make room, and no limit of its source counts it.
#[must_use = "the connection is held until this is dropped"]
pub struct Hold(ConnectionPlace);

/// While this lives, an answer is under way.
pub(super) struct Answering(ConnectionPlace);

impl Places {
    pub(super) fn new(name: &'static str, limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            name,
            limits,
            started: Instant::now(),
            state: Mutex::default(),
        })
    }

    /// A place for a newcomer, that of another if need be; `None` if nobody's can be had.
    pub(super) fn acquire(self: &Arc<Self>, source: IpAddr) -> Option<Place> {
        let now = self.now();
        let mut state = self.lock();
        let Limits {
            connections,
            per_source,
            settle,
            ..
        } = self.limits;
        let settled = now.saturating_sub(micros(settle));
        let most = per_source.unwrap_or(usize::MAX);
        let is_source_full = state.sources.get(&source).is_some_and(|own| own.len() >= most);
        if is_source_full || state.open >= connections {
            let only = is_source_full.then_some(source);
            let Some(longest) = state.longest_idle(only, now, settled) else {
                let reason = if is_source_full { "source_full" } else { "full" };
                REFUSED.with([self.name, reason]).increment(1);
                return None;
            };
            state.close(&longest);
            REFUSED.with([self.name, "made_room"]).increment(1);
        }
        let usage = Arc::new(Usage {
            id: state.next_id,
            source,
            answers: AtomicUsize::new(0),
            rank: AtomicU64::new(now),
            queued: AtomicU64::new(now),
            holds: AtomicUsize::new(0),
            is_closing: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        state.next_id += 1;
        state.open += 1;
        state.insert(&usage, per_source.is_some());
        drop(state);
        let open = CONNECTIONS.with([self.name]);
        open.increment(1);
        let places = Arc::clone(self);
        let handle = ConnectionPlace { places, usage };
        Some(Place { handle, open })
    }

    /// Microseconds since the start.
    fn now(&self) -> u64 {
        micros(self.started.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, PlacesState> {
        // Nothing in here panics between two changes that belong together.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PlacesState {
    /// The connection, of all or of one source, to be closed first; `None` if none is idle since `settled`.
    fn longest_idle(&mut self, only: Option<IpAddr>, now: u64, settled: u64) -> Option<Arc<Usage>> {
        for _ in 0..LOOKS {
            let queue = match &only {
                None => &self.queue,
                Some(source) => self.sources.get(source)?,
            };
            let mut firsts = [0, WAS_OF_USE]
                .into_iter()
                .filter_map(|class| queue.range((class, 0)..).next())
                .filter(|((rank, _), _)| rank & !WAS_OF_USE <= settled);
            let usage = Arc::clone(firsts.next()?.1);
            let is_at_work = usage.answers.load(Ordering::Acquire) > 0;
            let rank = if is_at_work {
                // Later than anything that counts as idle now.
                WAS_OF_USE | now.saturating_add(1)
            } else {
                usage.rank.load(Ordering::Acquire)
            };
            if !is_at_work && rank == usage.queued.load(Ordering::Relaxed) {
                return Some(usage);
            }
            let has_source = self.remove(&usage);
            usage.queued.store(rank, Ordering::Relaxed);
            self.insert(&usage, has_source);
        }
        None
    }

    /// Tells a connection to close; its place is free at once.
    fn close(&mut self, usage: &Arc<Usage>) {
        self.remove(usage);
        self.open = self.open.saturating_sub(1);
        usage.is_closing.store(true, Ordering::Release);
        usage.waker.wake();
    }

    fn insert(&mut self, usage: &Arc<Usage>, has_source: bool) {
        let key = usage.key();
        self.queue.insert(key, Arc::clone(usage));
        if has_source {
            let own = self.sources.entry(usage.source).or_default();
            own.insert(key, Arc::clone(usage));
        }
    }

    /// Takes it out of the queues; true if it was in one of its source.
    fn remove(&mut self, usage: &Usage) -> bool {
        let key = usage.key();
        self.queue.remove(&key);
        let Some(own) = self.sources.get_mut(&usage.source) else {
            return false;
        };
        let was_there = own.remove(&key).is_some();
        if own.is_empty() {
            self.sources.remove(&usage.source);
        }
        was_there
    }
}

impl Place {
    /// The usage of its connection.
    pub(super) fn handle(&self) -> ConnectionPlace {
        self.handle.clone()
    }

    /// As [`ConnectionPlace::must_close`].
    pub(super) fn must_close(&self, cx: &Context<'_>) -> bool {
        self.handle.must_close(cx)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.decrement(1);
        let ConnectionPlace { places, usage } = &self.handle;
        let mut state = places.lock();
        // Whoever was told to close has given its place already.
        if !usage.is_closing.swap(true, Ordering::AcqRel) {
            state.remove(usage);
            state.open = state.open.saturating_sub(1);
        }
    }
}

impl Usage {
    fn key(&self) -> (u64, u64) {
        (self.queued.load(Ordering::Relaxed), self.id)
    }
}

impl ConnectionPlace {
    /// An answer begins.
    pub(super) fn answer(&self) -> Answering {
        self.usage.answers.fetch_add(1, Ordering::AcqRel);
        Answering(self.clone())
    }

    /// Keeps the connection out of the queues until the hold is dropped.
    pub(super) fn pin(&self) -> Hold {
        let Self { places, usage } = self;
        let mut state = places.lock();
        if usage.holds.fetch_add(1, Ordering::Relaxed) == 0 {
            state.remove(usage);
        }
        drop(state);
        Hold(self.clone())
    }

    /// True if the connection is to be closed now; else `cx` is woken when it is.
    pub(super) fn must_close(&self, cx: &Context<'_>) -> bool {
        self.usage.waker.register(cx.waker());
        self.usage.is_closing.load(Ordering::Acquire) && self.usage.answers.load(Ordering::Acquire) == 0
    }

    /// Completes when the connection is to be closed.
    pub(super) async fn closing(&self) {
        poll_fn(|cx| {
            if self.must_close(cx) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let Self(ConnectionPlace { places, usage }) = self;
        usage.rank.store(WAS_OF_USE | places.now(), Ordering::Release);
        if usage.answers.fetch_sub(1, Ordering::AcqRel) == 1 {
            // It may have been told to close meanwhile.
            usage.waker.wake();
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let Self(ConnectionPlace { places, usage }) = self;
        let rank = WAS_OF_USE | places.now();
        let mut state = places.lock();
        usage.rank.store(rank, Ordering::Release);
        let is_last = usage.holds.fetch_sub(1, Ordering::Relaxed) == 1;
        if is_last && !usage.is_closing.load(Ordering::Acquire) {
            usage.queued.store(rank, Ordering::Relaxed);
            state.insert(usage, places.limits.per_source.is_some());
        }
    }
}

impl fmt::Debug for ConnectionPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Handle")
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(WAS_OF_USE - 1)
}
