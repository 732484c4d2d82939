//! Tests of the kept reviews of pods, through the router: each is found by its pod, other objects leave none, and
//! memory is bounded for any request.

use headroom_rules::explain::VerdictKind;
use tokio::sync::watch;

use super::{pathological::one_profile, review::ReviewBuilder, *};
use crate::{
    admission::endpoint::Colocation,
    store::{
        known::KnownSources,
        pod_decisions::{MOST_DECISIONS, PodDecision},
        sources,
    },
};

/// A router with a profile for every object, and its stores.
fn router() -> (Router, Stores) {
    let known = KnownSources::default();
    for source in sources::ALL {
        known.record(source, watch::channel(true).1);
    }
    let stores = Stores::default();
    let stores = Stores {
        colocation: Colocation {
            profiles: Arc::new(one_profile()),
            ..stores.colocation
        },
        known,
        ..stores
    };
    let router = Router::new(Options {
        stores: stores.clone(),
        ..options(FixtureCluster::default())
    });
    (router, stores)
}

fn pod(metadata: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn answer(router: &Router, path: &str, review: &str) -> StatusCode {
    let endpoint = router.endpoint(path).unwrap();
    let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
    router.answer(endpoint, review.as_bytes(), deadline).status
}

fn create(router: &Router, pod: &Value) {
    let review = ReviewBuilder::create("pods", pod).build();
    assert_eq!(answer(router, "/mutate-pod", &review), StatusCode::OK);
}

fn only(stores: &Stores, name: &str) -> Arc<PodDecision> {
    let found = stores.decisions.of_pod("ns", name);
    let [decision] = found.as_slice() else {
        panic!("{found:?}");
    };
    Arc::clone(decision)
}

#[test]
fn a_review_of_a_pod_is_kept_with_its_profiles_and_writes_and_a_refusal_with_its_causes() {
    let (router, stores) = router();
    create(
        &router,
        &pod(&json!({"name": "p", "namespace": "ns", "uid": "u"})),
    );
    let decision = only(&stores, "p");
    assert_eq!((decision.outcome, decision.pod.uid.as_str()), ("allowed", "u"));
    assert_eq!(decision.explanation.profiles()[0].result, VerdictKind::Applied);
    assert!(
        decision
            .explanation
            .writes()
            .iter()
            .any(|write| write.path == "spec.schedulerName")
    );

    let wrong = pod(&json!({"name": "wrong", "namespace": "ns", "labels": {names::QOS_CLASS: "BE"}}));
    let review = ReviewBuilder::create("pods", &wrong).dry_run().build();
    assert_eq!(answer(&router, "/validate-pod", &review), StatusCode::OK);
    let decision = only(&stores, "wrong");
    assert!(
        decision.is_dry_run && decision.outcome == "denied",
        "{decision:?}"
    );
    assert!(
        decision.reasons[0].contains("koordinator.sh/qosClass=BE"),
        "{:?}",
        decision.reasons
    );

    // An object that is not a pod leaves nothing.
    let kept = stores.decisions.kept().0;
    let reservation = json!({"kind": "Reservation", "metadata": {"name": "r"}, "spec": {"template": {}}});
    let review = ReviewBuilder::create("reservations", &reservation).build();
    answer(&router, "/mutate-reservation", &review);
    assert_eq!(stores.decisions.kept().0, kept);
}

#[test]
fn the_thousand_and_first_review_takes_the_place_of_the_first_whatever_is_in_them() {
    let (router, stores) = router();
    create(&router, &pod(&json!({"name": "first", "namespace": "ns"})));
    let long = "x".repeat(5_000);
    for number in 0..MOST_DECISIONS {
        let labels: BTreeMap<String, String> = (0..20)
            .map(|label| (format!("{label}-{long}"), long.clone()))
            .collect();
        create(
            &router,
            &pod(&json!({
                "generateName": format!("{number}-{long}"), "namespace": "ns", "labels": {"app": long},
                "annotations": if number % 100 == 0 { json!(labels) } else { json!({"a": long}) },
            })),
        );
    }
    assert_eq!(stores.decisions.of_pod("ns", "first"), []);
    let (kept, _) = stores.decisions.kept();
    assert_eq!(kept, MOST_DECISIONS, "usual decisions all have room");
}
