//! Tests of optional properties of endpoints: waiting for an object, all refusals in one answer, objects being
//! deleted, unknown sources, the offload thread.

use std::sync::Mutex;

use futures::FutureExt as _;
use headroom_domain::field::{Error as FieldError, Errors, Path};
use tokio::{sync::watch, time::advance};

use super::*;
use crate::{
    admission::{
        callers::CallerCheck,
        endpoint::{Awaited, NoStore, Pass, Provides},
    },
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
        is_missing: |request, _draft, _store, _switches| is_missing(&request.name),
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
static FINALIZED: ThingEndpoint = ThingEndpoint {
    declaration: Declaration {
        passes: &[Pass::Finalizers],
        ..thing("/finalized", Kind::Validating, BrokenStep::FailsTheCall).declaration
    },
    awaits: None,
    steps: &[&REFUSES_A],
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
            &FINALIZED,
            &REFUSES_UNTIL_UNKNOWN,
            &NEEDS_PODS,
        ],
        features: all_on(),
        stores,
        limits: Limits::default(),
        log_sample: 0,
        callers: CallerCheck::default(),
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

/// An update of a stored object that has a finalizer and is under deletion; `change` edits the written object.
fn finalizer_update(change: impl FnOnce(&mut Value)) -> Value {
    let metadata = json!({
        "name": "x", "deletionTimestamp": "2026-11-20T00:00:00Z", "deletionGracePeriodSeconds": 30,
        "finalizers": ["a/b"], "resourceVersion": "7", "managedFields": [{"manager": "m", "time": "t0"}],
    });
    let mut question = question("x");
    question["request"]["operation"] = "UPDATE".into();
    question["request"]["oldObject"] = json!({"metadata": metadata, "spec": {"x": 1}});
    question["request"]["object"] = question["request"]["oldObject"].clone();
    change(&mut question["request"]["object"]);
    question
}

async fn is_passed(path: &str, question: &Value) -> bool {
    let (_, body) = ask(router(Stores::default()), post(path, question.to_string())).await;
    body.contains(r#""allowed":true"#)
}

#[tokio::test]
async fn finalizers_of_objects_under_deletion_can_be_removed() {
    let removal = finalizer_update(|object| {
        object["metadata"]["finalizers"] = json!([]);
        object["metadata"]["managedFields"] = json!([]);
        object["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("resourceVersion");
    });
    assert!(is_passed("/finalized", &removal).await);
    assert!(
        !is_passed("/until-unknown", &removal).await,
        "an endpoint declares it"
    );
    let wide = "x,".repeat(20_000);
    let mut wide_removal = removal.clone();
    for object in ["object", "oldObject"] {
        wide_removal["request"][object]["spec"]["x"] = wide.split(',').collect();
    }
    assert!(
        is_passed("/finalized", &wide_removal).await,
        "equal texts need no reading"
    );
}

#[rstest::rstest]
#[case::label(|object: &mut Value| object["metadata"]["labels"] = json!({"a": "b"}))]
#[case::annotation(|object: &mut Value| object["metadata"]["annotations"] = json!({"a": "b"}))]
#[case::owner(|object: &mut Value| object["metadata"]["ownerReferences"] = json!([{}]))]
#[case::spec(|object: &mut Value| object["spec"]["x"] = json!(2))]
#[case::other_part(|object: &mut Value| object["status"] = json!({"phase": "Running"}))]
#[tokio::test]
async fn other_changes_of_objects_under_deletion_are_reviewed(#[case] change: fn(&mut Value)) {
    assert!(!is_passed("/finalized", &finalizer_update(change)).await);
}

#[tokio::test]
async fn labels_too_wide_to_compare_are_reviewed() {
    let labels = |value: &str| -> Value {
        let labels = (0..20_000).map(|label| (format!("l{label}"), value.into()));
        Value::Object(labels.collect())
    };
    let mut question = finalizer_update(|object| object["metadata"]["labels"] = labels("new"));
    question["request"]["oldObject"]["metadata"]["labels"] = labels("old");
    assert!(!is_passed("/finalized", &question).await);
}

#[tokio::test]
async fn written_deletion_timestamps_prove_no_deletion() {
    let mut apply = finalizer_update(|_| {});
    apply["request"]["operation"] = "CREATE".into();
    apply["request"]["oldObject"] = Value::Null;
    assert!(!is_passed("/finalized", &apply).await, "server-side apply");
    let mut update = finalizer_update(|object| object["metadata"]["finalizers"] = json!([]));
    let stored = update["request"]["oldObject"]["metadata"]
        .as_object_mut()
        .unwrap();
    stored.remove("deletionTimestamp");
    assert!(
        !is_passed("/finalized", &update).await,
        "only the writer states it"
    );
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

#[tokio::test]
async fn reviews_of_any_length_share_the_queue_of_an_offloaded_endpoint() {
    let router = router(Stores::default());
    let queue = async |bytes| {
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(1));
        let permit = router.shared.lanes.acquire(&TELLS_ALL, bytes, deadline).await;
        permit.unwrap().offload_queue.unwrap()
    };
    let (short, long) = (queue(100).await, queue(intake::SMALL_BYTES + 1).await);
    assert!(Arc::ptr_eq(&short, &long), "verdicts depend on the order");
}
