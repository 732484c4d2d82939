//! Cuts HTTP connections whose client is slow to send a request head or to take an answer.
//!
//! hyper's own timer starts when the wait for a request does, so it can only bound how long a connection is idle.
//! Between requests a client may be idle for minutes, but once it begins a head it has seconds.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use super::Limits;

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

/// A stream whose reads fail when a request head takes too long, and whose writes fail when an answer does.
pub(super) struct Paced<S> {
    stream: S,
    limits: Limits,
    phase: Arc<Phase>,
    timer: Pin<Box<Sleep>>,
    /// Runs from the first wait for the client to take an answer until it has taken all.
    writing: Option<Pin<Box<Sleep>>>,
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
    pub(super) fn new(stream: S, limits: Limits) -> (Self, Arc<Phase>) {
        let phase = Arc::new(Phase(AtomicU8::new(HEAD)));
        (
            Self {
                stream,
                limits,
                phase: Arc::clone(&phase),
                timer: Box::pin(sleep(limits.header)),
                writing: None,
            },
            phase,
        )
    }

    /// Fails a wait for the client to take more if it has lasted too long.
    fn in_time<T>(&mut self, polled: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if polled.is_pending() {
            let limit = self.limits.write;
            let writing = self.writing.get_or_insert_with(|| Box::pin(sleep(limit)));
            ready!(writing.as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        polled
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
                let until = Instant::now() + self.limits.header;
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
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.in_time(polled, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes when it has handed over all that there is.
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        if polled.is_ready() {
            self.writing = None;
        }
        self.in_time(polled, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.in_time(polled, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.in_time(polled, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
