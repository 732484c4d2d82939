//! Tests of the real `headroom-webhook` process without any API server: answers, refusal of bad input, and an orderly
//! end.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use assert_cmd::Command;
use e2e::{
    admission::{Admission, review, secure},
    built::programs,
    stand::{HAPPENS_WITHIN, until},
};
use headroom_testbed::{
    programs::get,
    webhook::{CertificateSource, Served, Webhook, WebhookOptions},
};
use http::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream},
    net::TcpStream,
};

/// No process listens on port 1 of loopback.
pub(crate) const NO_API_SERVER: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "c",
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "users": [{"name": "u", "user": {"token": "t"}}]}"#;

/// A webhook that cannot reach an API server, with more flags; it is alive, not ready.
pub(crate) async fn alone(folder: &TempDir, flags: &[&str]) -> Webhook {
    spawn(folder, NO_API_SERVER, flags).await
}

/// A webhook that reaches the API server in that way, with more flags, and answers.
pub(crate) async fn spawn(folder: &TempDir, way: &str, flags: &[&str]) -> Webhook {
    spawn_program(folder, programs().await.webhook, way, flags).await
}

/// A webhook like that of [`spawn`], started by this program.
pub(crate) async fn spawn_program(folder: &TempDir, program: PathBuf, way: &str, flags: &[&str]) -> Webhook {
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, way).expect("write");
    let mut webhook = Webhook::spawn(&WebhookOptions {
        program,
        name: "webhook-0".to_owned(),
        folder: folder.path().to_owned(),
        kubeconfig,
        config: String::new(),
        accepts_no_floor: false,
        served: Served::default(),
        flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
        certificates: CertificateSource::Files,
    })
    .expect("start the webhook");
    until("a port is open", async || {
        webhook.process.check().expect("the webhook runs");
        TcpStream::connect(webhook.admission).await.is_ok()
    })
    .await;
    webhook
}

/// The exit code after SIGTERM.
async fn stop(mut webhook: Webhook) -> Option<i32> {
    let ended = tokio::task::spawn_blocking(move || webhook.process.stop())
        .await
        .expect("join");
    ended.expect("its end").code()
}

/// Exit code of a webhook after a second signal: the second signal ends the wait for work in flight.
async fn end(mut webhook: Webhook) -> Option<i32> {
    let mut ended = None;
    until("it ends", async || {
        ended = webhook.process.status().expect("its status");
        ended.is_some()
    })
    .await;
    ended?.code()
}

/// The review of a heartbeat.
pub(crate) fn node_review() -> String {
    let node = json!({
        "metadata": {"name": "n1", "uid": "u1"},
        "status": {"allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"}},
    });
    review(&node, &node)
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_api_server_it_answers_and_is_not_ready() {
    let folder = tempfile::tempdir().expect("folder");
    let webhook = alone(&folder, &[]).await;
    let mut admission = Admission::connect(&webhook).await;
    let (status, body) = admission.post("/mutate-node-status", &node_review()).await;
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
        StatusCode::SERVICE_UNAVAILABLE
    );
}

/// On request, the allocator prints its settings at exit.
#[tokio::test(flavor = "multi_thread")]
async fn its_allocator_has_the_settings_that_the_workspace_builds_in() {
    let output = Command::new(programs().await.webhook)
        .arg("--version")
        .env("_RJEM_MALLOC_CONF", "stats_print:true")
        .output()
        .expect("run it");
    let printed = String::from_utf8_lossy(&output.stderr);
    for setting in [
        "opt.narenas: 2\n",
        "opt.dirty_decay_ms: 1000 ",
        "opt.muzzy_decay_ms: 0 ",
    ] {
        assert!(printed.contains(setting), "no {setting:?} in {printed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_review_is_refused_with_a_reason_and_the_connection_survives() {
    let folder = tempfile::tempdir().expect("folder");
    let webhook = alone(&folder, &[]).await;
    let mut admission = Admission::connect(&webhook).await;
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
        let (status, answer) = admission.post(path, body).await;
        assert_eq!(status, expected, "{path}: {answer}");
        assert!(!answer.is_empty(), "{path} gives no reason");
    }
    let (status, _) = admission.post("/mutate-node-status", &node_review()).await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_it_with_code_zero_after_a_time_in_which_it_still_answers() {
    let folder = tempfile::tempdir().expect("folder");
    let mut webhook = alone(&folder, &[]).await;
    let mut before = Admission::connect(&webhook).await;
    webhook.process.signal(Signal::TERM).expect("signal");
    let (status, _) = before.post("/mutate-node-status", &node_review()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(stop(webhook).await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_review_in_flight_is_answered_after_the_port_has_closed() {
    let folder = tempfile::tempdir().expect("folder");
    let mut webhook = alone(&folder, &["--drain-seconds", "0"]).await;
    let mut connection = BufStream::new(secure(&webhook).await);
    let body = node_review();
    let head = format!(
        "POST /mutate-node-status HTTP/1.1\r\nhost: webhook\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nexpect: 100-continue\r\n\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes()).await.expect("the head");
    connection.flush().await.expect("the head");
    let mut line = String::new();
    connection.read_line(&mut line).await.expect("an interim answer");
    assert!(line.starts_with("HTTP/1.1 100 "), "{line}");

    webhook.process.signal(Signal::TERM).expect("signal");
    until("no new connections are taken", async || {
        TcpStream::connect(webhook.admission).await.is_err()
    })
    .await;
    connection.write_all(body.as_bytes()).await.expect("the body");
    connection.flush().await.expect("the body");
    let mut answer = String::new();
    connection
        .read_to_string(&mut answer)
        .await
        .expect("an answer and the end");
    // On a machine that stands still the API server's deadline may pass meanwhile: that is an answer too.
    let is_answered =
        answer.contains("HTTP/1.1 200 ") && answer.contains(r#""uid":"review-1","allowed":true"#);
    let is_late = answer.contains("HTTP/1.1 503 ") && answer.contains("no answer within")
        || answer.contains("HTTP/1.1 408 ") && answer.contains("the body did not arrive within");
    assert!(is_answered || is_late, "{answer}");
    assert_eq!(end(webhook).await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_configuration_is_refused_at_start_with_its_path() {
    let folder = tempfile::tempdir().expect("folder");
    let program = programs().await.webhook;
    for (config, complaint) in [
        (
            "amplification:\n  bounds:\n    cpu: {maximum: 2}\n",
            "amplification.bounds.cpu",
        ),
        (
            "amplification: {bounds: {memory: {max: -1}}}\n",
            "amplification.bounds.memory.max",
        ),
        ("amplification: {mode: sideways}\n", "amplification.mode"),
        ("amplify: {}\n", "amplify"),
        ("amplification: [\n", "config.yaml"),
    ] {
        let file = folder.path().join("config.yaml");
        fs::write(&file, config).expect("write");
        refused(
            &program,
            &["--config", &file.display().to_string()],
            complaint,
            folder.path(),
        );
    }
    for (flags, complaint) in [
        (["--config", "/nowhere/config.yaml"], "/nowhere/config.yaml"),
        (["--kubeconfig", "/nowhere/kubeconfig"], "/nowhere/kubeconfig"),
        (["--feature-gates", "NoSuchGate=true"], "NoSuchGate"),
        (
            ["--feature-gates", "NodeMutatingWebhook=perhaps"],
            "NodeMutatingWebhook=perhaps",
        ),
        (["--no-such-flag", "1"], "--no-such-flag"),
        (["--drain-seconds", "-1"], "-1"),
        (["--hints-client-ca-file", "/nowhere/ca.crt"], "/nowhere/ca.crt"),
    ] {
        refused(&program, &flags, complaint, folder.path());
    }
    let files = [
        "--tls-cert-file",
        "/nowhere/tls.crt",
        "--tls-key-file",
        "/nowhere/tls.key",
    ];
    refused(&program, &files, "/nowhere/tls.crt", folder.path());
}

/// Checks that with these flags it ends with code 2 and prints the error.
fn refused(program: &Path, flags: &[&str], complaint: &str, folder: &Path) {
    let mut command = Command::new(program);
    let kubeconfig = folder.join("kubeconfig");
    fs::write(&kubeconfig, NO_API_SERVER).expect("write");
    command.env("HEADROOM_KUBECONFIG", kubeconfig);
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
    let assert = command.args(flags).timeout(HAPPENS_WITHIN).assert().code(2);
    let errors = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(errors.contains(complaint), "{flags:?} printed {errors:?}");
}
