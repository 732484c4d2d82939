//! The real `headroom-webhook` process without any API server: it answers, refuses bad input, and ends in order.
#![forbid(unsafe_code)]

use std::{fs, path::Path, process::Command, sync::Arc, time::Duration};

use assert_cmd::assert::OutputAssertExt as _;
use bytes::Bytes;
use e2e::stand::programs;
use headroom_kit::tls::client;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use xtask::headroom::{
    get,
    webhook::{Options, Webhook},
};

/// Nobody listens on port 1 of loopback.
const NO_API_SERVER: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "c",
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "users": [{"name": "u", "user": {"token": "t"}}]}"#;

/// A webhook that cannot reach an API server; it is alive, not ready.
async fn alone(folder: &TempDir) -> Webhook {
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, NO_API_SERVER).expect("write");
    let mut webhook = Webhook::spawn(&Options {
        program: programs().await.webhook,
        name: "webhook-0".to_owned(),
        folder: folder.path().to_owned(),
        kubeconfig,
        config: String::new(),
        allows_demo_timing: false,
    })
    .expect("start the webhook");
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(webhook.admission).await.is_err() {
        webhook.process.check().expect("the webhook goes on");
        assert!(tokio::time::Instant::now() < deadline, "nobody listens");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    webhook
}

/// One keep-alive connection to the admission port, its certificate checked against the CA.
async fn connection(webhook: &Webhook) -> SendRequest<Full<Bytes>> {
    let tls = client::client_config(&webhook.ca, None, &[]).expect("client settings");
    let tcp = TcpStream::connect(webhook.admission).await.expect("connect");
    let name = client::server_name("127.0.0.1").expect("name");
    let stream = TlsConnector::from(Arc::clone(&tls))
        .connect(name, tcp)
        .await
        .expect("handshake");
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .expect("http");
    tokio::spawn(connection);
    sender
}

async fn post(sender: &mut SendRequest<Full<Bytes>>, path: &str, body: &str) -> (StatusCode, String) {
    let request = Request::post(path)
        .header("host", "webhook")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_owned())))
        .expect("a request");
    let response = sender
        .send_request(request)
        .await
        .expect("an answer on the same connection");
    let status = response.status();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (status, String::from_utf8(bytes.to_vec()).expect("text"))
}

fn review() -> String {
    let node = json!({
        "metadata": {"name": "n1", "uid": "u1"},
        "status": {"allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"}},
    });
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "review-1", "operation": "UPDATE", "name": "n1", "subResource": "status",
            "kind": {"group": "", "version": "v1", "kind": "Node"},
            "resource": {"group": "", "version": "v1", "resource": "nodes"},
            "userInfo": {"username": "system:node:n1", "groups": ["system:nodes"]},
            "object": node, "oldObject": node, "dryRun": false,
        },
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_api_server_it_answers_and_is_not_ready() {
    let folder = tempfile::tempdir().expect("folder");
    let webhook = alone(&folder).await;
    let mut sender = connection(&webhook).await;
    let (status, body) = post(&mut sender, "/mutate-node-status", &review()).await;
    let answer: Value = serde_json::from_str(&body).expect("a review");
    assert_eq!(
        (status, &answer["response"]["allowed"]),
        (StatusCode::OK, &json!(true)),
        "{body}"
    );
    assert_eq!(answer["response"]["uid"], "review-1");
    assert_eq!(
        get(webhook.admin, "/livez").await.expect("livez").0,
        StatusCode::OK
    );
    assert_eq!(
        get(webhook.admin, "/readyz").await.expect("readyz").0,
        StatusCode::INTERNAL_SERVER_ERROR
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_review_is_refused_with_a_reason_and_the_connection_survives() {
    let folder = tempfile::tempdir().expect("folder");
    let webhook = alone(&folder).await;
    let mut sender = connection(&webhook).await;
    let depth = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for (path, body, expected) in [
        ("/mutate-node-status", "", StatusCode::BAD_REQUEST),
        ("/mutate-node-status", "not json", StatusCode::BAD_REQUEST),
        (
            "/mutate-node-status",
            r#"{"kind":"AdmissionReview"}"#,
            StatusCode::BAD_REQUEST,
        ),
        ("/mutate-node-status", depth.as_str(), StatusCode::BAD_REQUEST),
        ("/no-such-path", "{}", StatusCode::NOT_FOUND),
    ] {
        let (status, answer) = post(&mut sender, path, body).await;
        assert_eq!(status, expected, "{path}: {answer}");
        assert!(!answer.is_empty(), "{path} gives no reason");
    }
    let (status, _) = post(&mut sender, "/mutate-node-status", &review()).await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_drains_and_ends_with_code_zero() {
    let folder = tempfile::tempdir().expect("folder");
    let mut webhook = alone(&folder).await;
    let mut sender = connection(&webhook).await;
    webhook.process.signal(Signal::TERM).expect("signal");
    // While clients are told to go elsewhere it still answers.
    let (status, _) = post(&mut sender, "/mutate-node-status", &review()).await;
    assert_eq!(status, StatusCode::OK);
    let ended = tokio::task::spawn_blocking(move || webhook.process.stop())
        .await
        .expect("join")
        .expect("its end");
    assert_eq!(ended.code(), Some(0), "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_meant_is_refused_at_start_with_its_path() {
    let folder = tempfile::tempdir().expect("folder");
    let config = folder.path().join("config.yaml");
    fs::write(&config, "amplification:\n  bounds:\n    cpu: {maximum: 2}\n").expect("write");
    let config = config.display().to_string();
    let program = programs().await.webhook;
    for (flags, told) in [
        (vec!["--config", config.as_str()], "amplification.bounds.cpu"),
        (vec!["--config", "/nowhere/config.yaml"], "/nowhere/config.yaml"),
        (vec!["--feature-gates", "NoSuchGate=true"], "NoSuchGate"),
        (vec!["--no-such-flag"], "--no-such-flag"),
        (
            vec![
                "--tls-cert-file",
                "/nowhere/tls.crt",
                "--tls-key-file",
                "/nowhere/tls.key",
            ],
            "/nowhere/tls.crt",
        ),
    ] {
        refused(&program, &flags, told, folder.path());
    }
}

fn refused(program: &Path, flags: &[&str], told: &str, folder: &Path) {
    let mut command = Command::new(program);
    if !flags.contains(&"--tls-cert-file") {
        command.arg("--tls-self-signed-dir").arg(folder.join("tls"));
    }
    command.args([
        "--admin-addr",
        "127.0.0.1:0",
        "--admission-addr",
        "127.0.0.1:0",
        "--hints-addr",
        "127.0.0.1:0",
    ]);
    let assert = command.args(flags).assert().failure();
    let errors = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(errors.contains(told), "{flags:?} said {errors:?}");
}
