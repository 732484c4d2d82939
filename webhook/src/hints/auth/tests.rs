//! Who is let in, as what, and how often the API server is asked.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use rcgen::{CertificateParams, DnType, KeyPair};
use rstest::rstest;
use tonic::Code;

use super::*;
use crate::hints::review::ReviewError;

/// Knows tokens by heart: `agent-NODE` is that node's agent, `unbound`, `stranger`, `person` and `nosy` are others,
/// `down` is when the API server is; all else is not valid. What follows a dot is ignored.
#[derive(Debug, Default)]
pub(crate) struct FakeReviewer {
    pub(crate) asked: AtomicUsize,
}

fn user(name: &str, extra: &[(&str, &str)]) -> User {
    let extra = extra
        .iter()
        .map(|(key, value)| ((*key).to_owned(), vec![(*value).to_owned()]))
        .collect();
    User {
        name: name.to_owned(),
        extra,
        ..User::default()
    }
}

const AGENT: &str = "system:serviceaccount:headroom-agent:headroom-agent";

impl Reviewer for FakeReviewer {
    fn user<'a>(
        &'a self,
        token: &'a str,
        audience: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Option<User>, ReviewError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let name = token.split('.').next().unwrap_or_default();
        let found = match (name, audience) {
            ("down", _) => Err(ReviewError::Slow),
            ("unbound", Some(names::TOKEN_AUDIENCE)) => Ok(Some(user(AGENT, &[]))),
            ("stranger", Some(names::TOKEN_AUDIENCE)) => Ok(Some(user(
                "system:serviceaccount:default:default",
                &[(names::TOKEN_NODE_NAME, "n1")],
            ))),
            ("person" | "nosy", None) => Ok(Some(user(name, &[]))),
            (_, Some(names::TOKEN_AUDIENCE)) => Ok(name
                .strip_prefix("agent-")
                .map(|node| user(AGENT, &[(names::TOKEN_NODE_NAME, node), (POD_UID, "agent-pod")]))),
            _ => Ok(None),
        };
        Box::pin(async move { found })
    }

    fn may_get<'a>(&'a self, user: &'a User, url: &'a str) -> BoxFuture<'a, Result<bool, ReviewError>> {
        let is_allowed = user.name == "person" && url == names::DEBUG_URL;
        Box::pin(async move { Ok(is_allowed) })
    }
}

fn authenticator() -> (Authenticator, Arc<FakeReviewer>) {
    let reviewer = Arc::new(FakeReviewer::default());
    (Authenticator::new(Arc::clone(&reviewer) as _), reviewer)
}

fn token(text: &str) -> Credential {
    Credential::Token(text.to_owned())
}

/// A token of `n1` with that claim, in the form of a JWT.
fn expiring(exp: u64) -> String {
    format!(
        "agent-n1.{}.x",
        BASE64_URL_SAFE_NO_PAD.encode(format!(r#"{{"exp":{exp}}}"#))
    )
}

fn in_seconds(seconds: u64) -> u64 {
    let later = SystemTime::now() + Duration::from_secs(seconds);
    later.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

#[tokio::test]
async fn a_bound_token_of_the_agent_names_its_node_and_pod() {
    let (authenticator, _) = authenticator();
    let agent = authenticator.agent(&token("agent-n1")).await.unwrap();
    let expected = Agent {
        node: "n1".into(),
        pod_uid: Some("agent-pod".into()),
        expires: None,
    };
    assert_eq!(agent, expected);
}

#[rstest]
#[case("garbage", Code::Unauthenticated)]
#[case("stranger", Code::PermissionDenied)]
#[case("unbound", Code::PermissionDenied)]
#[case("person", Code::Unauthenticated)]
#[case("down", Code::Unavailable)]
#[tokio::test]
async fn nobody_else_is_let_in_as_an_agent(#[case] text: &str, #[case] code: Code) {
    let (authenticator, reviewer) = authenticator();
    for _ in 0..2 {
        assert_eq!(authenticator.agent(&token(text)).await.unwrap_err().code(), code);
    }
    assert_eq!(
        reviewer.asked.load(Ordering::Relaxed),
        2,
        "a refusal was remembered"
    );
}

#[tokio::test]
async fn a_good_token_is_asked_about_once_a_minute_unless_it_ends_before() {
    let (authenticator, reviewer) = authenticator();
    let text = expiring(in_seconds(3600));
    for _ in 0..3 {
        authenticator.agent(&token(&text)).await.unwrap();
    }
    assert_eq!(reviewer.asked.load(Ordering::Relaxed), 1);
    authenticator.agent_anew(&token(&text)).await.unwrap();
    assert_eq!(reviewer.asked.load(Ordering::Relaxed), 2);
    let kept = authenticator.lock().get(&key(&text)).unwrap().until;
    assert!(kept <= Instant::now() + LIFETIME);

    let soon = expiring(in_seconds(2));
    authenticator.agent(&token(&soon)).await.unwrap();
    let kept = authenticator.lock().get(&key(&soon)).unwrap().until;
    assert!(kept <= Instant::now() + Duration::from_secs(2));
}

#[tokio::test]
async fn a_token_past_its_end_is_not_good_whatever_the_reviewer_says() {
    let (authenticator, _) = authenticator();
    let error = authenticator.agent(&token(&expiring(1))).await.unwrap_err();
    assert!(matches!(error, StreamError::Expired));
    assert!(authenticator.lock().is_empty());
}

#[rstest]
#[case("person", None)]
#[case("nosy", Some(Code::PermissionDenied))]
#[case("garbage", Some(Code::Unauthenticated))]
#[case("agent-n1", Some(Code::Unauthenticated))]
#[tokio::test]
async fn only_who_may_get_the_debug_url_looks_on(#[case] text: &str, #[case] refused: Option<Code>) {
    let (authenticator, _) = authenticator();
    let result = authenticator.may_debug(&token(text)).await;
    assert_eq!(result.err().map(|error| error.code()), refused);
}

fn certificate(organisation: &str, common_name: &str) -> [CertificateDer<'static>; 1] {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::OrganizationName, organisation);
    params.distinguished_name.push(DnType::CommonName, common_name);
    let key = KeyPair::generate().unwrap();
    [params.self_signed(&key).unwrap().der().clone()]
}

#[rstest]
#[case(names::AGENT_CERTIFICATE_ORGANISATION, "headroom:agent:n1", Some("n1"))]
#[case(names::AGENT_CERTIFICATE_ORGANISATION, "headroom:agent:", None)]
#[case(names::AGENT_CERTIFICATE_ORGANISATION, "n1", None)]
#[case("system:nodes", "headroom:agent:n1", None)]
fn a_certificate_names_its_node(#[case] organisation: &str, #[case] name: &str, #[case] node: Option<&str>) {
    let agent = certified(&certificate(organisation, name), SystemTime::now());
    assert_eq!(agent.ok().map(|agent| agent.node).as_deref(), node);
}

#[test]
fn a_certificate_ends_with_its_validity() {
    let chain = certificate(names::AGENT_CERTIFICATE_ORGANISATION, "headroom:agent:n1");
    let end = certified(&chain, SystemTime::now()).unwrap().expires.unwrap();
    assert!(matches!(certified(&chain, end), Err(StreamError::Expired)));
}

#[rstest]
#[case("Bearer abc", Some("abc"))]
#[case("bearer abc", Some("abc"))]
#[case("Basic abc", None)]
#[case("Bearer ", None)]
#[case("abc", None)]
fn a_bearer_token_is_read_from_the_metadata(#[case] header: &str, #[case] expected: Option<&str>) {
    let mut metadata = MetadataMap::new();
    metadata.insert("authorization", header.parse().unwrap());
    match (Credential::of(&metadata, None), expected) {
        (Ok(Credential::Token(token)), Some(expected)) => assert_eq!(token, expected),
        (Err(StreamError::NoCredential), None) => {}
        (Ok(_) | Err(_), _) => panic!("{header:?}"),
    }
}

#[test]
fn a_certificate_counts_where_there_is_no_token() {
    let chain: Arc<[CertificateDer<'static>]> = certificate("o", "c").into();
    let peer = Peer {
        address: ([127, 0, 0, 1], 1).into(),
        certificates: Some(chain),
    };
    let mut metadata = MetadataMap::new();
    assert!(matches!(
        Credential::of(&metadata, Some(&peer)),
        Ok(Credential::Certificate(_))
    ));
    metadata.insert("authorization", "Bearer abc".parse().unwrap());
    assert!(matches!(
        Credential::of(&metadata, Some(&peer)),
        Ok(Credential::Token(_))
    ));
}
