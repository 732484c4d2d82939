//! Places of a listener, one per connection. A full listener closes an idle connection to accept another.
//!
//! A connection is idle while its client must act next: handshake, request with its body, or reading a response. A
//! source with much more connections than the newcomer's loses one, else the newcomer's own source, else any. Of these,
//! connections that never completed a request are closed first, then the longest idle. A connection is closed only
//! after it was idle for `Limits::settle`, unless all places are that young.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::{future::poll_fn, task::AtomicWaker};
use tokio::time::Instant;

use super::{
    Limits,
    answering::Answering,
    network::Network,
    queues::{HAS_SERVED, PlacesState},
    reserved_place::ReservedPlace,
    source,
};
use crate::metric::process::{CONNECTIONS, REFUSED};

/// Metric label of a newcomer whose source has all its connections.
const SOURCE_FULL: &str = "source_full";

/// All places of a listener.
pub(super) struct Places {
    name: &'static str,
    limits: Limits,
    /// Networks whose connections count against no source.
    exempt: Vec<Network>,
    reserved: ReservedPlace,
    started: Instant,
    state: Mutex<PlacesState>,
}

/// Place of a connection, released on drop.
pub(super) struct Place {
    handle: ConnectionPlace,
    open: metrics::Gauge,
}

/// State of a connection that decides when it is closed for another.
pub(super) struct Usage {
    pub(super) id: u64,
    /// `None` for a connection of an exempt network.
    pub(super) source: Option<IpAddr>,
    /// Number of responses in progress.
    pub(super) answers: AtomicUsize,
    /// [`HAS_SERVED`] bit, and the start of the idle time in microseconds since the listener's start.
    pub(super) rank: AtomicU64,
    /// Rank under which the connection is queued. Changes only while the state is locked, like the next two fields.
    pub(super) queued: AtomicU64,
    holds: AtomicUsize,
    pub(super) is_closing: AtomicBool,
    pub(super) waker: AtomicWaker,
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

/// While it exists, its connection is not closed for others.
#[must_use = "the connection is kept open until this is dropped"]
pub struct Busy(ConnectionPlace);

impl Places {
    pub(super) fn new(
        name: &'static str,
        limits: Limits,
        exempt: Vec<Network>,
        reserved: ReservedPlace,
    ) -> Arc<Self> {
        Arc::new(Self {
            name,
            limits,
            exempt,
            reserved,
            started: Instant::now(),
            state: Mutex::default(),
        })
    }

    /// Acquires a place for a new connection, if necessary by closing an idle one; `None` if no connection is idle.
    pub(super) fn acquire(self: &Arc<Self>, peer: SocketAddr) -> Option<Place> {
        let now = self.now();
        let is_reserved = self.reserved.claim(peer);
        let is_exempt = self.exempt.iter().any(|network| network.contains(peer.ip()));
        let source = (!is_exempt).then(|| source(peer));
        let mut state = self.lock();
        if !is_reserved && let Some(reason) = self.shortage(&state, source) {
            let settled = now.saturating_sub(micros(self.limits.settle));
            let only = (reason == SOURCE_FULL).then_some(source).flatten();
            let victim = if only.is_some() {
                state.longest_idle(only, now, settled)
            } else {
                state.victim(source, now, settled)
            };
            let Some(victim) = victim else {
                REFUSED.with([self.name, reason]).increment(1);
                return None;
            };
            state.close(&victim);
            REFUSED.with([self.name, "made_room"]).increment(1);
        }
        let usage = Arc::new(Usage {
            id: state.next_id,
            source,
            answers: AtomicUsize::new(0),
            rank: AtomicU64::new(now),
            queued: AtomicU64::new(now),
            // The reserved place is never closed for others.
            holds: AtomicUsize::new(usize::from(is_reserved)),
            is_closing: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        state.next_id += 1;
        state.open += 1;
        if !is_reserved {
            state.insert(&usage);
        }
        drop(state);
        let open = CONNECTIONS.with([self.name]);
        open.increment(1);
        let places = Arc::clone(self);
        let handle = ConnectionPlace { places, usage };
        Some(Place { handle, open })
    }

    /// The limit that another connection of this source would exceed, as a metric label.
    fn shortage(&self, state: &PlacesState, source: Option<IpAddr>) -> Option<&'static str> {
        let Limits {
            connections,
            unproven,
            per_source,
            ..
        } = self.limits;
        if source.is_some() && per_source.is_some_and(|most| state.count(source) >= most) {
            Some(SOURCE_FULL)
        } else if state.open >= connections || state.queue.len() >= unproven {
            Some("full")
        } else {
            None
        }
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

impl ConnectionPlace {
    /// Marks the arrival of a request's head: the connection is idle since now.
    pub(super) fn begin_request(&self) -> Answering {
        let class = self.usage.rank.load(Ordering::Acquire) & HAS_SERVED;
        self.usage
            .rank
            .store(class | self.places.now(), Ordering::Release);
        Answering::new(self.clone())
    }

    /// Keeps the connection open until [`Self::end_answer`].
    pub(super) fn begin_answer(&self) {
        self.usage.answers.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn end_answer(&self) {
        if self.usage.answers.fetch_sub(1, Ordering::AcqRel) == 1 {
            // The connection may have been told to close in the meantime.
            self.usage.waker.wake();
        }
    }

    /// Marks the end of a request: the connection is idle since now.
    pub(super) fn end_request(&self) {
        self.usage
            .rank
            .store(HAS_SERVED | self.places.now(), Ordering::Release);
    }

    /// Keeps the connection open until the result is dropped.
    pub(super) fn keep_open(&self) -> Busy {
        self.begin_answer();
        Busy(self.clone())
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

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.end_answer();
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
            state.insert(usage);
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
