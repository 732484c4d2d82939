//! Places of a listener, one per connection. A full listener closes an idle connection to accept another.
//!
//! A connection is idle while its client must act next: handshake, request, or reading a response. Connections that
//! never completed a request are closed first, then the longest idle. A connection is closed only after it was idle
//! for `Limits::settle`.

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

/// Maximum number of connections examined to find an idle one; a connection found busy moves to the end of the queue.
const LOOKS: usize = 64;
/// Bit in the rank of a connection that has completed a request.
const HAS_SERVED: u64 = 1 << 63;

/// All places of a listener.
pub(super) struct Places {
    name: &'static str,
    limits: Limits,
    started: Instant,
    state: Mutex<PlacesState>,
}

#[derive(Default)]
struct PlacesState {
    /// Number of places in use, without connections that are closing.
    open: usize,
    next_id: u64,
    /// All connections without a hold.
    queue: Queue,
    /// Connections by source, if the listener has a limit per source.
    sources: HashMap<IpAddr, Queue>,
}

/// Connections in closing order, by the rank at their last examination.
type Queue = BTreeMap<(u64, u64), Arc<Usage>>;

/// Place of a connection, released on drop.
pub(super) struct Place {
    handle: ConnectionPlace,
    open: metrics::Gauge,
}

pub(super) struct Usage {
    id: u64,
    source: IpAddr,
    /// Number of responses in progress.
    answers: AtomicUsize,
    /// [`HAS_SERVED`] bit, and the start of the idle time in microseconds since the listener's start.
    rank: AtomicU64,
    /// Rank under which the connection is queued. Changes only while the state is locked, like the next two fields.
    queued: AtomicU64,
    holds: AtomicUsize,
    is_closing: AtomicBool,
    waker: AtomicWaker,
}

/// A connection's usage and the places that contain it.
#[derive(Clone)]
pub(super) struct ConnectionPlace {
    places: Arc<Places>,
    usage: Arc<Usage>,
}

/// While it exists, its connection is not closed for others and does not count against its source's limit.
#[must_use = "the connection is held until this is dropped"]
pub struct Hold(ConnectionPlace);

/// While it exists, a response is in progress.
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

    /// Acquires a place for a new connection, if necessary by closing an idle one; `None` if no connection is idle.
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

    /// Microseconds since the listener's start.
    fn now(&self) -> u64 {
        micros(self.started.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, PlacesState> {
        // No code under this lock can panic between two related changes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PlacesState {
    /// Returns the connection to close first, of all or of one source; `None` if none is idle since `settled`.
    fn longest_idle(&mut self, only: Option<IpAddr>, now: u64, settled: u64) -> Option<Arc<Usage>> {
        for _ in 0..LOOKS {
            let queue = match &only {
                None => &self.queue,
                Some(source) => self.sources.get(source)?,
            };
            let mut firsts = [0, HAS_SERVED]
                .into_iter()
                .filter_map(|class| queue.range((class, 0)..).next())
                .filter(|((rank, _), _)| rank & !HAS_SERVED <= settled);
            let usage = Arc::clone(firsts.next()?.1);
            let is_at_work = usage.answers.load(Ordering::Acquire) > 0;
            let rank = if is_at_work {
                // Sorts after every connection that counts as idle now.
                HAS_SERVED | now.saturating_add(1)
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

    /// Tells a connection to close and frees its place immediately.
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

    /// Removes a connection from the queues; true if it was in its source's queue.
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
    /// Handle of this connection's usage.
    pub(super) fn handle(&self) -> ConnectionPlace {
        self.handle.clone()
    }

    pub(super) fn must_close(&self, cx: &Context<'_>) -> bool {
        self.handle.must_close(cx)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.decrement(1);
        let ConnectionPlace { places, usage } = &self.handle;
        let mut state = places.lock();
        // A closing connection has released its place already.
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
    /// Marks the start of a response.
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

    /// Returns true if the connection must be closed now; else `cx` is woken at that time.
    pub(super) fn must_close(&self, cx: &Context<'_>) -> bool {
        self.usage.waker.register(cx.waker());
        self.usage.is_closing.load(Ordering::Acquire) && self.usage.answers.load(Ordering::Acquire) == 0
    }

    /// Completes when the connection must be closed.
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
        usage.rank.store(HAS_SERVED | places.now(), Ordering::Release);
        if usage.answers.fetch_sub(1, Ordering::AcqRel) == 1 {
            // The connection may have been told to close in the meantime.
            usage.waker.wake();
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let Self(ConnectionPlace { places, usage }) = self;
        let rank = HAS_SERVED | places.now();
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
    u64::try_from(duration.as_micros()).unwrap_or(HAS_SERVED - 1)
}
