//! Clients of a server under load: TLS connections, and single reviews.

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

use super::server::LOCALHOST;

/// A TLS connection after its handshake.
pub(crate) async fn secure(address: SocketAddr, tls: &Arc<ClientConfig>) -> Result<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    let connector = TlsConnector::from(Arc::clone(tls));
    Ok(connector.connect(server_name(LOCALHOST)?, tcp).await?)
}

/// An HTTP/1.1 connection over TLS.
pub(crate) async fn connect(
    address: SocketAddr,
    tls: &Arc<ClientConfig>,
) -> Result<SendRequest<Full<Bytes>>> {
    let (sender, connection) = handshake(TokioIo::new(secure(address, tls).await?)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Posts one review; true if the answer is 200 with a body.
pub(crate) async fn post(
    sender: &mut SendRequest<Full<Bytes>>,
    path: &'static str,
    body: Bytes,
) -> Result<bool> {
    let request = Request::post(path)
        .header(http::header::HOST, LOCALHOST)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body))?;
    sender.ready().await?;
    let response = sender
        .send_request(request)
        .await
        .context("the server did not answer")?;
    let is_ok = response.status() == StatusCode::OK;
    let answer = response.into_body().collect().await?.to_bytes();
    Ok(is_ok && !answer.is_empty())
}
