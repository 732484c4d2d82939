//! A client at the loopback address 127.0.0.2, which no other client uses, so that a port's limits apply to it alone.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

use headroom_domain::installation::Installation;
use headroom_kit::tls::client;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tonic::transport::{self, Channel};
use tower::service_fn;

/// Source address of its connections.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A plain TCP connection.
///
/// # Errors
/// If the server does not accept it, or this machine has no free port.
pub async fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    connect_from(ADDRESS, to).await
}

/// A plain TCP connection from this address.
///
/// # Errors
/// If the server does not accept it, or this machine has no free port.
pub async fn connect_from(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.connect(to).await
}

/// A channel to a hint port.
///
/// # Errors
/// If the server does not accept the connection.
pub async fn channel(hints: SocketAddr, ca: &Path) -> Result<Channel, transport::Error> {
    let tls = client::client_config(ca, None, &["h2"]).expect("client settings");
    let name = Installation::default().hints_host();
    let (tls, name) = (
        TlsConnector::from(tls),
        client::server_name(&name).expect("server name"),
    );
    let connector = service_fn(move |_uri| {
        let (tls, name) = (tls.clone(), name.clone());
        async move { tls.connect(name, connect(hints).await?).await.map(TokioIo::new) }
    });
    let endpoint = Channel::from_shared(format!("http://{hints}")).expect("address");
    endpoint.connect_with_connector(connector).await
}
