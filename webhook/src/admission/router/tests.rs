//! Tests of the router as a service, without a socket.

mod frame;

use std::{convert::Infallible, time::Duration};

use headroom_kit::gate::{Gate, GateSet};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::TokioIo;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{
    admission::{
        draft::Draft,
        endpoint::{
            BrokenStep, ConfigurationObject, Ctx, Declaration, Denials, Endpoint, Entry, FailurePolicy, Kind,
            Namespaces, Objects, Reinvocation, RequestLimits, Rule, SideEffects, Step, Stop, UnknownSource,
            When, Work,
        },
        error::{ReviewOutcome, StepError},
        refusal::{Denial, DenialStyle},
        review::Operation,
        shadow::Shadow,
    },
    store::lookup::NodeLookup,
};

type ThingEndpoint = Endpoint<dyn NodeLookup>;
type ThingStep = Step<dyn NodeLookup>;

const RULES: &[Rule] = &[Rule {
    operations: &[Operation::Create, Operation::Update, Operation::Delete],
    group: "",
    version: "v1",
    resource: "things",
    sub_resource: "",
}];

static WRITES_GATE: Gate = Gate::beta("Writes", "Writes a label.");
static OBEYS_GATE: Gate = Gate::beta("Obeys", "Does what the object's name says.");

static WRITES: ThingStep = ThingStep {
    name: "writes",
    when: When::On(&WRITES_GATE),
    about: "Writes a label.",
    reads: &[],
    unknown: UnknownSource::IsHandled,
    run: |_ctx, draft| {
        draft
            .set(&["metadata", "labels", "written"], "yes")
            .map_err(StepError::Write)?;
        draft.audit("label", "written");
        Ok(())
    },
};
static OBEYS: ThingStep = ThingStep {
    name: "obeys",
    when: When::On(&OBEYS_GATE),
    about: "Does what the object's name says.",
    reads: &[],
    unknown: UnknownSource::IsHandled,
    run: |ctx, draft| {
        draft.set(&["half"], true).map_err(StepError::Write)?;
        match ctx.request.name.as_str() {
            "denied" => Err(Stop::Denied(Denial::Value {
                field: "metadata.name".to_owned(),
                value: "denied".to_owned(),
                reason: "is refused".to_owned(),
            })),
            "failed" => Ok(draft
                .set(&["metadata", "name", "x"], 1)
                .map_err(StepError::Write)?),
            "panicked" => panic!("as asked"),
            "warned" => {
                draft.warn("careful");
                draft.remove(&["half"]);
                Ok(())
            }
            _ => {
                draft.remove(&["half"]);
                Ok(())
            }
        }
    },
};

static STEPS: &[&ThingStep] = &[&WRITES, &OBEYS];

static ENTRIES: &[Entry] = &[Entry {
    name: "things.test",
    when: When::Always,
    rules: RULES,
    namespaces: Namespaces::All,
    objects: Objects::All,
    conditions: &[],
    side_effects: SideEffects::None,
    failure_policy: FailurePolicy::Ignore,
    timeout: Duration::from_secs(10),
}];

const fn thing(path: &'static str, kind: Kind, broken_step: BrokenStep) -> ThingEndpoint {
    ThingEndpoint {
        declaration: Declaration {
            path,
            about: "For tests.",
            kind,
            configuration: ConfigurationObject::Nodes,
            gate: None,
            modifiers: &[],
            entries: ENTRIES,
            broken_step,
            denial_style: DenialStyle::FORBIDDEN,
            denials: Denials::First,
            passes: &[],
            work: Work::Inline,
            limits: RequestLimits::DEFAULT,
        },
        awaits: None,
        steps: STEPS,
    }
}

const MUTATING: Kind = Kind::Mutating(Reinvocation::Never);
static STRICT: ThingEndpoint = thing("/strict", MUTATING, BrokenStep::FailsTheCall);
static LENIENT: ThingEndpoint = thing("/lenient", MUTATING, BrokenStep::IsSkipped);
static THINGS: &[&dyn AnyEndpoint] = &[&STRICT, &LENIENT, &CHECKS];
static CHECKS: ThingEndpoint = thing("/checks", Kind::Validating, BrokenStep::FailsTheCall);

fn all_on() -> Arc<ArcSwap<Features>> {
    Features::with_gates(GateSet::parse([&WRITES_GATE, &OBEYS_GATE], "").unwrap()).shared()
}

fn router(limits: Limits) -> Router {
    router_with(limits, all_on())
}

fn router_with(limits: Limits, features: Arc<ArcSwap<Features>>) -> Router {
    Router::new(Options {
        endpoints: THINGS.to_vec(),
        features,
        stores: Stores::default(),
        limits,
        log_sample: 0,
        callers: CallerCheck::default(),
    })
}

fn question(name: &str) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u-1",
            "resource": {"group": "", "version": "v1", "resource": "things"},
            "name": name,
            "operation": "CREATE",
            "userInfo": {"username": "somebody"},
            "object": {"metadata": {"name": name}},
        },
    })
}

fn post(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post(path)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body.into()))
        .unwrap()
}

async fn ask<B>(router: Router, request: Request<B>) -> (u16, String)
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let response = router.respond(request).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn health_probe_is_answered_without_a_review() {
    for method in [Method::GET, Method::HEAD] {
        let request = Request::builder().method(method).uri("/healthz");
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let answer = ask(router(Limits::default()), request).await;
        assert_eq!(answer, (200, "ok".to_owned()));
    }
    let (status, _) = ask(router(Limits::default()), post("/healthz", "{}")).await;
    assert_eq!(status, 404);
}

async fn verdict(path: &str, name: &str) -> Value {
    let (status, body) = ask(router(Limits::default()), post(path, question(name).to_string())).await;
    assert_eq!(status, 200, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["response"]["uid"], "u-1");
    body["response"].clone()
}

fn patch_of(verdict: &Value) -> Value {
    let k8s_openapi::ByteString(patch) = serde_json::from_value(verdict["patch"].clone()).unwrap();
    serde_json::from_slice(&patch).unwrap()
}

#[tokio::test]
async fn what_the_steps_write_comes_back_as_a_patch() {
    let verdict = verdict("/strict", "a").await;
    assert_eq!(verdict["allowed"], true);
    assert_eq!(verdict["auditAnnotations"], json!({"label": "written"}));
    assert_eq!(
        patch_of(&verdict),
        json!([{"op": "add", "path": "/metadata/labels", "value": {"written": "yes"}}])
    );
}

#[tokio::test]
async fn a_validating_endpoint_never_answers_a_patch() {
    let verdict = verdict("/checks", "warned").await;
    assert_eq!(
        (&verdict["allowed"], &verdict["patch"]),
        (&json!(true), &Value::Null)
    );
    assert_eq!(verdict["warnings"], json!(["careful"]));
}

#[rstest]
#[case("/strict")]
#[case("/lenient")]
#[case("/checks")]
#[tokio::test]
async fn a_denial_is_an_answer_with_its_own_code(#[case] path: &str) {
    let verdict = verdict(path, "denied").await;
    assert_eq!(
        (&verdict["allowed"], &verdict["status"]["code"]),
        (&json!(false), &json!(403))
    );
    assert_eq!(
        verdict["status"]["message"],
        r#"metadata.name: invalid value "denied": is refused"#
    );
    assert_eq!(verdict["patch"], Value::Null);
}

#[rstest]
#[case(
    "failed",
    "step obeys failed: metadata.name.x lies inside a value that is not an object\n"
)]
#[case("panicked", "step obeys panicked\n")]
#[tokio::test]
async fn a_broken_step_fails_the_call(#[case] name: &str, #[case] reason: &str) {
    let answer = ask(
        router(Limits::default()),
        post("/strict", question(name).to_string()),
    )
    .await;
    assert_eq!(answer, (500, reason.to_owned()));
}

#[rstest]
#[case("failed")]
#[case("panicked")]
#[tokio::test]
async fn a_broken_step_that_is_passed_over_leaves_no_trace_but_counts_as_failed(#[case] name: &str) {
    let verdict = verdict("/lenient", name).await;
    assert_eq!(verdict["allowed"], true);
    assert_eq!(
        patch_of(&verdict),
        json!([{"op": "add", "path": "/metadata/labels", "value": {"written": "yes"}}])
    );
    let router = router(Limits::default());
    let deadline = Deadline::after(Instant::now(), Duration::from_secs(10));
    let answer = router.answer(&LENIENT, question(name).to_string().as_bytes(), deadline);
    assert_eq!(
        (answer.decision.outcome, answer.decision.acted.as_slice()),
        (ReviewOutcome::Failed, ["writes"].as_slice())
    );
}

#[tokio::test]
async fn requests_that_no_rule_covers_are_allowed_unchanged() {
    let mut question = question("denied");
    question["request"]["subResource"] = "status".into();
    let (status, body) = ask(router(Limits::default()), post("/strict", question.to_string())).await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (status, &body["response"]),
        (200, &json!({"uid": "u-1", "allowed": true}))
    );
}

#[tokio::test]
async fn on_delete_steps_see_the_stored_object() {
    let mut question = question("denied");
    question["request"]["operation"] = "DELETE".into();
    question["request"]["oldObject"] = question["request"]["object"].take();
    let (_, body) = ask(router(Limits::default()), post("/checks", question.to_string())).await;
    assert!(body.contains(r#""allowed":false"#), "{body}");
}

#[tokio::test]
async fn a_step_that_is_gated_off_does_not_run() {
    let features = all_on();
    let router = router_with(Limits::default(), Arc::clone(&features));
    let asked = || post("/strict", question("denied").to_string());
    let (_, body) = ask(router.clone(), asked()).await;
    assert!(body.contains(r#""allowed":false"#), "{body}");
    // It may change while the router serves.
    let gates = GateSet::parse([&WRITES_GATE, &OBEYS_GATE], "Obeys=false").unwrap();
    features.store(Arc::new(Features::with_gates(gates)));
    let (status, body) = ask(router, asked()).await;
    assert_eq!(status, 200);
    assert!(body.contains(r#""allowed":true"#), "{body}");
}

#[tokio::test]
async fn a_refusal_in_the_shadow_is_a_warning_and_leaves_no_write() {
    let features = all_on();
    let shadow = Shadow::parse(["writes", "obeys"], "obeys").unwrap();
    features.rcu(|now| Features {
        shadow: shadow.clone(),
        ..(**now).clone()
    });
    let router = router_with(Limits::default(), features);
    let (status, body) = ask(router, post("/strict", question("denied").to_string())).await;
    assert_eq!(status, 200);
    let body: Value = serde_json::from_str(&body).unwrap();
    let response = &body["response"];
    assert_eq!(response["allowed"], true, "{response}");
    assert_eq!(
        response["warnings"],
        json!(["step obeys would refuse this: metadata.name: invalid value \"denied\": is refused"])
    );
    let patch = patch_of(response).to_string();
    assert!(patch.contains("written") && !patch.contains("half"), "{patch}");
}

#[tokio::test]
async fn an_object_of_another_kind_than_the_review_says_is_named_and_not_admitted() {
    let mut question = question("a");
    question["request"]["kind"] = json!({"group": "", "version": "v1", "kind": "Thing"});
    question["request"]["object"]["kind"] = "Other".into();
    let (status, body) = ask(router(Limits::default()), post("/strict", question.to_string())).await;
    assert_eq!(
        (status, body.trim_end()),
        (400, r#"request.object.kind is "Other", must be "Thing""#)
    );
    let (status, _) = ask(router(Limits::default()), post("/lenient", question.to_string())).await;
    assert_eq!(status, 200, "what must never be lost is answered");
}

#[rstest]
#[case::other_path(Request::post("/other"), 404, "there is no endpoint \"/other\"\n")]
#[case::trailing_slash(Request::post("/strict/"), 404, "there is no endpoint \"/strict/\"\n")]
#[case::double_slash(Request::post("//strict"), 404, "there is no endpoint \"//strict\"\n")]
#[case::get(Request::get("/strict"), 405, "method GET is not POST\n")]
#[case::put(Request::put("/strict").header(CONTENT_TYPE, "application/json"), 405, "method PUT is not POST\n")]
#[case::no_type(Request::post("/strict"), 400, "content type \"\" is not application/json\n")]
#[case::text(Request::post("/strict").header(CONTENT_TYPE, "text/plain"), 400, "content type \"text/plain\" is not application/json\n")]
#[case::no_body(Request::post("/strict").header(CONTENT_TYPE, "application/json; charset=utf-8"), 400, "the body is not an AdmissionReview: the text ends inside a value\n")]
#[tokio::test]
async fn a_misdirected_request_is_rejected_with_its_reason(
    #[case] request: http::request::Builder,
    #[case] status: u16,
    #[case] reason: &str,
) {
    let request = request.body(Full::<Bytes>::default()).unwrap();
    assert_eq!(
        ask(router(Limits::default()), request).await,
        (status, reason.to_owned())
    );
}

#[tokio::test]
async fn a_wrong_method_is_told_the_right_one() {
    let request = Request::get("/strict").body(Full::<Bytes>::default()).unwrap();
    let response = router(Limits::default()).respond(request).await;
    assert_eq!(response.headers()[ALLOW], "POST");
}

#[tokio::test]
async fn a_body_up_to_the_limit_is_read_and_one_byte_more_is_not() {
    let mut body = question("a").to_string();
    let limits = Limits {
        body_bytes: 1000,
        ..Limits::default()
    };
    body.push_str(&" ".repeat(1000 - body.len()));
    assert_eq!(ask(router(limits), post("/strict", body.clone())).await.0, 200);
    body.push(' ');
    let too_large = (413, "the body is longer than 1000 bytes\n".to_owned());
    assert_eq!(
        ask(router(limits), post("/strict", body.clone())).await,
        too_large
    );
    let chunks = body
        .into_bytes()
        .chunks(100)
        .map(|chunk| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(chunk))))
        .collect::<Vec<_>>();
    let streamed = StreamBody::new(futures::stream::iter(chunks));
    let request = Request::post("/strict")
        .header(CONTENT_TYPE, "application/json")
        .body(streamed)
        .unwrap();
    assert_eq!(ask(router(limits), request).await, too_large);
}

#[tokio::test]
async fn an_announced_length_beyond_the_limit_is_refused_unread() {
    let never = StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, Infallible>>());
    let request = Request::post("/strict")
        .header(CONTENT_TYPE, "application/json")
        .header(CONTENT_LENGTH, "9999999999");
    assert_eq!(
        ask(router(Limits::default()), request.body(never).unwrap())
            .await
            .0,
        413
    );
}

#[tokio::test]
async fn a_connection_that_breaks_is_a_client_error() {
    let broken = futures::stream::iter([Err::<Frame<Bytes>, _>(std::io::Error::other("reset"))]);
    let request = Request::post("/strict")
        .header(CONTENT_TYPE, "application/json")
        .body(StreamBody::new(broken))
        .unwrap();
    assert_eq!(
        ask(router(Limits::default()), request).await,
        (400, "the body could not be read: reset\n".to_owned())
    );
}

#[tokio::test]
async fn a_body_that_does_not_come_in_time_is_not_waited_for() {
    let answer = ask(router(Limits::default()), withheld("/strict?timeout=30ms")).await;
    assert_eq!(answer, (408, "the body did not arrive within 18ms\n".to_owned()));
}

#[test]
fn a_deadline_that_has_passed_fails_the_call() {
    let deadline = Deadline::after(Instant::now(), Duration::ZERO);
    let answer = router(Limits::default()).answer(&STRICT, question("a").to_string().as_bytes(), deadline);
    assert_eq!(
        (answer.status.as_u16(), answer.decision.outcome),
        (503, ReviewOutcome::Failed)
    );
}

/// Request whose body never arrives.
fn withheld(path: &str) -> Request<impl Body<Data = Bytes, Error = Infallible> + Send + 'static> {
    let never = StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, Infallible>>());
    Request::post(path)
        .header(CONTENT_TYPE, "application/json")
        .header(CONTENT_LENGTH, "80000")
        .body(never)
        .unwrap()
}

#[tokio::test]
async fn withheld_body_blocks_no_other_client() {
    let router = router(Limits {
        concurrent: 1,
        ..Limits::default()
    });
    let mut waiting: Vec<_> = (0..2_000)
        .map(|_| Box::pin(router.respond(withheld("/strict"))))
        .collect();
    for one in &mut waiting {
        assert!(futures::poll!(one).is_pending());
    }
    let answer = ask(router.clone(), post("/strict", question("a").to_string())).await;
    assert_eq!(answer.0, 200, "{}", answer.1);
}

#[tokio::test]
async fn one_review_more_than_may_wait_is_turned_away_at_once() {
    let router = router(Limits {
        concurrent: 1,
        ..Limits::default()
    });
    let held = router.shared.lanes.acquire_all("/strict");
    let mut waits = Box::pin(ask(router.clone(), post("/strict", question("a").to_string())));
    assert!(futures::poll!(&mut waits).is_pending());
    let answer = ask(router.clone(), post("/strict", question("a").to_string())).await;
    assert_eq!(answer, (503, "more than 1 requests at once\n".to_owned()));
    drop(held);
    assert_eq!(waits.await.0, 200);
    let answer = ask(router, post("/strict", question("a").to_string())).await;
    assert_eq!(answer.0, 200);
}

#[tokio::test]
async fn no_endpoint_waits_for_another_and_nothing_for_a_long_review() {
    let router = router(Limits::default());
    let _held = router.shared.lanes.acquire_all("/strict");
    let other = ask(router.clone(), post("/lenient", question("a").to_string())).await;
    assert_eq!(other.0, 200, "{}", other.1);
    let long = question("a").to_string() + &" ".repeat(intake::SMALL_BYTES);
    let long = ask(router.clone(), post("/strict", long)).await;
    assert_eq!(long.0, 200, "{}", long.1);
    let late = ask(router, post("/strict?timeout=20ms", question("a").to_string())).await;
    assert_eq!(late, (503, "no answer within 18ms\n".to_owned()));
}

#[tokio::test]
async fn a_connection_survives_a_malformed_review() {
    let (client, server) = tokio::io::duplex(64 * 1024);
    let router = router(Limits::default());
    let service = hyper::service::service_fn(move |request| {
        let router = router.clone();
        async move { Ok::<_, Infallible>(router.respond(request).await) }
    });
    tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(server), service));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(client))
        .await
        .unwrap();
    tokio::spawn(connection);
    let good = question("a").to_string();
    let answers = [
        ("{", 400),
        ("[[[[", 400),
        (good.as_str(), 200),
        ("", 400),
        (good.as_str(), 200),
    ];
    for (body, status) in answers {
        sender.ready().await.unwrap();
        let response = sender
            .send_request(post("/strict", body.to_owned()))
            .await
            .unwrap();
        assert_eq!(response.status(), status, "{body}");
        response.into_body().collect().await.unwrap();
    }
}
