//! Cuts HTTP connections whose client is slow to send a request head or to read a response.
//!
//! hyper's own timer starts with the wait for a request, so it can only bound idleness. A client may be idle for
//! minutes between requests, but once it starts a head it has seconds.

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

/// Phase of a connection: one of the constants below. Shared by a stream and the service that answers on it, which
/// run in the same task.
#[derive(Debug)]
pub(super) struct Phase(AtomicU8);

/// Waiting for the rest of a request head.
const HEAD: u8 = 0;
/// Waiting for our own response: no client timeout applies.
const ANSWER: u8 = 1;
/// Waiting for the first byte of the next request.
const REQUEST: u8 = 2;

/// Stream whose reads fail if a request head takes too long, and whose writes fail if reading a response does.
pub(super) struct Paced<S> {
    stream: S,
    limits: Limits,
    phase: Arc<Phase>,
    timer: Pin<Box<Sleep>>,
    /// Runs from the first write that the client does not accept until all data is accepted.
    writing: Option<Pin<Box<Sleep>>>,
}

impl Phase {
    /// Marks the start of a response.
    pub(super) fn begin_answer(&self) {
        self.0.store(ANSWER, Ordering::Relaxed);
    }

    /// Marks the end of a response: the next request may follow.
    pub(super) fn end_answer(&self) {
        self.0.store(REQUEST, Ordering::Relaxed);
    }
}

impl<S> Paced<S> {
    /// Starts in the phase of the first head.
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

    /// Fails a write that has waited longer than the limit for the client.
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
        // hyper flushes after it has written all available data.
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
