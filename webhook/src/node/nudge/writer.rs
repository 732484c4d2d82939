//! The writes behind nudges and sweeps: one annotation of a Node, or nothing, through `nodes/status`.

use std::time::Duration;

use futures::future::BoxFuture;
use headroom_domain::names;
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    endpoint::Access,
    node::{Node, object::Object},
};

/// API access that nudging needs.
pub static ACCESS: &[Access] = &[Access {
    group: "",
    resource: "nodes/status",
    names: &[],
    verbs: &["patch"],
}];

/// How long the API server may take.
const WRITE_LIMIT: Duration = Duration::from_secs(5);

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
pub enum NudgeError {
    /// The API server refuses it, or cannot be reached.
    #[error("the API server did not take the write")]
    Api(#[source] Box<kube::Error>),
    /// It takes too long.
    #[error("the API server takes longer than {WRITE_LIMIT:?}")]
    Slow,
}

/// Whoever can have a Node decided anew by a write of `nodes/status` that carries nothing.
pub trait Toucher: Send + Sync {
    /// Writes it, unless the Node has changed since it was read.
    fn touch<'a>(&'a self, node: &'a Node) -> BoxFuture<'a, Result<(), NudgeError>>;
}

/// Whoever can write the hint annotation of a Node through `nodes/status`.
pub trait StatusWriter: Send + Sync {
    /// Writes the hint annotation; returns the Node's resource version after the write.
    fn write_hint<'a>(&'a self, node: &'a str, note: &'a str) -> BoxFuture<'a, Result<u64, NudgeError>>;
}

/// The API server as writer.
#[derive(Clone)]
pub struct ApiServer {
    nodes: Api<Object>,
}

impl ApiServer {
    /// Writes with this client's rights.
    pub fn new(client: Client) -> Self {
        Self {
            nodes: Api::all(client),
        }
    }

    pub(super) async fn patch(&self, node: &str, patch: &Patch<Value>) -> Result<Object, NudgeError> {
        let params = PatchParams::apply(names::WEBHOOK_SERVICE_ACCOUNT);
        let answer = timeout(WRITE_LIMIT, self.nodes.patch_status(node, &params, patch)).await;
        answer
            .map_err(|_elapsed| NudgeError::Slow)?
            .map_err(|error| NudgeError::Api(Box::new(error)))
    }
}

impl Toucher for ApiServer {
    fn touch<'a>(&'a self, node: &'a Node) -> BoxFuture<'a, Result<(), NudgeError>> {
        let patch = Patch::Merge(json!({"metadata": {"resourceVersion": node.version.to_string()}}));
        Box::pin(async move { self.patch(&node.name, &patch).await.map(drop) })
    }
}

impl StatusWriter for ApiServer {
    fn write_hint<'a>(&'a self, node: &'a str, note: &'a str) -> BoxFuture<'a, Result<u64, NudgeError>> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {names::HINT: note}}}));
        Box::pin(async move {
            let object = self.patch(node, &patch).await?;
            Ok(object
                .resource_version()
                .and_then(|version| version.parse().ok())
                .unwrap_or_default())
        })
    }
}
