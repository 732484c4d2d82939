//! The write behind a nudge: one annotation of a Node, through `nodes/status`.

use std::time::Duration;

use futures::future::BoxFuture;
use headroom_domain::names;
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::time::timeout;

use crate::{endpoint::Access, node::object::Object};

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

/// Whoever can write the hint annotation of a Node through `nodes/status`.
pub trait StatusWriter: Send + Sync {
    /// Writes it; returns the Node's resource version after the write.
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
}

impl StatusWriter for ApiServer {
    fn write_hint<'a>(&'a self, node: &'a str, note: &'a str) -> BoxFuture<'a, Result<u64, NudgeError>> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {names::HINT: note}}}));
        Box::pin(async move {
            let params = PatchParams::apply(names::WEBHOOK_SERVICE_ACCOUNT);
            let answer = timeout(WRITE_LIMIT, self.nodes.patch_status(node, &params, &patch)).await;
            let object = answer
                .map_err(|_elapsed| NudgeError::Slow)?
                .map_err(|error| NudgeError::Api(Box::new(error)))?;
            Ok(object
                .resource_version()
                .and_then(|version| version.parse().ok())
                .unwrap_or_default())
        })
    }
}
