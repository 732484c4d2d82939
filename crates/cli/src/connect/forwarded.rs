//! [`Forwarded`]: a connection to a port of a pod, forwarded by the API server and the kubelet. If the kubelet cannot
//! forward it, its
//! message becomes the connection's error.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use kube::api::Portforwarder;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// Resolves to the kubelet's error message; to `None` if the connection ends without one.
type KubeletError = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

pub(super) struct Forwarded {
    stream: DuplexStream,
    /// `None` once it has resolved.
    kubelet_error: Option<KubeletError>,
}

impl Forwarded {
    /// Connection to the port; `None` if the forwarder does not have the port.
    pub(super) fn new(forwarder: &mut Portforwarder, port: u16) -> Option<Self> {
        let kubelet_error = forwarder.take_error(port)?;
        Some(Self {
            stream: forwarder.take_stream(port)?,
            kubelet_error: Some(Box::pin(kubelet_error)),
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
        let Self {
            stream,
            kubelet_error,
        } = &mut *self;
        let is_pending = Pin::new(stream).poll_read(context, buffer)?.is_pending();
        if buffer.filled().len() > before {
            return Poll::Ready(Ok(()));
        }
        // No bytes yet: the stream is pending, closed, or about to fail with the kubelet's error.
        let Some(awaited) = kubelet_error else {
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
        *kubelet_error = None;
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
