//! Tests of the hint port with a real API server: which clients may report, which reports are accepted, and the answers
//! to them.
#![expect(
    clippy::expect_used,
    clippy::too_many_lines,
    reason = "tests panic: a returned error has no stack; a table of cases is read in one go"
)]

use std::path::Path;

use e2e::{
    scripted_agent::{ScriptedAgent, channel, hint},
    stand::{AUTO, Stand, count},
};
use headroom_domain::{estimate::Profile, hint::NodeHint, names};
use headroom_kit::tls::Files;
use headroom_proto::v1alpha1::{HintReport, Timing, Verdict};
use headroom_testbed::webhook::{self, Webhook};
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{Node, Pod, ServiceAccount},
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, PostParams},
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use serde_json::json;
use tonic::{Code, Request, Status};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

/// An account in the agents' namespace that is not theirs.
const STRANGER: &str = "stranger";

/// A report of a node.
fn report(node: &Node, seq: u64, cents: u32) -> HintReport {
    let hint = NodeHint {
        timing: Profile::Production,
        ..hint(&node.name_any(), &node.uid().expect("a UID"), seq, cents)
    };
    HintReport::from(&hint)
}

/// A report of a node, changed.
fn changed(node: &Node, seq: u64, change: impl FnOnce(&mut HintReport)) -> HintReport {
    let mut report = report(node, seq, 120);
    change(&mut report);
    report
}

/// The status that a stream with this token is refused with.
async fn refused(webhook: &Webhook, token: Option<&str>) -> Status {
    ScriptedAgent::open(webhook.hints, &webhook.ca, token)
        .await
        .expect_err("no stream")
}

/// Object that a token is bound to.
fn bound_to<K: Resource<DynamicType = ()>>(object: &K) -> BoundObjectReference {
    BoundObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        name: object.meta().name.clone(),
        uid: object.meta().uid.clone(),
    }
}

/// A token of an account in the agents' namespace: for an audience, or for the API server itself.
async fn token(
    stand: &Stand,
    account: &str,
    audience: Option<&str>,
    bound: Option<BoundObjectReference>,
) -> String {
    let spec = TokenRequestSpec {
        audiences: audience.map(|audience| vec![audience.to_owned()]),
        bound_object_ref: bound,
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest {
        spec: Some(spec),
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(stand.client.clone(), names::AGENT_NAMESPACE);
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await
        .expect("a token");
    answer.status.and_then(|status| status.token).expect("a token")
}

fn agent_pods(stand: &Stand) -> Api<Pod> {
    Api::namespaced(stand.client.clone(), names::AGENT_NAMESPACE)
}

/// The agent's pod on a node, as its DaemonSet makes it.
async fn agent_pod(stand: &Stand, node: &str) -> Pod {
    let object = json!({
        "metadata": {"name": format!("headroom-agent-{node}")},
        "spec": {
            "serviceAccountName": names::AGENT_SERVICE_ACCOUNT,
            "nodeName": node,
            "containers": [{"name": "agent", "image": "agent"}],
        },
    });
    let object = serde_json::from_value(object).expect("a Pod");
    agent_pods(stand)
        .create(&PostParams::default(), &object)
        .await
        .expect("create the pod")
}

#[tokio::test(flavor = "multi_thread")]
async fn token_review_decides_which_agent_reports_for_which_node() {
    let stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", AUTO).await;
    let node = stand.create_node("n1", "4", "8Gi").await;
    let other = stand.create_node("n2", "4", "8Gi").await;
    let accounts: Api<ServiceAccount> = Api::namespaced(stand.client.clone(), names::AGENT_NAMESPACE);
    let stranger = serde_json::from_value(json!({"metadata": {"name": STRANGER}})).expect("an account");
    accounts
        .create(&PostParams::default(), &stranger)
        .await
        .expect("create the account");

    let (agent, ours) = (names::AGENT_SERVICE_ACCOUNT, Some(names::TOKEN_AUDIENCE));
    for (what, token, code) in [
        ("no token", None, Code::Unauthenticated),
        ("rubbish", Some("rubbish".to_owned()), Code::Unauthenticated),
        (
            "a token for the API server",
            Some(token(&stand, agent, None, Some(bound_to(&node))).await),
            Code::Unauthenticated,
        ),
        (
            "a token that names no node",
            Some(token(&stand, agent, ours, None).await),
            Code::PermissionDenied,
        ),
        (
            "another account's token",
            Some(token(&stand, STRANGER, ours, Some(bound_to(&node))).await),
            Code::PermissionDenied,
        ),
    ] {
        let status = refused(&webhook, token.as_deref()).await;
        assert_eq!(status.code(), code, "{what}: {status:?}");
        assert!(!status.message().is_empty(), "{what}");
    }

    // A token bound to the node itself, and then a report for another node.
    let bound = token(&stand, agent, ours, Some(bound_to(&node))).await;
    let mut stream = ScriptedAgent::open(webhook.hints, &webhook.ca, Some(&bound))
        .await
        .expect("a stream");
    let ack = stream.report(report(&node, 1, 120)).await.expect("an answer");
    assert_eq!(ack.verdict(), Verdict::Accepted, "{}", ack.reason);
    let status = stream
        .report(report(&other, 2, 120))
        .await
        .expect_err("the end of the stream");
    assert_eq!(status.code(), Code::PermissionDenied);
    assert_eq!(
        status.message(),
        r#"this credential is for node n1, not for "n2""#
    );

    // A token as the kubelet gives it to a pod: bound to the pod, and worth nothing after it.
    let pod = agent_pod(&stand, "n2").await;
    let uid = pod.uid().expect("a UID");
    let bound = token(&stand, agent, ours, Some(bound_to(&pod))).await;
    let mut stream = ScriptedAgent::open(webhook.hints, &webhook.ca, Some(&bound))
        .await
        .expect("a stream");
    let ack = stream.report(report(&other, 1, 120)).await.expect("an answer");
    assert_eq!(ack.verdict(), Verdict::Accepted, "{}", ack.reason);
    let has_it = |pods: &headroom_proto::v1alpha1::Pods| pods.pods.iter().any(|pod| pod.uid == uid);
    stream
        .pods_until(has_it)
        .await
        .expect("its own pod among the pods");
    agent_pods(&stand)
        .delete(&pod.name_any(), &DeleteParams::default().grace_period(0))
        .await
        .expect("delete the pod");
    let status = stream.end().await;
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_reports_are_answered_and_counted_on_an_open_stream() {
    const TAKEN: &str = r#"headroom_webhook_reports_total{verdict="accepted"}"#;
    const STALE: &str = r#"headroom_webhook_reports_total{verdict="stale"}"#;
    const REJECTED: &str = r#"headroom_webhook_reports_total{verdict="rejected"}"#;
    let stand = Stand::start().await;
    let webhook = stand.webhook_with("webhook-0", AUTO, &[]).await;
    let node = stand.create_node("n1", "4", "8Gi").await;
    let token = stand.agent_token(&node).await;
    let mut agent = ScriptedAgent::open(webhook.hints, &webhook.ca, Some(&token))
        .await
        .expect("a stream");
    // Until the replica knows the Node, it takes hints for it on trust.
    agent.pods_until(|_| true).await.expect("the pods of the Node");
    let timing = agent
        .policy
        .as_ref()
        .expect("a policy before that")
        .timing_allowed
        .clone();
    assert_eq!(timing, [i32::from(Timing::Production)]);
    let ack = agent.report(report(&node, 5, 120)).await.expect("an answer");
    assert_eq!(ack.verdict(), Verdict::Accepted, "{}", ack.reason);

    // On the wire of an unsigned field, -1 is the largest number there is.
    let unfit = [
        (
            changed(&node, 6, |r| r.resources[0].usage = u64::MAX),
            "resources.cpu.usage: ",
        ),
        (
            changed(&node, 7, |r| r.resources[1].capacity = u64::MAX),
            "resources.memory.capacity: ",
        ),
        (
            changed(&node, 8, |r| r.resources[0].published_cents = u32::MAX),
            "resources.cpu.published_cents: ",
        ),
        (
            changed(&node, 9, |r| r.resources[0].coverage_ppm = 1_000_001),
            "resources.cpu.coverage_ppm: ",
        ),
        (
            changed(&node, 10, |r| r.resources.truncate(1)),
            "resources: memory is missing",
        ),
        (changed(&node, 11, |r| r.mode = -1), "mode: -1 is not known"),
        (
            changed(&node, 12, |r| "8c7a5d0e".clone_into(&mut r.node_uid)),
            "node_uid: the Node has UID ",
        ),
        (
            changed(&node, 13, |r| r.timing = Timing::Demo.into()),
            "timing: demo is not allowed here",
        ),
    ];
    for (report, reason) in &unfit {
        let ack = agent.report(report.clone()).await.expect("the stream lives");
        assert_eq!(ack.verdict(), Verdict::Rejected, "{reason}");
        assert!(
            ack.reason.starts_with(reason),
            "{:?} is not {reason:?}",
            ack.reason
        );
    }
    for seq in [5, 3] {
        let ack = agent
            .report(report(&node, seq, 120))
            .await
            .expect("the stream lives");
        assert_eq!(ack.verdict(), Verdict::Stale);
        assert_eq!(ack.reason, format!("sequence number {seq} is not above 5"));
    }
    let ack = agent
        .report(report(&node, 14, 130))
        .await
        .expect("the stream lives");
    assert_eq!(ack.verdict(), Verdict::Accepted, "{}", ack.reason);
    let counted = [TAKEN, STALE, REJECTED].map(|series| count(&webhook, series));
    assert_eq!(futures::future::join_all(counted).await, [2, 2, 8]);

    // Another replica accepts hints of demonstrations.
    let lenient = stand
        .webhook_with("webhook-1", AUTO, &[webhook::DEMO_TIMING])
        .await;
    let mut agent = ScriptedAgent::open(lenient.hints, &lenient.ca, Some(&token))
        .await
        .expect("a stream");
    let demo = changed(&node, 1, |r| r.timing = Timing::Demo.into());
    let ack = agent.report(demo).await.expect("an answer");
    assert_eq!(ack.verdict(), Verdict::Accepted, "{}", ack.reason);
}

/// A CA for clients, and files of certificates that it signed.
struct Clients<'f> {
    folder: &'f Path,
    ca: CertifiedIssuer<'static, KeyPair>,
}

impl<'f> Clients<'f> {
    fn new(folder: &'f Path) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "clients");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let ca = CertifiedIssuer::self_signed(params, key).expect("a CA");
        Self { folder, ca }
    }

    fn certificate(&self, file: &str, organisation: &str, common_name: &str) -> Files {
        let mut params = CertificateParams::default();
        let subject = &mut params.distinguished_name;
        subject.push(DnType::OrganizationName, organisation);
        subject.push(DnType::CommonName, common_name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.ca).expect("a certificate");
        let files = Files {
            cert: self.folder.join(format!("{file}.crt")),
            key: self.folder.join(format!("{file}.key")),
        };
        std::fs::write(&files.cert, certificate.pem()).expect("write");
        std::fs::write(&files.key, key.serialize_pem()).expect("write");
        files
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_certificate_replaces_a_token_if_its_ca_is_configured() {
    let stand = Stand::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let (known, unknown) = (Clients::new(folder.path()), Clients::new(folder.path()));
    let ca = folder.path().join("clients.crt");
    std::fs::write(&ca, known.ca.pem()).expect("write");
    let flags = ["--hints-client-ca-file", ca.to_str().expect("UTF-8")];
    let webhook = stand.webhook_with("webhook-0", AUTO, &flags).await;
    let node = stand.create_node("n1", "4", "8Gi").await;
    let other = stand.create_node("n2", "4", "8Gi").await;

    let organisation = names::AGENT_CERTIFICATE_ORGANISATION;
    let name = format!("{}n1", names::AGENT_CERTIFICATE_PREFIX);
    let own = known.certificate("own", organisation, &name);
    let kubelet = known.certificate("kubelet", names::NODES_GROUP, "system:node:n1");
    let forged = unknown.certificate("forged", organisation, &name);
    let connect = async |identity: Option<&Files>| channel(webhook.hints, &webhook.ca, identity).await;

    let with_own = connect(Some(&own)).await.expect("a connection");
    let mut agent = ScriptedAgent::over(with_own, None).await.expect("a stream");
    let ack = agent.report(report(&node, 1, 120)).await.expect("an answer");
    assert_eq!(ack.verdict(), Verdict::Accepted, "{}", ack.reason);
    let status = agent
        .report(report(&other, 2, 120))
        .await
        .expect_err("another node");
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");

    let as_kubelet = connect(Some(&kubelet)).await.expect("a connection");
    let status = ScriptedAgent::over(as_kubelet, None).await.expect_err("no agent");
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
    let without = connect(None).await.expect("a connection");
    let status = ScriptedAgent::over(without, None)
        .await
        .expect_err("no credential");
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    // In TLS 1.3 a client learns only after its handshake that its certificate is not taken.
    if let Ok(connection) = connect(Some(&forged)).await {
        ScriptedAgent::over(connection, None)
            .await
            .expect_err("a forged certificate");
    }
    // A token is valid in addition to certificates.
    let token = stand.agent_token(&node).await;
    ScriptedAgent::open(webhook.hints, &webhook.ca, Some(&token))
        .await
        .expect("a stream");
}

#[tokio::test(flavor = "multi_thread")]
async fn health_answers_unauthenticated_clients_and_reflection_only_with_its_flag() {
    let stand = Stand::start().await;
    let usual = stand.webhook("webhook-0", AUTO).await;
    let channel_of_usual = channel(usual.hints, &usual.ca, None).await.expect("a connection");
    let question = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let refused = ServerReflectionClient::new(channel_of_usual)
        .server_reflection_info(Request::new(tokio_stream::once(question)))
        .await
        .expect_err("no reflection");
    assert_eq!(refused.code(), Code::Unimplemented);
    let webhook = stand
        .webhook_with("webhook-1", AUTO, &["--grpc-reflection"])
        .await;
    let channel = channel(webhook.hints, &webhook.ca, None)
        .await
        .expect("a connection");
    let mut health = HealthClient::new(channel.clone());
    for service in ["headroom.v1alpha1.Hints", "headroom.v1alpha1.Debug"] {
        let question = HealthCheckRequest {
            service: service.to_owned(),
        };
        let answer = health.check(question).await.expect("an answer").into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
    let unknown = HealthCheckRequest {
        service: "headroom.v1alpha1.Hint".to_owned(),
    };
    assert_eq!(
        health.check(unknown).await.expect_err("no such service").code(),
        Code::NotFound
    );

    let question = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::FileContainingSymbol(
            "headroom.v1alpha1.Hints".to_owned(),
        )),
    };
    let mut answers = ServerReflectionClient::new(channel)
        .server_reflection_info(Request::new(tokio_stream::once(question)))
        .await
        .expect("a stream")
        .into_inner();
    let answer = answers.message().await.expect("an answer").expect("one");
    let is_described = matches!(
        &answer.message_response,
        Some(MessageResponse::FileDescriptorResponse(files)) if !files.file_descriptor_proto.is_empty()
    );
    assert!(is_described, "{answer:?}");
}
