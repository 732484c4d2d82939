//! Reads ahead below TLS, up to 64 KiB at once. TLS reads 4 KiB at a time: five calls for a record of 16 KiB.

use std::{
    cell::Cell,
    io::{self, IoSlice},
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const AHEAD: usize = 64 * 1024;
/// Maximum number of connections in the process that may hold bytes read ahead; all others read only the requested
/// bytes. A connection holds bytes only while the layer above does not consume them, so few do.
const MOST_HELD: usize = 32;

/// Number of connections that hold bytes.
static HELD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Memory that no connection holds: one buffer per thread is enough while each connection consumes what it reads.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Stream that reads more than requested and keeps the rest for the next read.
pub(super) struct Ahead<S> {
    stream: S,
    rest: Option<Rest>,
    held: &'static AtomicUsize,
}

/// Bytes that were read and not yet consumed.
struct Rest {
    bytes: Vec<u8>,
    from: usize,
    to: usize,
    held: &'static AtomicUsize,
}

impl<S> Ahead<S> {
    /// Wraps a stream, without bytes read ahead.
    pub(super) const fn new(stream: S) -> Self {
        Self {
            stream,
            rest: None,
            held: &HELD,
        }
    }
}

impl Rest {
    /// Takes the bytes, which count as held from here on.
    fn new(bytes: Vec<u8>, from: usize, to: usize, held: &'static AtomicUsize) -> Self {
        held.fetch_add(1, Ordering::Relaxed);
        Self {
            bytes,
            from,
            to,
            held,
        }
    }

    /// Copies bytes into the free part of `buf`; true if none are left.
    fn pour(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let rest = self.bytes.get(self.from..self.to).unwrap_or_default();
        let poured = rest.get(..buf.remaining()).unwrap_or(rest);
        buf.put_slice(poured);
        self.from += poured.len();
        self.from == self.to
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
        SPARE.set(std::mem::take(&mut self.bytes));
    }
}

impl<S: AsyncRead + Unpin> Ahead<S> {
    /// Reads all available bytes; bytes that do not fit into `buf` stay.
    fn fill(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut bytes = SPARE.take();
        bytes.resize(AHEAD, 0);
        let mut room = ReadBuf::new(&mut bytes);
        let polled = Pin::new(&mut self.stream).poll_read(cx, &mut room);
        let to = room.filled().len();
        let from = to.min(buf.remaining());
        buf.put_slice(bytes.get(..from).unwrap_or_default());
        if from < to {
            self.rest = Some(Rest::new(bytes, from, to, self.held));
        } else {
            SPARE.set(bytes);
        }
        polled
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Ahead<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(rest) = &mut this.rest {
            if rest.pour(buf) {
                this.rest = None;
            }
            return Poll::Ready(Ok(()));
        }
        if this.held.load(Ordering::Relaxed) >= MOST_HELD || buf.remaining() >= AHEAD {
            return Pin::new(&mut this.stream).poll_read(cx, buf);
        }
        this.fill(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Ahead<S> {
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
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// Bytes that are all available, and the number of reads.
    struct There {
        bytes: Vec<u8>,
        at: usize,
        reads: usize,
    }

    impl There {
        fn new(length: usize) -> Self {
            let bytes = (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect();
            Self {
                bytes,
                at: 0,
                reads: 0,
            }
        }
    }

    impl AsyncRead for There {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let end = self.bytes.len().min(self.at + buf.remaining());
            buf.put_slice(&self.bytes[self.at..end]);
            self.at = end;
            self.reads += 1;
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn small_reads_are_served_in_order_from_one_large_read() {
        static OWN: AtomicUsize = AtomicUsize::new(0);
        let mut stream = Ahead::new(There::new(200_000));
        stream.held = &OWN;
        let (mut piece, mut all) = ([0; 4096], Vec::new());
        loop {
            let read = stream.read(&mut piece).await.unwrap();
            if read == 0 {
                break;
            }
            all.extend_from_slice(&piece[..read]);
        }
        assert!(all == stream.stream.bytes, "{} bytes", all.len());
        let least = 200_000_usize.div_ceil(AHEAD) + 1;
        assert_eq!(
            (stream.stream.reads, OWN.load(Ordering::Relaxed)),
            (least, 0),
            "the last one finds the end"
        );
    }

    #[tokio::test]
    async fn streams_beyond_the_limit_do_not_read_ahead() {
        static OWN: AtomicUsize = AtomicUsize::new(0);
        let mut streams: Vec<_> = (0..MOST_HELD + 8)
            .map(|_| {
                let mut stream = Ahead::new(There::new(100_000));
                stream.held = &OWN;
                stream
            })
            .collect();
        for stream in &mut streams {
            stream.read_exact(&mut [0; 5]).await.unwrap();
        }
        assert_eq!(OWN.load(Ordering::Relaxed), MOST_HELD);
        let last = streams.last_mut().unwrap();
        let mut bytes = [0; 5];
        last.read_exact(&mut bytes).await.unwrap();
        assert_eq!((bytes, last.stream.at), ([5, 6, 7, 8, 9], 10));
        drop(streams);
        assert_eq!(OWN.load(Ordering::Relaxed), 0);
    }
}
