//! [`Forwarded`]: a connection to a port of a pod that the API server and the kubelet forward. What the kubelet says when
//! it cannot forward is the connection's error.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use kube::api::Portforwarder;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// Resolves to what the kubelet says; to nothing when the connection just ends.
type Complaint = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

/// A forwarded connection.
pub(super) struct Forwarded {
    stream: DuplexStream,
    /// `None` once it is known.
    complaint: Option<Complaint>,
}

impl Forwarded {
    /// The connection to that port; `None` if it is not forwarded.
    pub(super) fn new(forwarder: &mut Portforwarder, port: u16) -> Option<Self> {
        let complaint = forwarder.take_error(port)?;
        Some(Self {
            stream: forwarder.take_stream(port)?,
            complaint: Some(Box::pin(complaint)),
        })
    }
}

impl AsyncRead for Forwarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let Self { stream, complaint } = &mut *self;
        let is_pending = Pin::new(stream).poll_read(context, buffer)?.is_pending();
        if buffer.filled().len() > before {
            return Poll::Ready(Ok(()));
        }
        // Nothing came: the other end has closed, or the kubelet has something to say.
        let Some(awaited) = complaint else {
            return if is_pending {
                Poll::Pending
            } else {
                Poll::Ready(Ok(()))
            };
        };
        let said = match awaited.as_mut().poll(context) {
            Poll::Pending if is_pending => return Poll::Pending,
            Poll::Pending => None,
            Poll::Ready(said) => said,
        };
        *complaint = None;
        match said {
            Some(said) => Poll::Ready(Err(io::Error::other(said.trim().to_owned()))),
            None if is_pending => Poll::Pending,
            None => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Forwarded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
