//! An accepted connection: its stream, its peer, and its place among the listener's connections.

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
};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use super::{
    places::{Busy, ConnectionPlace, Hold, Place},
    read_ahead::Ahead,
};

/// Stream of a connection. A TLS session is boxed: it is large, and the serving code moves it.
type ClientStream = Either<TcpStream, Box<TlsStream<Ahead<TcpStream>>>>;

/// An accepted connection after its handshake.
pub struct Connection {
    stream: ClientStream,
    peer: Peer,
    place: Place,
}

/// The client of a connection. Every request has it as an extension.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Address and port of the client.
    pub address: SocketAddr,
    /// Verified client certificate, followed by its intermediates; `None` if the client presented none.
    pub certificates: Option<Arc<[CertificateDer<'static>]>>,
    handle: Option<ConnectionPlace>,
}

/// Returns the unit of per-client limits: the address without its port, or for IPv6 its /64 network, which is
/// commonly assigned to one machine. IPv4 addresses and their IPv4-mapped IPv6 form are equal.
pub fn source(address: SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        ip @ IpAddr::V4(_) => ip,
    }
}

impl Peer {
    /// Creates a client from its address and certificate, for a service that is called without a connection.
    pub fn new(address: SocketAddr, certificates: Option<Arc<[CertificateDer<'static>]>>) -> Self {
        Self {
            address,
            certificates,
            handle: None,
        }
    }

    /// Keeps the connection from being closed for others while the result exists: for work that the client cannot
    /// hasten. `None` without a connection.
    pub fn keep_open(&self) -> Option<Busy> {
        self.handle.as_ref().map(ConnectionPlace::keep_open)
    }

    /// Excludes the connection from being closed for others and from its source's limit while the hold exists: for an
    /// authenticated client. `None` without a connection.
    pub fn pin(&self) -> Option<Hold> {
        self.handle.as_ref().map(ConnectionPlace::pin)
    }
}

impl PartialEq for Peer {
    fn eq(&self, other: &Self) -> bool {
        (self.address, &self.certificates) == (other.address, &other.certificates)
    }
}

impl Eq for Peer {}

impl Connection {
    pub(super) fn plain(stream: TcpStream, address: SocketAddr, place: Place) -> Self {
        Self::new(Either::Left(stream), address, None, place)
    }

    pub(super) fn tls(stream: TlsStream<Ahead<TcpStream>>, address: SocketAddr, place: Place) -> Self {
        let certificates = stream.get_ref().1.peer_certificates().map(Arc::from);
        Self::new(Either::Right(Box::new(stream)), address, certificates, place)
    }

    fn new(
        stream: ClientStream,
        address: SocketAddr,
        certificates: Option<Arc<[CertificateDer<'static>]>>,
        place: Place,
    ) -> Self {
        let peer = Peer {
            address,
            certificates,
            handle: Some(place.handle()),
        };
        Self { stream, peer, place }
    }

    /// Handle of this connection's usage.
    pub(super) fn handle(&self) -> ConnectionPlace {
        self.place.handle()
    }

    /// Fails a wait for the client if the connection must be closed.
    fn unless_closing<T>(&self, polled: Poll<io::Result<T>>, cx: &Context<'_>) -> Poll<io::Result<T>> {
        if polled.is_pending() && self.place.must_close(cx) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        polled
    }

    /// The client of this connection.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns true if the handshake negotiated HTTP/2.
    pub fn is_http2(&self) -> bool {
        match &self.stream {
            Either::Left(_) => false,
            Either::Right(tls) => tls.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.unless_closing(polled, cx)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.unless_closing(polled, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.unless_closing(polled, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.unless_closing(polled, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.unless_closing(polled, cx)
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

    /// Serving code keeps several copies of the struct.
    #[test]
    fn a_connection_is_small_with_or_without_tls() {
        let size = size_of::<Connection>();
        assert!(size <= 192, "{size} bytes");
    }
}
