//! Answers the webhook's requests to the API server, as HTTP within the process: paged lists, watches, patches of
//! `nodes/status` and token reviews. It runs on the load generator's CPU, so only the
//! parsing of the answers counts as the webhook's.

use std::{convert::Infallible, fmt::Write as _, iter, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use futures::{SinkExt as _, StreamExt as _, channel::mpsc};
use headroom_domain::names;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Collected, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::{runtime::Handle, select, time::sleep};
use tower::service_fn;

use super::{
    agents::node_of_token,
    api_server::{ApiServer, Refusal},
    objects::{node_name, pod_uid},
};

type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;
type Events = mpsc::Sender<Result<Frame<Bytes>, Infallible>>;

const QUEUE: usize = 16;
/// Duration of a token review, in milliseconds.
const REVIEW_MS: std::ops::RangeInclusive<u64> = 1..=4;

/// A client for the webhook; its requests are answered on the load's runtime.
pub(super) fn client(api: &Arc<ApiServer>, load: &Handle) -> Client {
    let (api, load) = (Arc::clone(api), load.clone());
    let service = service_fn(move |request: Request<Body>| load.spawn(answer(Arc::clone(&api), request)));
    Client::new(service, names::NAMESPACE)
}

async fn answer(api: Arc<ApiServer>, request: Request<Body>) -> Response<ResponseBody> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let resource = path.rsplit('/').next().unwrap_or_default();
    let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    let answered = match (&parts.method, resource) {
        (&Method::GET, "nodes" | "pods" | "configmaps") if query.contains("watch=true") => {
            Ok(watch(api, resource, &query))
        }
        (&Method::GET, "nodes") => list(api, "Node", &query, |api, number| {
            Some(api.node(number)?.text.text())
        }),
        (&Method::GET, "pods") => list(api, "Pod", &query, ApiServer::pod),
        (&Method::GET, "configmaps") => list(api, "ConfigMap", &query, |api, number| {
            (number == 0).then(|| api.config_map().0)
        }),
        (&Method::PATCH, "status") => patch(&api, &path, &body).await,
        (&Method::POST, "tokenreviews") => review(&api, &body).await,
        _ => Ok(status(StatusCode::NOT_FOUND, "NotFound")),
    };
    answered.unwrap_or_else(|error| status(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error:#}")))
}

/// One page of a list, sent item by item, so that no page is held in memory. All pages have the resource version of the
/// first page; the items are current.
fn list(
    api: Arc<ApiServer>,
    kind: &str,
    query: &str,
    item: fn(&ApiServer, usize) -> Option<String>,
) -> Result<Response<ResponseBody>> {
    let limit: usize = parameter(query, "limit").map_or(Ok(usize::MAX), str::parse)?;
    let (from, version) = match parameter(query, "continue").and_then(|text| text.split_once('-')) {
        None => (0_usize, api.version()),
        Some((from, version)) => (from.parse()?, version.parse::<u64>()?),
    };
    let until = from.saturating_add(limit);
    let next = if item(&api, until).is_some() {
        format!("{until}-{version}")
    } else {
        String::new()
    };
    let head = format!(
        r#"{{"kind":"{kind}List","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":["#
    );
    let (mut parts_tx, parts) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let mut parts = iter::once(head).chain((from..until).map_while(|number| {
            let comma = if number == from { "" } else { "," };
            Some(format!("{comma}{}", item(&api, number)?))
        }));
        // The client may have disconnected.
        while let Some(part) = parts.next()
            && parts_tx.send(Ok(Frame::data(part.into()))).await.is_ok()
        {}
        drop(parts_tx.send(Ok(Frame::data("]}".into()))).await);
    });
    Ok(Response::new(StreamBody::new(parts.boxed()).boxed_unsync()))
}

/// A watch from the query's version that ends after the query's timeout.
fn watch(api: Arc<ApiServer>, resource: &str, query: &str) -> Response<ResponseBody> {
    let number = |name| parameter(query, name).and_then(|text| text.parse().ok());
    let (from, seconds) = (
        number("resourceVersion").unwrap_or(0),
        number("timeoutSeconds").unwrap_or(60),
    );
    let (events_tx, events) = mpsc::channel(QUEUE);
    let resource = resource.to_owned();
    tokio::spawn(async move {
        let sent = async {
            match resource.as_str() {
                "nodes" => send_nodes(&api, from, events_tx).await,
                "configmaps" => send_config_map(&api, from, events_tx).await,
                // Pods do not change.
                _ => {
                    let _open = events_tx;
                    std::future::pending::<Option<()>>().await
                }
            }
        };
        select! {
            () = sleep(Duration::from_secs(seconds)) => {}
            _nobody_listens = sent => {}
        }
    });
    Response::new(StreamBody::new(events.boxed()).boxed_unsync())
}

/// Nodes that changed after `from`, then those that change from now on. For a node with several unsent changes only
/// the last state is sent.
async fn send_nodes(api: &ApiServer, from: u64, mut events: Events) -> Option<()> {
    let mut changes = api.watch_nodes();
    for node in 0..api.len() {
        let text = api.node(node)?.text;
        if text.version > from {
            events.send(Ok(modified(&text.text()))).await.ok()?;
        }
    }
    while let Some((node, version)) = changes.recv().await {
        let text = api.node(node)?.text;
        if text.version == version {
            events.send(Ok(modified(&text.text()))).await.ok()?;
        }
    }
    None
}

async fn send_config_map(api: &ApiServer, from: u64, mut events: Events) -> Option<()> {
    let mut changes = api.watch_config_map();
    let mut sent = from;
    loop {
        let (text, version) = api.config_map();
        if version > sent {
            events.send(Ok(modified(&text))).await.ok()?;
            sent = version;
        }
        changes.recv().await?;
    }
}

fn modified(object: &str) -> Frame<Bytes> {
    let mut line = String::with_capacity(object.len() + 40);
    let _is_written = write!(line, r#"{{"type":"MODIFIED","object":{object}}}"#).is_ok();
    line.push('\n');
    Frame::data(Bytes::from(line))
}

async fn patch(api: &ApiServer, path: &str, body: &[u8]) -> Result<Response<ResponseBody>> {
    let name = path
        .rsplit('/')
        .nth(1)
        .context("the path contains no node name")?;
    let Some(node) = api.number(name) else {
        return Ok(status(StatusCode::NOT_FOUND, "NotFound"));
    };
    match api.merge(node, serde_json::from_slice(body)?).await {
        Ok(text) => Ok(json_text(text.text())),
        Err(Refusal::Conflict) => Ok(status(StatusCode::CONFLICT, "Conflict")),
        Err(Refusal::Broken(error)) => Err(error),
    }
}

/// Authenticates every token with a node number as the agent of that node.
async fn review(api: &ApiServer, body: &[u8]) -> Result<Response<ResponseBody>> {
    sleep(Duration::from_millis(rand::random_range(REVIEW_MS))).await;
    let review: Value = serde_json::from_slice(body)?;
    let token = review
        .pointer("/spec/token")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let node = node_of_token(token)
        .filter(|node| *node < api.len())
        .context("the token belongs to no node")?;
    let user = format!(
        "system:serviceaccount:{}:{}",
        names::AGENT_NAMESPACE,
        names::AGENT_SERVICE_ACCOUNT
    );
    let extra = json!({names::TOKEN_NODE_NAME: [node_name(node)], "authentication.kubernetes.io/pod-uid": [pod_uid(node)]});
    let answer = json!({
        "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": {"token": ""},
        "status": {
            "authenticated": true, "audiences": [names::TOKEN_AUDIENCE],
            "user": {"username": user, "uid": "u", "groups": ["system:serviceaccounts"], "extra": extra},
        },
    });
    Ok(json_text(answer.to_string()))
}

fn status(code: StatusCode, reason: &str) -> Response<ResponseBody> {
    let text = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code.as_u16(), "reason": reason, "message": reason});
    let mut response = json_text(text.to_string());
    *response.status_mut() = code;
    response
}

fn json_text(text: String) -> Response<ResponseBody> {
    Response::new(Full::from(text).boxed_unsync())
}

fn parameter<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find_map(|(key, value)| (key == name).then_some(value))
}
