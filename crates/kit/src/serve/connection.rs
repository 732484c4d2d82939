//! One connection: its stream, who is at the other end, and its place under the cap.

use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use rustls::pki_types::CertificateDer;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tonic::transport::server::Connected;

use crate::metric::process::CONNECTIONS;

/// An accepted connection after its handshake.
pub struct Connection {
    stream: Either<TcpStream, TlsStream<TcpStream>>,
    peer: Peer,
    _slot: Slot,
}

/// Who is at the other end. An extension of every HTTP request, and what gRPC calls connect info.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Where the connection comes from.
    pub address: SocketAddr,
    /// The verified certificate of the client, followed by its intermediates; `None` if it showed none.
    pub certificates: Option<Arc<[CertificateDer<'static>]>>,
}

/// Whom a limit per client counts: the address without its port, of IPv6 the network of 64 bits that one machine is
/// commonly given. An IPv4 address is the same in both forms.
pub fn source(address: SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        ip @ IpAddr::V4(_) => ip,
    }
}

/// A place under the connection cap, given back on drop.
pub(super) struct Slot {
    open: metrics::Gauge,
    _permit: OwnedSemaphorePermit,
}

impl Slot {
    /// A place, unless all are taken.
    pub(super) fn take(name: &'static str, slots: &Arc<Semaphore>) -> Option<Self> {
        let permit = Arc::clone(slots).try_acquire_owned().ok()?;
        let open = CONNECTIONS.with([name]);
        open.increment(1);
        Some(Self {
            open,
            _permit: permit,
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.open.decrement(1);
    }
}

impl Connection {
    pub(super) fn plain(stream: TcpStream, address: SocketAddr, slot: Slot) -> Self {
        Self {
            stream: Either::Left(stream),
            peer: Peer {
                address,
                certificates: None,
            },
            _slot: slot,
        }
    }

    pub(super) fn tls(stream: TlsStream<TcpStream>, address: SocketAddr, slot: Slot) -> Self {
        let certificates = stream.get_ref().1.peer_certificates().map(Arc::from);
        Self {
            stream: Either::Right(stream),
            peer: Peer {
                address,
                certificates,
            },
            _slot: slot,
        }
    }

    /// Who is at the other end.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Whether the handshake agreed on HTTP/2.
    pub fn is_http2(&self) -> bool {
        match &self.stream {
            Either::Left(_) => false,
            Either::Right(tls) => tls.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
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
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("10.0.0.1:5", "10.0.0.1")]
    #[case("[::ffff:10.0.0.1]:5", "10.0.0.1")]
    #[case("[2001:db8:1:2:3:4:5:6]:5", "2001:db8:1:2::")]
    fn a_source_is_an_address_or_the_network_of_a_machine(#[case] address: &str, #[case] expected: &str) {
        assert_eq!(
            source(address.parse().unwrap()),
            expected.parse::<IpAddr>().unwrap()
        );
    }
}
