//! Listeners: accept connections within limits, secure them, and finish those in flight at shutdown.

mod accept;
mod connection;
mod grpc;
mod http;
mod places;
mod read_ahead;
mod slow_clients;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use tokio::{net::TcpListener, time::Instant};

pub use self::{
    connection::{Connection, Peer, source},
    grpc::Incoming,
    places::Hold,
};

/// Limits of connections and times for the clients of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at once, handshakes included. For one more the longest idle is closed, if any is idle.
    pub connections: usize,
    /// The same for one [`source`], without those that are held; `None` where many clients may be behind one address.
    pub per_source: Option<usize>,
    /// How long a connection is left alone before it counts as idle.
    pub settle: Duration,
    /// From accept to the end of the TLS handshake.
    pub handshake: Duration,
    /// From the first byte of a request (or the handshake, for the first request) to the end of its head.
    pub header: Duration,
    /// Between requests. Longer than clients keep idle connections (Go: 90 s), so that it is they who close them
    /// and no request meets a closing connection.
    pub idle: Duration,
    /// From when a client first does not take more of an HTTP answer to when it has taken all that there is.
    pub write: Duration,
    /// For requests in flight when the listener stops; what is left then is cut.
    pub drain: Duration,
}

/// A bound port.
#[derive(Debug)]
pub struct Listener {
    name: &'static str,
    tcp: TcpListener,
    address: SocketAddr,
    limits: Limits,
    /// No accept before this time: set when the machine is short of something.
    resume: Option<Instant>,
    backoff: Duration,
}

/// Why a port cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port cannot be bound.
    #[error("cannot listen on {address} for {listener}")]
    Bind {
        /// The name of the listener.
        listener: &'static str,
        /// The address asked for.
        address: SocketAddr,
        /// The reason the system gives.
        #[source]
        source: io::Error,
    },
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            per_source: None,
            settle: Duration::from_millis(250),
            handshake: Duration::from_secs(3),
            header: Duration::from_secs(5),
            idle: Duration::from_secs(120),
            write: Duration::from_secs(10),
            drain: Duration::from_secs(20),
        }
    }
}

impl Limits {
    /// The same with at most so many connections: for a process that may open few files.
    #[must_use]
    pub fn at_most(self, connections: u64) -> Self {
        let most = usize::try_from(connections).unwrap_or(usize::MAX);
        Self {
            connections: self.connections.min(most),
            ..self
        }
    }
}

impl Listener {
    /// Binds a port; `name` stands for it in logs and metrics. Connections queue from here on.
    ///
    /// `[::]` falls back to `0.0.0.0` where the kernel has no IPv6.
    ///
    /// # Errors
    /// The port is taken, privileged or not of this machine.
    pub async fn bind(name: &'static str, address: SocketAddr, limits: Limits) -> Result<Self, ServeError> {
        let refuse = |source| ServeError::Bind {
            listener: name,
            address,
            source,
        };
        let is_any_v6 = address.is_ipv6() && address.ip().is_unspecified();
        let tcp = match TcpListener::bind(address).await {
            Err(error) if is_any_v6 && error.kind() != io::ErrorKind::AddrInUse => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
            }
            bound => bound,
        };
        let tcp = tcp.map_err(refuse)?;
        let address = tcp.local_addr().map_err(refuse)?;
        Ok(Self {
            name,
            tcp,
            address,
            limits,
            resume: None,
            backoff: accept::FIRST_BACKOFF,
        })
    }

    /// The address bound, with the port that was picked if 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
