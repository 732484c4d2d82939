//! Tests of optional properties of endpoints: waiting for an object, all refusals in one answer, objects being
//! deleted, unknown sources, the offload thread.

use std::sync::Mutex;

use futures::FutureExt as _;
use headroom_domain::field::{Error as FieldError, Errors, Path};
use tokio::{sync::watch, time::advance};

use super::*;
use crate::{
    admission::endpoint::{Awaited, NoStore, Provides},
    store::sources::PODS,
};

/// Names that are known, as a store would know them.
static KNOWN: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn is_missing(name: &str) -> bool {
    !KNOWN.lock().unwrap().iter().any(|known| known == name)
}

const fn step(
    name: &'static str,
    run: fn(&Ctx<'_, dyn NodeLookup>, &mut Draft<'_>) -> Result<(), Stop>,
) -> ThingStep {
    ThingStep {
        name,
        when: When::Always,
        about: "For tests.",
        reads: &[],
        unknown: UnknownSource::IsHandled,
        run,
    }
}

fn refuse(field: &str) -> Result<(), Stop> {
    let mut errors = Errors::default();
    errors.push(FieldError::required(&Path::new("spec").child(field), ""));
    Err(Stop::Denied(Denial::Fields(errors)))
}

static NAMED: ThingStep = step("named", |ctx, draft| {
    if is_missing(&ctx.request.name) {
        draft.warn("is not known");
    }
    Ok(())
});
static REFUSES_A: ThingStep = step("refuses-a", |_ctx, draft| {
    draft.warn("a is old");
    refuse("a")
});
static REFUSES_B: ThingStep = step("refuses-b", |_ctx, _draft| refuse("b"));
static READS_PODS: ThingStep = ThingStep {
    reads: &[&PODS],
    unknown: UnknownSource::FailsTheCall,
    ..step("reads-pods", |_ctx, _draft| Ok(()))
};

static PATIENT: ThingEndpoint = ThingEndpoint {
    awaits: Some(Awaited {
        is_missing: |request, _draft, _store| is_missing(&request.name),
        longest: Duration::from_millis(250),
    }),
    steps: &[&NAMED],
    declaration: Declaration {
        configuration: ConfigurationObject::Pods,
        ..thing("/patient", Kind::Validating, BrokenStep::FailsTheCall).declaration
    },
};
static OF_NODES: ThingEndpoint = thing("/of-nodes", MUTATING, BrokenStep::IsSkipped);
static TELLS_ALL: ThingEndpoint = ThingEndpoint {
    declaration: Declaration {
        denials: Denials::All,
        denial_style: DenialStyle::KOORDINATOR,
        skips_deleting: true,
        work: Work::Offloaded,
        limits: RequestLimits {
            body_bytes: 2048,
            ..RequestLimits::DEFAULT
        },
        ..thing("/tells-all", Kind::Validating, BrokenStep::FailsTheCall).declaration
    },
    awaits: None,
    steps: &[&REFUSES_A, &REFUSES_B],
};
static REFUSES_UNTIL_UNKNOWN: ThingEndpoint = ThingEndpoint {
    declaration: Declaration {
        denials: Denials::All,
        ..thing("/until-unknown", Kind::Validating, BrokenStep::FailsTheCall).declaration
    },
    awaits: None,
    steps: &[&REFUSES_A, &READS_PODS, &REFUSES_B],
};
static NEEDS_PODS: ThingEndpoint = ThingEndpoint {
    steps: &[&READS_PODS],
    ..thing("/needs-pods", Kind::Validating, BrokenStep::FailsTheCall)
};

fn router(stores: Stores) -> Router {
    Router::new(Options {
        endpoints: vec![
            &PATIENT,
            &OF_NODES,
            &TELLS_ALL,
            &REFUSES_UNTIL_UNKNOWN,
            &NEEDS_PODS,
        ],
        features: all_on(),
        stores,
        limits: Limits::default(),
        log_sample: 0,
    })
}

#[tokio::test(start_paused = true)]
async fn a_review_waits_for_an_object_that_comes_and_as_long_as_declared_for_one_that_does_not() {
    let stores = Stores::default();
    let router = router(stores.clone());
    let asked = |name: &str| tokio::spawn(ask(router.clone(), post("/patient", question(name).to_string())));
    let (comes, never) = (asked("comes"), asked("never"));
    tokio::task::yield_now().await;
    advance(Duration::from_millis(100)).await;
    // Another object arrives: the review continues to wait.
    stores.known.notify();
    tokio::task::yield_now().await;
    assert!(!comes.is_finished());
    KNOWN.lock().unwrap().push("comes".to_owned());
    stores.known.notify();
    let (status, body) = comes.await.unwrap();
    assert_eq!(status, 200);
    assert!(!body.contains("is not known"), "{body}");
    let (status, body) = never.await.unwrap();
    assert_eq!(status, 200);
    assert!(body.contains("is not known"), "{body}");
}

#[tokio::test(start_paused = true)]
async fn reviews_that_wait_for_objects_keep_no_other_review_waiting() {
    let router = router(Stores::default());
    let asked = |name: &str| ask(router.clone(), post("/patient", question(name).to_string()));
    let more_than_permits = RequestLimits::DEFAULT.working + 1;
    let mut waiting: Vec<_> = (0..more_than_permits)
        .map(|_| Box::pin(asked("absent")))
        .collect();
    for review in &mut waiting {
        assert!(futures::poll!(review).is_pending());
    }
    KNOWN.lock().unwrap().push("present".to_owned());
    let answered = asked("present").now_or_never();
    assert_eq!(answered.map(|(status, _body)| status), Some(200));
    for (status, body) in futures::future::join_all(waiting).await {
        assert_eq!(status, 200);
        assert!(body.contains("is not known"), "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_review_of_nodes_waits_for_room_that_bodies_of_others_keep() {
    for length in [intake::SMALL_BYTES / 2, intake::SMALL_BYTES + 1] {
        let router = router(Stores::default());
        let asked = |path, name: &str| {
            let mut body = question(name).to_string();
            body.push_str(&" ".repeat(length - body.len()));
            ask(router.clone(), post(path, body))
        };
        // A body without a length gets capacity for twice its bytes.
        let more_than_fit = 33;
        let mut waiting: Vec<_> = (0..more_than_fit)
            .map(|_| Box::pin(asked("/patient", "absent")))
            .collect();
        for review in &mut waiting {
            assert!(futures::poll!(review).is_pending());
        }
        let (status, body) = asked("/of-nodes", "present").await;
        assert_eq!(status, 200, "{length} bytes: {body}");
    }
}

#[tokio::test]
async fn all_refusals_stand_in_one_answer_with_the_warnings() {
    let (status, body) = ask(
        router(Stores::default()),
        post("/tells-all", question("x").to_string()),
    )
    .await;
    assert_eq!(status, 200);
    let body: Value = serde_json::from_str(&body).unwrap();
    let response = &body["response"];
    assert_eq!(response["status"]["code"], 400);
    assert_eq!(response["status"].get("reason"), None);
    assert_eq!(
        response["status"]["message"],
        "[spec.a: Required value, spec.b: Required value]"
    );
    assert_eq!(
        response["status"]["details"]["causes"].as_array().unwrap().len(),
        2
    );
    assert_eq!(response["warnings"], json!(["a is old"]));
}

#[tokio::test]
async fn a_write_to_an_object_that_is_being_deleted_passes_where_declared() {
    let mut question = question("x");
    question["request"]["operation"] = "UPDATE".into();
    question["request"]["object"]["metadata"]["deletionTimestamp"] = "2026-11-20T00:00:00Z".into();
    question["request"]["oldObject"] = json!({"metadata": {"name": "x"}});
    let answer = |question: Value| {
        ask(
            router(Stores::default()),
            post("/tells-all", question.to_string()),
        )
    };
    let (_, body) = answer(question.clone()).await;
    assert!(
        body.contains(r#""allowed":false"#),
        "only the writer says so: {body}"
    );
    question["request"]["oldObject"] = question["request"]["object"].clone();
    let (_, body) = answer(question).await;
    assert!(body.contains(r#""allowed":true"#), "{body}");
}

#[tokio::test]
async fn an_endpoint_has_its_own_longest_body() {
    let mut long = question("x");
    long["request"]["object"]["text"] = "x".repeat(4096).into();
    let answer = |path| ask(router(Stores::default()), post(path, long.to_string()));
    assert_eq!(answer("/tells-all").await.0, 413);
    assert_eq!(answer("/patient").await.0, 200);
}

#[tokio::test]
async fn what_is_not_known_is_a_failed_call_and_no_denial() {
    let stores = Stores::default();
    let answer = || {
        ask(
            router(stores.clone()),
            post("/needs-pods", question("x").to_string()),
        )
    };
    let (status, body) = answer().await;
    assert_eq!(
        (status, body.trim_end()),
        (
            503,
            "step reads-pods cannot decide: pods are not known to this replica"
        )
    );
    let (is_known_tx, is_known) = watch::channel(false);
    stores.known.record(&PODS, is_known);
    assert_eq!(answer().await.0, 503, "followed, and not known yet");
    is_known_tx.send_replace(true);
    assert_eq!(answer().await.0, 200);
    is_known_tx.send_replace(false);
    assert_eq!(answer().await.0, 503, "no longer");
}

#[tokio::test]
async fn what_was_refused_stays_refused_if_a_later_step_cannot_decide() {
    let (status, body) = ask(
        router(Stores::default()),
        post("/until-unknown", question("x").to_string()),
    )
    .await;
    let body: Value = serde_json::from_str(&body).unwrap();
    let response = &body["response"];
    assert_eq!((status, &response["allowed"]), (200, &json!(false)));
    assert_eq!(response["status"]["message"], "spec.a: Required value");
}

#[test]
fn a_store_of_which_nothing_is_known_answers_so() {
    let stores = Stores::default();
    let nodes: &dyn NodeLookup = stores.provide();
    assert!(nodes.stored("n").is_none() && nodes.policy(&|| unreachable!()).is_none());
    assert!(NoStore.heartbeat_interval().is_zero());
}
