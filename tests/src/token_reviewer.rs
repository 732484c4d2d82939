//! [`TokenReviewer`]: an API server that answers TokenReviews of agents' tokens, and has nothing else. Thousands of agents
//! need no control plane.

use std::{
    net::SocketAddr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use headroom_domain::names;
use headroom_kit::{
    serve::{Limits, Listener, RequestBody},
    supervise::Shutdown,
};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

/// Time of a review, as a real API server takes.
const TAKES: Duration = Duration::from_millis(3);
/// Prefix of a token before the number of its node.
const PREFIX: &str = "agent-";

/// The running server; it ends when dropped.
#[derive(Debug)]
pub struct TokenReviewer {
    address: SocketAddr,
    _serving: AbortOnDropHandle<()>,
}

impl TokenReviewer {
    /// Starts it on loopback.
    pub async fn start() -> Self {
        let listener = Listener::bind("reviewer", ([127, 0, 0, 1], 0).into(), Limits::default())
            .await
            .expect("a port");
        let address = listener.address();
        let serving = listener.serve_http(None, Shutdown::new(), answer);
        Self {
            address,
            _serving: AbortOnDropHandle::new(tokio::spawn(serving)),
        }
    }

    /// A kubeconfig with this server.
    pub fn kubeconfig(&self) -> String {
        let Self { address, .. } = self;
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        })
        .to_string()
    }
}

/// A token of the agent on the node with this number; valid for an hour.
pub fn token(node: usize) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a date");
    let claims = json!({"exp": now.as_secs() + 3600, "aud": names::TOKEN_AUDIENCE, "iss": "here"});
    let claims = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
    // About as long as a real one.
    format!("{PREFIX}{node}.{claims}.{}", "s".repeat(900))
}

async fn answer(request: Request<RequestBody>) -> Response<Full<Bytes>> {
    let is_review = request.uri().path().ends_with("/tokenreviews");
    let body = request.into_body().collect().await;
    let review: Option<Value> = body
        .ok()
        .and_then(|body| serde_json::from_slice(&body.to_bytes()).ok());
    let Some(review) = review.filter(|_| is_review) else {
        let mut response = Response::new(Full::from("{}"));
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    };
    sleep(TAKES).await;
    let token = review["spec"]["token"].as_str().unwrap_or_default();
    let node = token
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.split_once('.'))
        .map(|(node, _)| format!("n{node}"));
    let user = format!(
        "system:serviceaccount:{}:{}",
        names::AGENT_NAMESPACE,
        names::AGENT_SERVICE_ACCOUNT
    );
    let status = match node {
        Some(node) => json!({
            "authenticated": true,
            "audiences": [names::TOKEN_AUDIENCE],
            "user": {"username": user, "uid": "u", "groups": [], "extra": {names::TOKEN_NODE_NAME: [node]}},
        }),
        None => json!({"authenticated": false}),
    };
    let answer = json!({
        "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": {"token": ""},
        "status": status,
    });
    Response::new(Full::from(answer.to_string()))
}
