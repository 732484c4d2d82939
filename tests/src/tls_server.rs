//! [`TlsServer`] is another party's server on loopback: it has its own certificate, and a closure answers each
//! request.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    time::SystemTime,
};

use bytes::Bytes;
use headroom_kit::{
    serve::{Limits, Listener, RequestBody},
    supervise::Shutdown,
    tls::{CertStore, ClientAuth, MinVersion, self_signed, server_config},
};
use http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use serde_json::Value;
use tokio::task::JoinSet;

/// The server; ended on drop.
#[derive(Debug)]
pub struct TlsServer {
    pub address: SocketAddr,
    /// The CA of its certificate, PEM.
    pub ca: Vec<u8>,
    _serve: JoinSet<()>,
}

impl TlsServer {
    /// Starts a server with a certificate for these hosts, stored in the subfolder `name`.
    pub async fn start<F, T>(folder: &Path, name: &'static str, hosts: &[String], answer: F) -> Self
    where
        F: Fn(Request<RequestBody>) -> T + Clone + Send + Sync + 'static,
        T: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        let folder = folder.join(format!("{name}-tls"));
        let now = SystemTime::now();
        let files = self_signed::ensure(&folder, hosts, now).expect("a certificate");
        let certificate = CertStore::load(name, files, now).expect("the certificate");
        let tls = server_config(
            certificate,
            MinVersion::default(),
            &ClientAuth::None,
            &["http/1.1"],
        );
        let tls = tls.expect("settings");
        let local = (Ipv4Addr::LOCALHOST, 0).into();
        let listener = Listener::bind(name, local, Limits::default())
            .await
            .expect("bind");
        let address = listener.address();
        let mut serve = JoinSet::new();
        serve.spawn(listener.serve_http(Some(tls), Shutdown::new(), answer));
        Self {
            address,
            ca: std::fs::read(folder.join(self_signed::CA_CERT)).expect("the CA"),
            _serve: serve,
        }
    }
}

/// A JSON answer; 404 without a body.
pub fn json_answer(body: Option<&Value>) -> Response<Full<Bytes>> {
    let text = body.map(Value::to_string).unwrap_or_default();
    let mut response = Response::new(Full::new(text.into()));
    if body.is_none() {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
