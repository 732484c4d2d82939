//! Sends writes of Nodes to the replica for admission, as the API server does: an AdmissionReview over TLS, on an
//! idle kept connection or on a new one.

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
use http::{
    Request, StatusCode,
    header::{CONTENT_TYPE, HOST},
};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Bytes, client::conn::http1::SendRequest};
use json_patch::Patch;
use rustls::ClientConfig;
use serde::Deserialize;
use tokio::time::timeout;

use crate::served::{client::connect, server::LOCALHOST};

/// Path for reviews of `nodes/status`, and their time limit.
const PATH: &str = "/mutate-node-status?timeout=1s";
const LIMIT: Duration = Duration::from_secs(1);
const KIND: &str = r#"{"group":"","version":"v1","kind":"Node"}"#;
const RESOURCE: &str = r#"{"group":"","version":"v1","resource":"nodes"}"#;

#[derive(Debug, Clone)]
pub(super) struct AdmissionPort {
    pub(super) address: SocketAddr,
    pub(super) tls: Arc<ClientConfig>,
}

#[derive(Debug)]
pub(super) struct Write<'a> {
    pub(super) user: &'a str,
    pub(super) node: &'a str,
    pub(super) old: &'a str,
    pub(super) new: &'a str,
}

/// Connections to the replica that is ready, if there is one.
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
    /// Sets the replica for later reviews; with `None`, reviews fail.
    pub(super) fn set_target(&self, target: Option<AdmissionPort>) {
        *self.lock() = ReplicaState {
            target,
            idle: Vec::new(),
        };
    }

    /// The replica's patch for a write.
    ///
    /// # Errors
    /// If the replica is not ready, does not answer in time, or refuses.
    pub(super) async fn review(&self, write: &Write<'_>) -> Result<Patch> {
        let body = self.body(write);
        timeout(LIMIT, self.ask(body))
            .await
            .context("the replica did not answer within a second")?
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
        ensure!(status == StatusCode::OK, "the replica answered {status}");
        self.lock().idle.push(sender);
        let AdmissionResponse {
            response: Response { allowed, patch },
        } = serde_json::from_slice(&answer)?;
        ensure!(allowed, "the replica refused a status write");
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
        connect(address, &tls).await
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
