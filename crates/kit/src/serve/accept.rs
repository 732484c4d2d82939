//! The accept loop of a listener: a place for each connection, concurrent handshakes, back-off after errors, drain.

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use rustls::ServerConfig;
use tokio::{
    net::TcpStream,
    select,
    task::{JoinError, JoinSet},
    time::{Instant, sleep_until, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::{
    Connection, Listener, connection,
    places::{Place, Places},
    read_ahead::Ahead,
};
use crate::metric::process::{ACCEPT_ERRORS, REFUSED};

/// The first pause after an error of accept; doubled by each error that follows at once.
pub(super) const FIRST_BACKOFF: Duration = Duration::from_millis(5);
/// The longest pause.
const LAST_BACKOFF: Duration = Duration::from_secs(1);

impl Listener {
    /// Hands every connection to `serve`, in a task of its own, until `stopping`; then closes the port and waits for
    /// these tasks, at most as long as the limits say.
    pub(super) async fn accept<F, T>(
        mut self,
        tls: Option<Arc<ServerConfig>>,
        stopping: CancellationToken,
        serve: F,
    ) where
        F: Fn(Connection) -> T + Clone + Send + 'static,
        T: Future<Output = ()> + Send,
    {
        let (name, limits) = (self.name, self.limits);
        info!(listener = name, address = %self.address, tls = tls.is_some(), "listening");
        let tls = tls.map(TlsAcceptor::from);
        let places = Places::new(name, limits);
        let mut tasks = JoinSet::new();
        loop {
            let (tcp, peer) = select! {
                biased;
                () = stopping.cancelled() => break,
                Some(ended) = tasks.join_next() => {
                    note(name, ended);
                    continue;
                }
                accepted = self.next() => accepted,
            };
            let Some(place) = places.acquire(connection::source(peer)) else {
                continue;
            };
            let (tls, serve) = (tls.clone(), serve.clone());
            tasks.spawn(async move {
                if let Some(connection) = secure(name, tcp, peer, tls, limits.handshake, place).await {
                    serve(connection).await;
                }
            });
        }
        // Closes the port: from here on, connecting is refused.
        drop(self);
        let finished = timeout(limits.drain, async {
            while let Some(ended) = tasks.join_next().await {
                note(name, ended);
            }
        });
        if finished.await.is_err() {
            warn!(
                listener = name,
                connections = tasks.len(),
                "cut connections that did not finish"
            );
            tasks.shutdown().await;
        }
    }

    /// The next connection. Cancel safe.
    async fn next(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            if let Some(resume) = self.resume {
                sleep_until(resume).await;
                self.resume = None;
            }
            match self.tcp.accept().await {
                Ok(accepted) => {
                    self.backoff = FIRST_BACKOFF;
                    return accepted;
                }
                Err(error) => {
                    ACCEPT_ERRORS.with([self.name]).increment(1);
                    if !is_of_one_connection(&error) {
                        warn!(listener = self.name, %error, pause = ?self.backoff, "cannot accept");
                        self.resume = Some(Instant::now() + self.backoff);
                        self.backoff = (self.backoff * 2).min(LAST_BACKOFF);
                    }
                }
            }
        }
    }
}

/// Whether an error of accept is about the connection it would have returned. All others, such as too many open
/// files, come back at once if nothing is done: trying again without a pause would keep a core busy.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    [ConnectionAborted, ConnectionReset, Interrupted].contains(&error.kind())
}

/// Does the handshake; `None` when there is nobody to serve.
async fn secure(
    name: &'static str,
    tcp: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    limit: Duration,
    place: Place,
) -> Option<Connection> {
    if let Err(error) = tcp.set_nodelay(true) {
        debug!(listener = name, %peer, %error, "gone before its first byte");
        return None;
    }
    let Some(tls) = tls else {
        return Some(Connection::plain(tcp, peer, place));
    };
    let handle = place.handle();
    let shaken = select! {
        biased;
        shaken = timeout(limit, tls.accept(Ahead::new(tcp))) => shaken,
        () = handle.closing() => {
            debug!(listener = name, %peer, "closed in its handshake to make room");
            return None;
        }
    };
    let reason = match shaken {
        Ok(Ok(stream)) => return Some(Connection::tls(stream, peer, place)),
        Ok(Err(error)) => {
            debug!(listener = name, %peer, %error, "handshake failed");
            "handshake_failed"
        }
        Err(_) => {
            debug!(listener = name, %peer, ?limit, "handshake took too long");
            "handshake_timeout"
        }
    };
    REFUSED.with([name, reason]).increment(1);
    None
}

/// Tells of a connection whose task panicked. The listener survives it.
fn note(name: &'static str, ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        error!(listener = name, %error, "connection task panicked");
    }
}
