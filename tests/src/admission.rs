//! A client of the admission port: posts admission reviews to a webhook replica over one connection, as an API server
//! does.

use std::{io, net::Ipv4Addr, sync::Arc};

use bytes::Bytes;
use headroom_kit::tls::client;
use headroom_testbed::webhook::Webhook;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{review::ReviewBuilder, stranger::connect_from};

/// One keep-alive connection to an admission port.
#[derive(Debug)]
pub struct Admission(SendRequest<Full<Bytes>>);

impl Admission {
    /// Connects, and checks the certificate against the CA.
    pub async fn connect(webhook: &Webhook) -> Self {
        Self::over(secure(webhook).await).await
    }

    /// Posts on an existing connection.
    pub async fn over(stream: TlsStream<TcpStream>) -> Self {
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .expect("HTTP");
        tokio::spawn(connection);
        Self(sender)
    }

    /// Posts a body on the connection and returns status and body of the answer.
    pub async fn post(&mut self, path: &str, body: &str) -> (StatusCode, String) {
        self.try_post(path, body).await.expect("an answer")
    }

    /// Posts a body like [`Self::post`]; `None` if the webhook closes the connection before it has read the body.
    pub async fn try_post(&mut self, path: &str, body: &str) -> Option<(StatusCode, String)> {
        let request = Request::post(path)
            .header("host", "webhook")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_owned())))
            .expect("a request");
        self.0.ready().await.expect("the connection lives");
        let response = self.0.send_request(request).await.ok()?;
        let status = response.status();
        let bytes = response.into_body().collect().await.expect("a body").to_bytes();
        Some((status, String::from_utf8(bytes.to_vec()).expect("text")))
    }
}

/// A TLS connection to the admission port, its certificate checked against the CA.
pub async fn secure(webhook: &Webhook) -> TlsStream<TcpStream> {
    secure_from(webhook, Ipv4Addr::LOCALHOST)
        .await
        .expect("a connection")
}

/// A TLS connection like that of [`secure`], from this address.
///
/// # Errors
/// If the server does not accept it.
pub async fn secure_from(webhook: &Webhook, from: Ipv4Addr) -> io::Result<TlsStream<TcpStream>> {
    let tls = client::client_config(&webhook.ca, None, &[]).expect("client settings");
    let tcp = connect_from(from, webhook.admission).await?;
    let name = client::server_name("127.0.0.1").expect("name");
    TlsConnector::from(Arc::clone(&tls)).connect(name, tcp).await
}

/// The review of a kubelet's write from the stored to the new Node.
pub fn review(old: &Value, new: &Value) -> String {
    let name = new["metadata"]["name"].as_str().expect("a name");
    ReviewBuilder::update("nodes/status", old, new)
        .kind("Node")
        .user(&format!("system:node:{name}"), &["system:nodes"])
        .build()
}
