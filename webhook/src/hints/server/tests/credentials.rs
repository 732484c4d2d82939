//! Tests of stream credentials: which clients get a stream, and when it ends.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use headroom_domain::names;
use rcgen::{CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rstest::rstest;

use super::*;

#[rstest]
#[case::none(None, Code::Unauthenticated)]
#[case::unknown(Some("garbage"), Code::Unauthenticated)]
#[case::a_person(Some("person"), Code::PermissionDenied)]
#[case::of_another_account(Some("stranger"), Code::PermissionDenied)]
#[case::bound_to_no_node(Some("unbound"), Code::PermissionDenied)]
#[case::not_to_be_checked(Some("down"), Code::Unavailable)]
#[tokio::test]
async fn a_stream_without_an_agents_token_is_refused(#[case] token: Option<&str>, #[case] code: Code) {
    let site = Site::new().await;
    let token = token.map(agent_token);
    let status = StreamClient::open(site.channel(None).await, token.as_deref())
        .await
        .unwrap_err();
    assert_eq!(status.code(), code, "{status:?}");
    assert!(!status.message().is_empty());
}

#[tokio::test]
async fn a_report_for_another_node_ends_the_stream() {
    let site = Site::new().await;
    let mut agent = site.open("agent-n1").await.unwrap();
    agent
        .reports
        .send(HintReport {
            node: "n2".to_owned(),
            ..report(1, 120)
        })
        .await
        .unwrap();
    let status = agent.end().await;
    assert_eq!(status.code(), Code::PermissionDenied);
    assert_eq!(
        status.message(),
        r#"this credential is for node n1, not for "n2""#
    );
    assert!(site.cluster.hints.get("n2", Duration::ZERO).is_none());
}

#[tokio::test]
async fn a_stream_ends_with_its_token() {
    let site = Site::new().await;
    let end = SystemTime::now() + Duration::from_secs(1);
    let end = end.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() + 1;
    let claims = BASE64_URL_SAFE_NO_PAD.encode(format!(r#"{{"exp":{end},"aud":"headroom-webhook"}}"#));
    let token = format!("agent-n1.{claims}.x");
    let mut agent = StreamClient::open(site.channel(None).await, Some(&token))
        .await
        .unwrap();
    let status = agent.end().await;
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unauthenticated, "the credential has expired")
    );
}

#[tokio::test]
async fn a_stream_ends_with_its_pod() {
    let site = Site::new().await;
    let mut agent = site.open("agent-n1").await.unwrap();
    agent.pods().await;
    site.apply_pod(pod("agent-pod", 8, "10m"));
    assert_eq!(agent.pods().await.pods.len(), 2);
    site.delete_pod(pod("agent-pod", 9, "10m"));
    let status = agent.end().await;
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unauthenticated, "the pod of this token no longer exists")
    );
}

#[tokio::test]
async fn the_newest_stream_of_a_node_wins() {
    let site = Site::new().await;
    let mut first = site.open("agent-n1").await.unwrap();
    let mut other = site.open("agent-n2").await.unwrap();
    let mut second = site.open("agent-n1").await.unwrap();
    assert_eq!(first.end().await.code(), Code::Aborted);
    assert_eq!(second.report(report(1, 120)).await.verdict(), Verdict::Accepted);
    let of_other = HintReport {
        node: "n2".to_owned(),
        ..report(1, 120)
    };
    assert_eq!(other.report(of_other).await.verdict(), Verdict::Rejected);
}

#[tokio::test]
async fn a_draining_replica_sends_agents_elsewhere() {
    let site = Site::new().await;
    let mut agent = site.open("agent-n1").await.unwrap();
    agent.pods().await;
    site.shutdown.drain();
    assert_eq!(agent.end().await.code(), Code::Unavailable);
    assert_eq!(site.open("agent-n1").await.unwrap_err().code(), Code::Unavailable);
}

/// A client CA, and a certificate of it for that subject, as files in `place`.
fn client_files(place: &TempDir, name: &str, organisation: &str, common_name: &str) -> (PathBuf, Files) {
    let path = |end: &str| place.path().join(format!("{name}.{end}"));
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::OrganizationName, organisation);
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &ca).unwrap();
    let files = Files {
        cert: path("crt"),
        key: path("key"),
    };
    std::fs::write(path("ca"), ca.pem()).unwrap();
    std::fs::write(&files.cert, certificate.pem()).unwrap();
    std::fs::write(&files.key, key.serialize_pem()).unwrap();
    (path("ca"), files)
}

#[tokio::test]
async fn a_client_certificate_of_an_agent_stands_for_a_token() {
    let place = tempfile::tempdir().unwrap();
    let organisation = names::AGENT_CERTIFICATE_ORGANISATION;
    let (ca, good) = client_files(&place, "good", organisation, "headroom:agent:n1");
    let site = Site::with(vec![Profile::Production], ClientAuth::Optional(ca)).await;

    let mut agent = StreamClient::open(site.channel(Some(&good)).await, None)
        .await
        .unwrap();
    assert_eq!(agent.report(report(1, 120)).await.verdict(), Verdict::Accepted);
    agent
        .reports
        .send(HintReport {
            node: "n2".to_owned(),
            ..report(2, 120)
        })
        .await
        .unwrap();
    assert_eq!(agent.end().await.code(), Code::PermissionDenied);

    let status = StreamClient::open(site.channel(None).await, None)
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn a_client_certificate_of_anybody_else_is_worth_nothing() {
    let place = tempfile::tempdir().unwrap();
    let (ca, node) = client_files(&place, "node", "system:nodes", "system:node:n1");
    let site = Site::with(vec![Profile::Production], ClientAuth::Optional(ca)).await;
    let status = StreamClient::open(site.channel(Some(&node)).await, None)
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);

    let organisation = names::AGENT_CERTIFICATE_ORGANISATION;
    let (_, forged) = client_files(&place, "forged", organisation, "headroom:agent:n1");
    let refused = StreamClient::open(site.channel(Some(&forged)).await, None).await;
    assert!(refused.is_err(), "{refused:?}");
}
