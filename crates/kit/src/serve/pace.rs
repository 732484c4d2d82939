//! Cuts HTTP connections that are slow with a request head.
//!
//! hyper's own timer starts when the wait for a request does, so it can only bound how long a connection is idle.
//! Between requests a client may be quiet for minutes, but once it begins a head it has seconds.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

/// What a connection waits for: one of the constants below. Shared by a stream and the service that answers on it,
/// which run in the same task.
#[derive(Debug)]
pub(super) struct Phase(AtomicU8);

/// The rest of a request head.
const HEAD: u8 = 0;
/// The answer to a request: the client is not to blame.
const ANSWER: u8 = 1;
/// The first byte of the next request.
const REQUEST: u8 = 2;

/// A stream whose reads fail when a request head takes too long.
pub(super) struct Paced<S> {
    stream: S,
    limit: Duration,
    phase: Arc<Phase>,
    timer: Pin<Box<Sleep>>,
}

impl Phase {
    /// A request is being answered from here on.
    pub(super) fn begin_answer(&self) {
        self.0.store(ANSWER, Ordering::Relaxed);
    }

    /// The next request is waited for.
    pub(super) fn end_answer(&self) {
        self.0.store(REQUEST, Ordering::Relaxed);
    }
}

impl<S> Paced<S> {
    /// Begins with the wait for the first head.
    pub(super) fn new(stream: S, limit: Duration) -> (Self, Arc<Phase>) {
        let phase = Arc::new(Phase(AtomicU8::new(HEAD)));
        (
            Self {
                stream,
                limit,
                phase: Arc::clone(&phase),
                timer: Box::pin(sleep(limit)),
            },
            phase,
        )
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let phase = self.phase.0.load(Ordering::Relaxed);
        if let Poll::Ready(result) = Pin::new(&mut self.stream).poll_read(cx, buf) {
            if phase == REQUEST {
                self.phase.0.store(HEAD, Ordering::Relaxed);
                let until = Instant::now() + self.limit;
                self.timer.as_mut().reset(until);
            }
            return Poll::Ready(result);
        }
        if phase != HEAD {
            return Poll::Pending;
        }
        ready!(self.timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
