//! Tests of authentication: which clients are admitted, as which node, and how often the API server is asked.

use std::sync::atomic::{AtomicUsize, Ordering};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use futures::future::{BoxFuture, join_all};
use rcgen::{CertificateParams, DnType, KeyPair};
use rstest::rstest;
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;

use super::*;
use crate::hints::token_review::ReviewError;

/// Reviewer with fixed tokens: `agent-NODE` is that node's agent, `unbound`, `stranger`, `person` and `nosy` are
/// other users, `down` fails as an unavailable API server does; all others are invalid. A suffix after a dot is
/// ignored.
#[derive(Debug, Default)]
pub(crate) struct FakeReviewer {
    pub(crate) asked: AtomicUsize,
    /// Duration of each review.
    pub(crate) delay: Duration,
}

/// A token of the form that all clients show, which the reviewer knows by that name: for us, and good for an hour.
pub(crate) fn agent_token(name: &str) -> String {
    issued(name, "here", in_seconds(3600))
}

fn issued(name: &str, issuer: &str, exp: u64) -> String {
    let claims = format!(r#"{{"exp":{exp},"aud":["headroom-webhook"],"iss":"{issuer}"}}"#);
    format!("{name}.{}.x", BASE64_URL_SAFE_NO_PAD.encode(claims))
}

fn user(name: &str, extra: &[(&str, &str)]) -> TokenUser {
    let extra = extra
        .iter()
        .map(|(key, value)| ((*key).to_owned(), vec![(*value).to_owned()]))
        .collect();
    TokenUser {
        name: name.to_owned(),
        extra,
        ..TokenUser::default()
    }
}

const VIEWER: &str = "system:serviceaccount:headroom-system:headroom-viewer";
const AGENT: &str = "system:serviceaccount:headroom-agent:headroom-agent";

impl Reviewer for FakeReviewer {
    fn user<'a>(
        &'a self,
        token: &'a str,
        audience: &'a str,
    ) -> BoxFuture<'a, Result<Option<TokenUser>, ReviewError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let name = token.split('.').next().unwrap_or_default();
        let found = match (name, audience) {
            ("down", _) => Err(ReviewError::Slow),
            ("unbound", names::TOKEN_AUDIENCE) => Ok(Some(user(AGENT, &[]))),
            ("stranger", names::TOKEN_AUDIENCE) => Ok(Some(user(
                "system:serviceaccount:default:default",
                &[(names::TOKEN_NODE_NAME, "n1")],
            ))),
            ("viewer", names::TOKEN_AUDIENCE) => Ok(Some(user(VIEWER, &[]))),
            ("person" | "nosy", names::TOKEN_AUDIENCE) => Ok(Some(user(name, &[]))),
            (_, names::TOKEN_AUDIENCE) => Ok(name
                .strip_prefix("agent-")
                .map(|node| user(AGENT, &[(names::TOKEN_NODE_NAME, node), (POD_UID, "agent-pod")]))),
            _ => Ok(None),
        };
        Box::pin(async move {
            sleep(self.delay).await;
            found
        })
    }

    fn may_get<'a>(&'a self, user: &'a TokenUser, url: &'a str) -> BoxFuture<'a, Result<bool, ReviewError>> {
        let is_allowed = ["person", VIEWER].contains(&user.name.as_str()) && url == names::DEBUG_URL;
        Box::pin(async move { Ok(is_allowed) })
    }
}

fn authenticator() -> (Arc<Authenticator>, Arc<FakeReviewer>) {
    slow_authenticator(Duration::ZERO)
}

fn slow_authenticator(delay: Duration) -> (Arc<Authenticator>, Arc<FakeReviewer>) {
    let reviewer = Arc::new(FakeReviewer {
        delay,
        ..FakeReviewer::default()
    });
    let authenticator = Authenticator::new(Arc::clone(&reviewer) as _, &Installation::default());
    (Arc::new(authenticator), reviewer)
}

fn caller(text: &str) -> Caller {
    from([127, 0, 0, 1], 1, text)
}

fn from(ip: [u8; 4], port: u16, text: &str) -> Caller {
    Caller {
        credential: Credential::Token(text.to_owned()),
        peer: Peer::new((ip, port).into(), None),
    }
}

fn agent_caller(name: &str) -> Caller {
    caller(&agent_token(name))
}

fn in_seconds(seconds: u64) -> u64 {
    let later = SystemTime::now() + Duration::from_secs(seconds);
    later.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

#[tokio::test]
async fn a_bound_token_of_the_agent_names_its_node_and_pod() {
    let (authenticator, _) = authenticator();
    let end = in_seconds(3600);
    let agent = authenticator
        .agent(&caller(&issued("agent-n1", "here", end)))
        .await
        .unwrap();
    let expected = AgentIdentity {
        node: "n1".into(),
        pod_uid: Some("agent-pod".into()),
        expires: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(end)),
    };
    assert_eq!(agent, expected);
}

#[rstest]
#[case("garbage", Code::Unauthenticated, 1)]
#[case("stranger", Code::PermissionDenied, 1)]
#[case("unbound", Code::PermissionDenied, 1)]
#[case("person", Code::PermissionDenied, 1)]
#[case("down", Code::Unavailable, 2)]
#[tokio::test(start_paused = true)]
async fn nobody_else_is_let_in_as_an_agent_and_a_refusal_counts_for_seconds(
    #[case] name: &str,
    #[case] code: Code,
    #[case] asked: usize,
) {
    let (authenticator, reviewer) = authenticator();
    let caller = agent_caller(name);
    for _ in 0..2 {
        assert_eq!(authenticator.agent(&caller).await.unwrap_err().code(), code);
    }
    assert_eq!(reviewer.asked.load(Ordering::Relaxed), asked);
    sleep(REFUSED_FOR).await;
    assert_eq!(authenticator.agent(&caller).await.unwrap_err().code(), code);
    assert_eq!(
        reviewer.asked.load(Ordering::Relaxed),
        asked + 1,
        "a refusal outlived its time"
    );
}

#[rstest]
#[case::no_claims("agent-n1")]
#[case::past(&issued("agent-n1", "here", 1))]
#[case::for_the_api_server(&format!("agent-n1.{}.x", BASE64_URL_SAFE_NO_PAD.encode(r#"{"exp":9999999999,"aud":"https://kubernetes.default.svc"}"#)))]
#[tokio::test]
async fn a_token_that_cannot_be_good_costs_no_review(#[case] text: &str) {
    let (authenticator, reviewer) = authenticator();
    let error = authenticator.agent(&caller(text)).await.unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated);
    assert_eq!(reviewer.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_good_token_is_asked_about_once_a_minute_unless_it_ends_before() {
    let (authenticator, reviewer) = authenticator();
    let good = agent_caller("agent-n1");
    for _ in 0..3 {
        authenticator.agent(&good).await.unwrap();
    }
    assert_eq!(reviewer.asked.load(Ordering::Relaxed), 1);
    authenticator.agent_anew(&good).await.unwrap();
    assert_eq!(reviewer.asked.load(Ordering::Relaxed), 2);
    sleep(LIFETIME).await;
    authenticator.agent(&good).await.unwrap();
    assert_eq!(reviewer.asked.load(Ordering::Relaxed), 3);

    let soon = caller(&issued("agent-n1", "here", in_seconds(20)));
    authenticator.agent(&soon).await.unwrap();
    sleep(Duration::from_secs(20)).await;
    authenticator.agent(&soon).await.unwrap();
    assert_eq!(reviewer.asked.load(Ordering::Relaxed), 5, "kept beyond its end");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_bogus_tokens_per_second_do_not_block_agent_reconnects() {
    let (authenticator, reviewer) = slow_authenticator(Duration::from_millis(50));
    let flooded = Arc::clone(&authenticator);
    let flood = tokio::spawn(async move {
        for n in 0..10_000_u16 {
            let bogus = from([127, 0, 0, 2], n, &agent_token(&format!("bogus-{n}")));
            let authenticator = Arc::clone(&flooded);
            tokio::spawn(async move { authenticator.agent(&bogus).await.is_ok() });
            sleep(Duration::from_millis(1)).await;
        }
    });
    sleep(Duration::from_secs(5)).await;
    let agents = (0..500_u16).map(|n| {
        let [high, low] = n.to_be_bytes();
        let agent = from([10, 0, high, low], 1, &agent_token(&format!("agent-n{n}")));
        let authenticator = Arc::clone(&authenticator);
        async move { authenticator.agent(&agent).await.is_ok() }
    });
    let begun = Instant::now();
    let let_in = timeout(Duration::from_secs(2), join_all(agents))
        .await
        .expect("agents within 2 s");
    assert!(let_in.iter().all(|is_in| *is_in), "after {:?}", begun.elapsed());
    flood.await.unwrap();
    // Fifty at once and ten a second, and those under way when the rate was met.
    let bogus = reviewer.asked.load(Ordering::Relaxed) - 500;
    assert!(bogus < 50 + 10 * 10 + 16, "{bogus} reviews of bogus tokens");
}

#[tokio::test(start_paused = true)]
async fn tokens_of_unknown_issuers_have_few_turns_of_their_own() {
    let (authenticator, reviewer) = slow_authenticator(Duration::from_secs(1));
    authenticator.agent(&agent_caller("agent-n1")).await.unwrap();
    for n in 0..200 {
        let bogus = from(
            [10, 0, 0, n],
            1,
            &issued(&format!("bogus-{n}"), "elsewhere", in_seconds(60)),
        );
        let authenticator = Arc::clone(&authenticator);
        tokio::spawn(async move { authenticator.agent(&bogus).await.is_ok() });
    }
    sleep(Duration::from_millis(1)).await;
    assert_eq!(reviewer.asked.load(Ordering::Relaxed), 1 + UNKNOWN_ISSUER_REVIEWS);
    let begun = Instant::now();
    authenticator.agent(&agent_caller("agent-n2")).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(1), "waited for others");

    // An issuer that an agent's token has is known from then on.
    sleep(Duration::from_secs(10)).await;
    let other = |name| caller(&issued(name, "after-the-change", in_seconds(60)));
    authenticator.agent(&other("agent-n3")).await.unwrap();
    assert!(authenticator.knows_issuer("after-the-change") && !authenticator.knows_issuer("elsewhere"));
}

#[tokio::test(start_paused = true)]
async fn people_and_agents_do_not_wait_for_each_other() {
    let (authenticator, _) = slow_authenticator(Duration::from_secs(1));
    for n in 0..200 {
        let nosy = from([10, 0, 0, n], 1, &agent_token("nosy"));
        let authenticator = Arc::clone(&authenticator);
        tokio::spawn(async move { authenticator.may_debug(&nosy).await.is_ok() });
    }
    sleep(Duration::from_millis(1)).await;
    let begun = Instant::now();
    authenticator.agent(&agent_caller("agent-n1")).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(1), "waited for people");
}

#[rstest]
#[case("person", None)]
#[case("nosy", Some(Code::PermissionDenied))]
#[case("garbage", Some(Code::Unauthenticated))]
#[case("agent-n1", Some(Code::PermissionDenied))]
#[tokio::test]
async fn only_who_may_get_the_debug_url_looks_on(#[case] text: &str, #[case] refused: Option<Code>) {
    let (authenticator, _) = authenticator();
    let result = authenticator.may_debug(&agent_caller(text)).await;
    assert_eq!(result.err().map(|error| error.code()), refused);
}

#[rstest]
#[case::requested_by_the_plugin("viewer", 600, None)]
#[case::requested_for_a_day("viewer", 86_400, Some("long_validity"))]
#[case::of_a_pods_own_account("person", 86_400, None)]
#[tokio::test]
async fn viewers_token_is_refused_if_it_is_valid_for_a_day(
    #[case] name: &str,
    #[case] validity: u64,
    #[case] refused: Option<&str>,
) {
    let (authenticator, _) = authenticator();
    let created = in_seconds(0) - 60;
    let claims = format!(
        r#"{{"iat":{created},"exp":{},"aud":["headroom-webhook"],"iss":"here"}}"#,
        created + validity
    );
    let token = format!("{name}.{}.x", BASE64_URL_SAFE_NO_PAD.encode(claims));
    let result = authenticator.may_debug(&caller(&token)).await;
    assert_eq!(result.err().map(|error| error.label()), refused);
}

#[tokio::test]
async fn a_token_that_a_person_has_for_the_api_server_is_not_asked_about() {
    let (authenticator, reviewer) = authenticator();
    for token in ["person", "person.e30.x"] {
        let error = authenticator.may_debug(&caller(token)).await.unwrap_err();
        assert_eq!(error.code(), Code::Unauthenticated, "{token}");
    }
    assert_eq!(reviewer.asked.load(Ordering::Relaxed), 0);
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
    match (Credential::from_request(&metadata, None), expected) {
        (Ok(Credential::Token(token)), Some(expected)) => assert_eq!(token, expected),
        (Err(StreamError::NoCredential), None) => {}
        (Ok(_) | Err(_), _) => panic!("{header:?}"),
    }
}

#[test]
fn a_certificate_counts_where_there_is_no_token() {
    let chain: Arc<[CertificateDer<'static>]> = certificate("o", "c").into();
    let peer = Peer::new(([127, 0, 0, 1], 1).into(), Some(chain));
    let mut metadata = MetadataMap::new();
    assert!(matches!(
        Credential::from_request(&metadata, Some(&peer)),
        Ok(Credential::Certificate(_))
    ));
    metadata.insert("authorization", "Bearer abc".parse().unwrap());
    assert!(matches!(
        Credential::from_request(&metadata, Some(&peer)),
        Ok(Credential::Token(_))
    ));
}
