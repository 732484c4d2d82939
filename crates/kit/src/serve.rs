//! Listeners: accept connections within limits, secure them, and finish requests in flight at shutdown.

mod accept;
mod answering;
mod connection;
mod http;
mod network;
mod places;
mod queues;
mod read_ahead;
mod request_body;
mod reserved_place;
mod slow_clients;
mod stalls;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use tokio::{net::TcpListener, time::Instant};

pub use self::{
    connection::{Connection, Peer, source},
    http::GrpcLimits,
    network::{Network, NetworkError},
    places::{Busy, Hold},
    request_body::RequestBody,
    reserved_place::ReservedPlace,
};

/// Limits on connections and timeouts for the clients of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of open connections, handshakes included. A further connection replaces the longest idle one,
    /// or is refused if none is idle.
    pub connections: usize,
    /// Maximum number of open connections without a [`Hold`]. A further connection replaces one of them.
    pub unproven: usize,
    /// Maximum number of open connections of one [`source`], held connections excluded; `None` if many clients may
    /// share one address. Sources with many connections lose them first in any case.
    pub per_source: Option<usize>,
    /// Time after which an unused connection counts as idle.
    pub settle: Duration,
    /// Timeout from accept to the end of the TLS handshake.
    pub handshake: Duration,
    /// Timeout from the first byte of a request (or the handshake, for the first request) to the end of its head.
    pub header: Duration,
    /// Timeout between requests. It must be longer than clients keep idle connections (Go: 90 s): then clients close
    /// them first, and no request meets a closing connection.
    pub idle: Duration,
    /// Age from which on a response asks the client of an HTTP/1.1 connection to reconnect, so that the clients of replicas spread
    /// again after one has restarted; each connection adds up to a quarter. `None` for no limit.
    pub age: Option<Duration>,
    /// Timeout for reading an HTTP response: from the first write that the client does not accept until all data is
    /// accepted.
    pub write: Duration,
    /// Time for requests in flight after the listener stops; remaining connections are cut.
    pub drain: Duration,
}

/// A bound port with its limits.
#[derive(Debug)]
pub struct Listener {
    name: &'static str,
    tcp: TcpListener,
    address: SocketAddr,
    limits: Limits,
    exempt: Vec<Network>,
    reserved: ReservedPlace,
    /// Time before which no connection is accepted: set after the machine ran out of a resource.
    resume: Option<Instant>,
    backoff: Duration,
}

/// Reasons why a port cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port cannot be bound.
    #[error("cannot listen on {address} for {listener}")]
    Bind {
        /// Name of the listener in logs and metrics.
        listener: &'static str,
        /// Address that was requested, before any fallback to IPv4.
        address: SocketAddr,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            unproven: usize::MAX,
            per_source: None,
            settle: Duration::from_millis(250),
            handshake: Duration::from_secs(3),
            header: Duration::from_secs(5),
            idle: Duration::from_secs(120),
            age: Some(Duration::from_secs(600)),
            write: Duration::from_secs(10),
            drain: Duration::from_secs(20),
        }
    }
}

impl Limits {
    /// Caps the number of connections: for a process with a low open file limit.
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
    /// Binds a port; `name` identifies it in logs and metrics. The kernel queues connections from here on.
    ///
    /// `[::]` falls back to `0.0.0.0` if the kernel has no IPv6.
    ///
    /// # Errors
    /// The port is in use or privileged, or the address does not belong to this machine.
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
            exempt: Vec::new(),
            reserved: ReservedPlace::default(),
            resume: None,
            backoff: accept::FIRST_BACKOFF,
        })
    }

    /// Counts connections of these networks against no source: they lose no connection because they have many.
    #[must_use]
    pub fn exempt(self, exempt: Vec<Network>) -> Self {
        Self { exempt, ..self }
    }

    /// The place in addition to all limits, for one connection of this process.
    pub fn reserved(&self) -> ReservedPlace {
        self.reserved.clone()
    }

    /// Bound address, with the actual port if port 0 was requested.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
