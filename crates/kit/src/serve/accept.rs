//! Accept loop of a listener: a place for each connection, concurrent handshakes, back-off after errors, drain.

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
    Connection, Listener,
    places::{Place, Places},
    read_ahead::Ahead,
};
use crate::{
    log::chain,
    metric::process::{ACCEPT_ERRORS, REFUSED},
};

/// First pause after an accept error; doubled by each consecutive error.
pub(super) const FIRST_BACKOFF: Duration = Duration::from_millis(5);
/// Longest pause after accept errors.
const LAST_BACKOFF: Duration = Duration::from_secs(1);

impl Listener {
    /// Passes every connection to `serve` in its own task until `stopping`; then closes the port and waits for these
    /// tasks, at most for the drain limit.
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
        let places = Places::new(name, limits, self.exempt.clone(), self.reserved.clone());
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
            let Some(place) = places.acquire(peer) else {
                continue;
            };
            let (tls, serve) = (tls.clone(), serve.clone());
            tasks.spawn(async move {
                if let Some(connection) = secure(name, tcp, peer, tls, limits.handshake, place).await {
                    serve(connection).await;
                }
            });
        }
        // Closes the port: new connections are refused from here on.
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
                "closed connections that did not finish in time"
            );
            tasks.shutdown().await;
        }
    }

    /// Returns the next connection. Cancel safe.
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
                        warn!(listener = self.name, %error, pause = ?self.backoff, "cannot accept connections; trying again after the pause");
                        self.resume = Some(Instant::now() + self.backoff);
                        self.backoff = (self.backoff * 2).min(LAST_BACKOFF);
                    }
                }
            }
        }
    }
}

/// Returns true if an accept error concerns only the connection that accept would have returned. All other errors,
/// such as too many open files, repeat immediately: retrying without a pause would keep a core busy.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    [ConnectionAborted, ConnectionReset, Interrupted].contains(&error.kind())
}

/// Performs the handshake; `None` if there is no client left to serve.
async fn secure(
    name: &'static str,
    tcp: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    limit: Duration,
    place: Place,
) -> Option<Connection> {
    if let Err(error) = tcp.set_nodelay(true) {
        debug!(listener = name, %peer, %error, "connection closed before its first byte");
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
            debug!(listener = name, %peer, "connection closed during its handshake to accept another");
            return None;
        }
    };
    let reason = match shaken {
        Ok(Ok(stream)) => return Some(Connection::tls(stream, peer, place)),
        Ok(Err(error)) => {
            debug!(listener = name, %peer, error = %chain(&error), "TLS handshake failed");
            "handshake_failed"
        }
        Err(_) => {
            debug!(listener = name, %peer, ?limit, "TLS handshake timed out");
            "handshake_timeout"
        }
    };
    REFUSED.with([name, reason]).increment(1);
    None
}

/// Logs a panic of a connection's task. The listener survives it.
fn note(name: &'static str, ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        error!(listener = name, %error, "connection task panicked");
    }
}
