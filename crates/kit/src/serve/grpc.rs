//! Turns accepted connections into the stream that a tonic gRPC server serves.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::Stream;
use rustls::ServerConfig;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::{Connection, Listener};
use crate::supervise::Shutdown;

/// Maximum number of connections between their handshake and the server.
const QUEUE: usize = 64;

/// Connections after their handshake, for `serve_with_incoming_shutdown`. Ends when the process stops; dropping it
/// closes the port.
#[derive(Debug)]
pub struct Incoming {
    connections: mpsc::Receiver<io::Result<Connection>>,
    _accepting: AbortOnDropHandle<()>,
}

impl Listener {
    /// Accepts in the background, for a gRPC server to serve:
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use headroom_kit::{serve::Listener, supervise::Shutdown};
    /// # async fn run(listener: Listener, tls: Arc<rustls::ServerConfig>, routes: tonic::service::Routes,
    /// #              shutdown: Shutdown) -> Result<(), tonic::transport::Error> {
    /// let incoming = listener.incoming(tls, &shutdown);
    /// let stop = shutdown.stopping().clone().cancelled_owned();
    /// tonic::transport::Server::builder().add_routes(routes).serve_with_incoming_shutdown(incoming, stop).await
    /// # }
    /// ```
    ///
    /// Without TLS, as in benches, connections are served unencrypted. Handlers find [`super::Peer`] in the
    /// extensions of their request. Shutdown waits for streams to end: services must end their streams when
    /// [`Shutdown::draining`] is cancelled.
    pub fn incoming(self, tls: impl Into<Option<Arc<ServerConfig>>>, shutdown: &Shutdown) -> Incoming {
        let (connections_tx, connections_rx) = mpsc::channel(QUEUE);
        let accepting = self.accept(tls.into(), shutdown.stopping().clone(), move |connection| {
            let connections_tx = connections_tx.clone();
            async move {
                // Fails if the server has ended; then the connection is dropped.
                drop(connections_tx.send(Ok(connection)).await);
            }
        });
        Incoming {
            connections: connections_rx,
            _accepting: AbortOnDropHandle::new(tokio::spawn(accepting)),
        }
    }
}

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.connections.poll_recv(cx)
    }
}
