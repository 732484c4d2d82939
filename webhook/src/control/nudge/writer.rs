//! Sends the PATCHes of `nodes/status` for nudges and sweeps: a nudge carries one annotation, a touch carries nothing.

use std::time::Duration;

use futures::future::BoxFuture;
use headroom_domain::names;
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Nudge;
use crate::store::{
    access::{Access, ObjectNames},
    node::{Node, object::WatchedNode},
};

/// API access that nudging needs.
pub static ACCESS: &[Access] = &[Access::to("", "nodes/status", ObjectNames::All, &["patch"])];

/// Timeout of a request to the API server.
const WRITE_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum NudgeError {
    /// The API server refuses it, or cannot be reached.
    #[error("the API server did not accept the write")]
    Api(#[source] Box<kube::Error>),
    /// The Node has changed since the version that the write was bound to.
    #[error("the Node has changed since")]
    Overtaken,
    #[error("the API server did not answer within {WRITE_LIMIT:?}")]
    Slow,
}

impl From<kube::Error> for NudgeError {
    fn from(error: kube::Error) -> Self {
        if matches!(&error, kube::Error::Api(status) if status.code == 409) {
            Self::Overtaken
        } else {
            Self::Api(Box::new(error))
        }
    }
}

/// Sends a write of `nodes/status` without content, which makes admission decide a Node again.
pub trait StatusPatcher: Send + Sync {
    /// Writes it, unless the Node has changed since it was read.
    fn trigger_admission<'a>(&'a self, node: &'a Node) -> BoxFuture<'a, Result<(), NudgeError>>;
}

/// Writes the hint annotation of a Node through `nodes/status`.
pub trait StatusWriter: Send + Sync {
    /// Writes the hint annotation; returns the Node's resource version after the write.
    fn write_hint<'a>(&'a self, node: &'a str, nudge: &'a Nudge) -> BoxFuture<'a, Result<u64, NudgeError>>;
}

/// The API server as writer.
#[derive(Clone)]
pub struct StatusWriteClient {
    nodes: Api<WatchedNode>,
}

impl StatusWriteClient {
    /// Writes with this client's rights.
    pub fn new(client: Client) -> Self {
        Self {
            nodes: Api::all(client),
        }
    }

    pub(super) async fn patch(&self, node: &str, patch: &Patch<Value>) -> Result<WatchedNode, NudgeError> {
        let params = PatchParams::apply(names::WEBHOOK_SERVICE_ACCOUNT);
        let answer = timeout(WRITE_LIMIT, self.nodes.patch_status(node, &params, patch)).await;
        answer
            .map_err(|_elapsed| NudgeError::Slow)?
            .map_err(NudgeError::from)
    }
}

impl StatusPatcher for StatusWriteClient {
    fn trigger_admission<'a>(&'a self, node: &'a Node) -> BoxFuture<'a, Result<(), NudgeError>> {
        let patch = Patch::Merge(json!({"metadata": {"resourceVersion": node.version.to_string()}}));
        Box::pin(async move { self.patch(&node.name, &patch).await.map(drop) })
    }
}

impl StatusWriter for StatusWriteClient {
    fn write_hint<'a>(&'a self, node: &'a str, nudge: &'a Nudge) -> BoxFuture<'a, Result<u64, NudgeError>> {
        let mut metadata = json!({"annotations": {names::HINT: nudge.note}});
        if let (Some(version), Some(metadata)) = (nudge.version, metadata.as_object_mut()) {
            metadata.insert("resourceVersion".to_owned(), version.to_string().into());
        }
        let patch = Patch::Merge(json!({"metadata": metadata}));
        Box::pin(async move {
            let object = self.patch(node, &patch).await?;
            Ok(object
                .resource_version()
                .and_then(|version| version.parse().ok())
                .unwrap_or_default())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use headroom_domain::resource::PerResource;
    use http::{Request, Response, StatusCode};
    use http_body_util::{BodyExt as _, Full};
    use kube::client::Body;

    use super::*;
    use crate::control::nudge::Direction;

    /// An API server that has version 7 of every Node, and answers with version 8.
    async fn write(version: Option<u64>) -> Result<u64, NudgeError> {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let patch: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(patch["metadata"]["annotations"][names::HINT], "the note");
            let expects = patch["metadata"]["resourceVersion"].as_str();
            let (code, answer) = if expects.is_none_or(|version| version == "7") {
                (200, json!({"metadata": {"name": "n1", "resourceVersion": "8"}}))
            } else {
                (
                    409,
                    json!({"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict"}),
                )
            };
            let mut answer = Response::new(Full::from(answer.to_string()));
            *answer.status_mut() = StatusCode::from_u16(code).unwrap();
            Ok::<_, Infallible>(answer)
        });
        let nudge = Nudge {
            direction: Direction::Rise,
            note: "the note".to_owned(),
            expected: PerResource::default(),
            version,
        };
        StatusWriteClient::new(Client::new(service, "n"))
            .write_hint("n1", &nudge)
            .await
    }

    #[tokio::test]
    async fn a_write_that_is_bound_to_a_version_is_taken_for_no_other() {
        assert_eq!(write(None).await.unwrap(), 8);
        assert_eq!(write(Some(7)).await.unwrap(), 8);
        assert!(matches!(write(Some(6)).await, Err(NudgeError::Overtaken)));
    }
}
