//! Clients of a server under load: connections over TLS, and one review over such a connection.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context as _, Result};
use headroom_kit::tls::client::server_name;
use http::{Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::Bytes,
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// A connection with its handshake done.
pub(crate) async fn secure(address: SocketAddr, tls: &Arc<ClientConfig>) -> Result<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    let connector = TlsConnector::from(Arc::clone(tls));
    Ok(connector.connect(server_name("localhost")?, tcp).await?)
}

/// A connection that sends requests.
pub(crate) async fn connect(
    address: SocketAddr,
    tls: &Arc<ClientConfig>,
) -> Result<SendRequest<Full<Bytes>>> {
    let (sender, connection) = handshake(TokioIo::new(secure(address, tls).await?)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// True if there was a verdict.
pub(crate) async fn ask(
    sender: &mut SendRequest<Full<Bytes>>,
    path: &'static str,
    body: Bytes,
) -> Result<bool> {
    let request = Request::post(path)
        .header(http::header::HOST, "localhost")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body))?;
    sender.ready().await?;
    let response = sender.send_request(request).await.context("no answer")?;
    let is_answered = response.status() == StatusCode::OK;
    response.into_body().collect().await?;
    Ok(is_answered)
}
