//! Finds HTTP/2 responses that a client does not let through: it keeps a flow-control window at zero with data pending.
//!
//! hyper polls a response's body again only after the client's window has accepted part of the data before. A body that
//! has returned data and is not polled again waits for the client. Long data is returned in pieces, so that a client
//! that accepts it slowly makes progress.

use std::{
    collections::BTreeMap,
    future::pending,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// Length of a piece of data, in bytes.
const PIECE: usize = 16 << 10;

/// Responses of one connection that wait for the client.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    /// Start of each wait, by the number of the response.
    waiting: Mutex<BTreeMap<u64, Instant>>,
    next: AtomicU64,
    changed: Notify,
}

/// Body of a response that is listed while it waits for the client.
#[derive(Debug)]
pub(super) struct WatchedBody<B> {
    body: B,
    /// Data that was read from the body and not returned.
    rest: Bytes,
    number: u64,
    is_waiting: bool,
    /// `None` where the transport finds slow clients itself.
    stalls: Option<Arc<Stalls>>,
}

/// Completes when a response has waited for `limit`; never without HTTP/2.
pub(super) async fn exceed(stalls: Option<Arc<Stalls>>, limit: Duration) {
    let Some(stalls) = stalls else {
        return pending().await;
    };
    loop {
        let oldest = stalls.lock().values().min().copied();
        match oldest {
            // Nearly every wait is over by the time that this task runs.
            None => stalls.changed.notified().await,
            Some(since) if since.elapsed() >= limit => return,
            Some(since) => sleep_until(since + limit).await,
        }
    }
}

impl Stalls {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Instant>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B> WatchedBody<B> {
    pub(super) fn new(body: B, stalls: Option<Arc<Stalls>>) -> Self {
        let number = stalls
            .as_ref()
            .map_or(0, |stalls| stalls.next.fetch_add(1, Ordering::Relaxed));
        Self {
            body,
            rest: Bytes::new(),
            number,
            is_waiting: false,
            stalls,
        }
    }

    fn begin_wait(&mut self) {
        if let Some(stalls) = &self.stalls {
            self.is_waiting = true;
            stalls.lock().insert(self.number, Instant::now());
            stalls.changed.notify_one();
        }
    }

    fn end_wait(&mut self) {
        if let Some(stalls) = self.stalls.as_ref().filter(|_| self.is_waiting) {
            stalls.lock().remove(&self.number);
            self.is_waiting = false;
        }
    }
}

impl<B: Body + Unpin> Body for WatchedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.end_wait();
        if self.rest.is_empty() {
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)).transpose()? else {
                return Poll::Ready(None);
            };
            let frame = frame.map_data(|mut data| data.copy_to_bytes(data.remaining()));
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let length = if self.stalls.is_some() {
            PIECE.min(self.rest.len())
        } else {
            self.rest.len()
        };
        let piece = self.rest.split_to(length);
        self.begin_wait();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let rest = u64::try_from(self.rest.len()).unwrap_or(u64::MAX);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint.set_lower(hint.lower().saturating_add(rest));
        hint
    }
}

impl<B> Drop for WatchedBody<B> {
    fn drop(&mut self) {
        if let Some(stalls) = self.stalls.as_ref().filter(|_| self.is_waiting) {
            stalls.lock().remove(&self.number);
        }
    }
}
