//! Sends writes of Nodes to the replica for admission, as the API server does: an AdmissionReview over TLS. It uses a
//! kept connection that is idle, or a new one.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use headroom_kit::tls::client::server_name;
use http::{
    Request, StatusCode,
    header::{CONTENT_TYPE, HOST},
};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::Bytes,
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use json_patch::Patch;
use rustls::ClientConfig;
use serde::Deserialize;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use crate::fleet::LOCALHOST;

/// Where reviews of `nodes/status` go, and how long they may take.
const PATH: &str = "/mutate-node-status?timeout=1s";
const LIMIT: Duration = Duration::from_secs(1);
const KIND: &str = r#"{"group":"","version":"v1","kind":"Node"}"#;
const RESOURCE: &str = r#"{"group":"","version":"v1","resource":"nodes"}"#;

/// A replica's admission port.
#[derive(Debug, Clone)]
pub(super) struct AdmissionPort {
    /// Where it listens.
    pub(super) address: SocketAddr,
    /// How it is verified.
    pub(super) tls: Arc<ClientConfig>,
}

/// A write to be admitted.
#[derive(Debug)]
pub(super) struct Write<'a> {
    /// Who writes.
    pub(super) user: &'a str,
    /// The Node's name.
    pub(super) node: &'a str,
    /// The stored object.
    pub(super) old: &'a str,
    /// The object as it is to become.
    pub(super) new: &'a str,
}

/// The way to the replica that is ready, if one is.
#[derive(Debug, Default)]
pub(super) struct Admission {
    state: Mutex<ReplicaState>,
    reviews: AtomicU64,
}

#[derive(Debug, Default)]
struct ReplicaState {
    target: Option<AdmissionPort>,
    idle: Vec<SendRequest<Full<Bytes>>>,
}

#[derive(Deserialize)]
struct AdmissionResponse {
    response: Response,
}

#[derive(Deserialize)]
struct Response {
    allowed: bool,
    patch: Option<String>,
}

impl Admission {
    /// Sends reviews there from now on; with `None`, nowhere.
    pub(super) fn set_target(&self, target: Option<AdmissionPort>) {
        *self.lock() = ReplicaState {
            target,
            idle: Vec::new(),
        };
    }

    /// What the replica makes of a write.
    ///
    /// # Errors
    /// If it is not ready, does not answer in time, or refuses.
    pub(super) async fn review(&self, write: &Write<'_>) -> Result<Patch> {
        let body = self.body(write);
        timeout(LIMIT, self.ask(body))
            .await
            .context("no answer within a second")?
    }

    async fn ask(&self, body: String) -> Result<Patch> {
        let mut sender = self.connection().await?;
        let request = Request::post(PATH)
            .header(HOST, LOCALHOST)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))?;
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        let answer = response.into_body().collect().await?.to_bytes();
        ensure!(status == StatusCode::OK, "answered {status}");
        self.lock().idle.push(sender);
        let AdmissionResponse {
            response: Response { allowed, patch },
        } = serde_json::from_slice(&answer)?;
        ensure!(allowed, "a status write was refused");
        match patch {
            None => Ok(Patch::default()),
            Some(text) => Ok(serde_json::from_slice(&BASE64_STANDARD.decode(text)?)?),
        }
    }

    async fn connection(&self) -> Result<SendRequest<Full<Bytes>>> {
        let target = {
            let mut state = self.lock();
            while let Some(sender) = state.idle.pop() {
                if !sender.is_closed() {
                    return Ok(sender);
                }
            }
            state.target.clone()
        };
        let Some(AdmissionPort { address, tls }) = target else {
            bail!("no replica is ready");
        };
        let tcp = TcpStream::connect(address).await?;
        tcp.set_nodelay(true)?;
        let stream = TlsConnector::from(tls)
            .connect(server_name(LOCALHOST)?, tcp)
            .await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    fn body(&self, write: &Write<'_>) -> String {
        let Write { user, node, old, new } = write;
        let number = self.reviews.fetch_add(1, Ordering::Relaxed);
        let groups = if user.starts_with("system:node:") {
            "system:nodes"
        } else {
            "system:serviceaccounts"
        };
        format!(
            r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"{number:08x}-6393-11e8-b7cc-42010a800002","kind":{KIND},"resource":{RESOURCE},"subResource":"status","requestKind":{KIND},"requestResource":{RESOURCE},"requestSubResource":"status","name":"{node}","operation":"UPDATE","userInfo":{{"username":"{user}","groups":["{groups}","system:authenticated"]}},"object":{new},"oldObject":{old},"dryRun":false,"options":{{"kind":"PatchOptions","apiVersion":"meta.k8s.io/v1"}}}}}}"#
        )
    }

    fn lock(&self) -> MutexGuard<'_, ReplicaState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
