//! Quota use of an admitted Pod, until its answer is lost or the watch delivers it; and the answers while use is
//! unknown.

use std::sync::Arc;

use headroom_rules::pod_quota::Transformation;
use tokio::sync::watch;

use super::{review::ReviewBuilder, *};
use crate::{
    admission::{
        endpoint::{Colocation, PodQuotas, Stores},
        router::HttpAnswer,
    },
    store::{
        arrivals::Arrivals,
        caller::ReviewCaller,
        colocation::pods::PodsByName,
        informer::Store as _,
        known::KnownSources,
        lookup::QuotaUsageLookup as _,
        pending_limit::MOST_OF_NAMESPACE,
        quota::{index::QuotaIndex, tree_nodes::TreeNodes, with_pods::QuotasWithPods},
        quota_pods::{QuotaPods, counting::QuotaCounting},
        quota_request::{PodGroup, PodName, QuotaRequest},
        sources,
    },
};

const LABEL: &str = "quota.scheduling.koordinator.sh/name";

/// The quota, at a version.
fn quota(cpu: u32, version: u32) -> Value {
    json!({
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": "lab", "namespace": "q", "uid": "q", "resourceVersion": version.to_string()},
        "spec": {"max": {"cpu": cpu}},
    })
}

/// Router with a quota of 4 CPUs, and the store of pods that count against it.
fn router(pods: &Arc<QuotaPods>) -> Router {
    router_beside(pods, &QuotaIndex::new(Arrivals::default()))
}

/// Router as above, with the store of quotas.
fn router_beside(pods: &Arc<QuotaPods>, index: &Arc<QuotaIndex>) -> Router {
    let known = KnownSources::default();
    for source in sources::ALL {
        known.record(source, watch::channel(true).1);
    }
    router_knowing(pods, index, known)
}

/// Router as above, with the sources that it knows.
fn router_knowing(pods: &Arc<QuotaPods>, index: &Arc<QuotaIndex>, known: KnownSources) -> Router {
    let mut listing = index.listing();
    let stored = serde_json::from_str(&quota(4, 1).to_string()).unwrap();
    QuotaIndex::list(&mut listing, stored);
    index.replace(listing);
    let stores = Stores::default();
    let tree = Arc::new(QuotasWithPods {
        index: Arc::clone(index),
        pods: Arc::new(PodsByName::new(Arrivals::default())),
    });
    let quotas = PodQuotas {
        tree: Arc::clone(&tree) as _,
        nodes: Arc::new(TreeNodes::default()),
        pod_usage: Arc::clone(pods) as _,
        known: known.clone(),
    };
    let on = "EnableQuotaAdmission=true,EnableQuotaAdmissionOnUpdate=true";
    let features = Features::with_gates(GateSet::parse(gates(), on).unwrap());
    Router::new(Options {
        features: features.shared(),
        stores: Stores {
            colocation: Colocation {
                quotas,
                ..stores.colocation
            },
            quotas: tree,
            known,
            ..stores
        },
        ..options(FixtureCluster::default())
    })
}

fn known_pods() -> Arc<QuotaPods> {
    let pods = QuotaPods::new(QuotaCounting::default(), Arrivals::default());
    pods.replace(pods.listing());
    pods.set_known(true);
    pods
}

fn pod(name: &str, uid: &str, cpu: u32) -> Value {
    json!({
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": "1", "labels": {LABEL: "lab"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu.to_string()}}}]},
    })
}

fn create(name: &str, uid: &str, cpu: u32) -> ReviewBuilder {
    ReviewBuilder::create("pods", &pod(name, uid, cpu)).with("namespace", "ns".into())
}

fn post(router: &Router, review: ReviewBuilder) -> HttpAnswer {
    let endpoint = router.endpoint("/validate-pod").unwrap();
    let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
    router.answer(endpoint, review.build().as_bytes(), deadline)
}

fn is_allowed(answer: &HttpAnswer) -> bool {
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    body["response"]["allowed"] == true
}

/// Asks, and has the answer go out.
fn admit(router: &Router, review: ReviewBuilder) -> bool {
    let answer = post(router, review);
    let is_allowed = is_allowed(&answer);
    answer.pending.keep();
    is_allowed
}

#[test]
fn what_was_let_through_counts_before_it_is_seen() {
    let router = router(&known_pods());
    assert!(admit(&router, create("a", "1", 3)));
    assert!(!admit(&router, create("b", "2", 2)));
    assert!(admit(&router, create("c", "3", 1)));
    assert!(!admit(&router, create("d", "4", 1)));
}

#[test]
fn an_answer_that_does_not_go_out_takes_nothing() {
    let (pods, body) = (known_pods(), create("a", "1", 4));
    let router = router(&pods);
    let lost = post(&router, body);
    assert!(is_allowed(&lost));
    assert!(!admit(&router, create("b", "2", 1)), "it may still go out");
    drop(lost);
    assert!(admit(&router, create("b", "2", 1)));
}

#[test]
fn dry_runs_and_refused_pods_take_nothing() {
    let pods = known_pods();
    let router = router(&pods);
    for index in 0..100 {
        assert!(admit(&router, create(&format!("d{index}"), "1", 4).dry_run()));
    }
    assert!(!admit(&router, create("too-large", "2", 5)));
    let faulty =
        json!({"koordinator.sh/priority-class": "koord-prod", "koordinator.sh/qosClass": "BE", LABEL: "lab"});
    let mut object = pod("faulty", "3", 4);
    object["metadata"]["labels"] = faulty;
    object["spec"]["priority"] = 9_500.into();
    let faulty = ReviewBuilder::create("pods", &object).with("namespace", "ns".into());
    assert!(!admit(&router, faulty));
    assert_eq!(pods.counts(), (0, 0));
    assert!(admit(&router, create("a", "4", 4)));
}

#[test]
fn a_retry_takes_its_room_once() {
    let router = router(&known_pods());
    assert!(admit(&router, create("a", "1", 3)));
    assert!(admit(&router, create("a", "2", 3)));
    assert!(!admit(&router, create("b", "3", 2)));
    assert!(admit(&router, create("b", "3", 1)));
}

#[test]
fn a_smaller_pod_of_the_same_name_gives_no_room_back() {
    let router = router(&known_pods());
    assert!(admit(&router, create("a", "1", 4)));
    // The API server may store the first, and answer the second that it is there.
    assert!(admit(&router, create("a", "2", 1)));
    assert!(!admit(&router, create("b", "3", 1)));
}

#[test]
fn a_negative_amount_gives_no_room() {
    let router = router(&known_pods());
    let mut object = pod("a", "1", 1);
    object["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "-1000".into();
    let review = ReviewBuilder::create("pods", &object).with("namespace", "ns".into());
    assert!(
        admit(&router, review),
        "the API server says what is wrong with it"
    );
    assert!(admit(&router, create("b", "2", 4)));
    assert!(!admit(&router, create("c", "3", 1)));
}

#[test]
fn a_limit_that_is_about_to_rise_has_not_risen() {
    let (pods, index) = (known_pods(), QuotaIndex::new(Arrivals::default()));
    let router = router_beside(&pods, &index);
    let change = |from, to| {
        let review = ReviewBuilder::update("elasticquotas", &quota(from, 1), &quota(to, 1));
        let review = review.with("namespace", "q".into());
        let endpoint = router
            .endpoint("/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota")
            .unwrap();
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
        let answer = router.answer(endpoint, review.build().as_bytes(), deadline);
        assert!(is_allowed(&answer));
        answer.pending.keep();
    };
    change(4, 400);
    assert!(
        !admit(&router, create("a", "1", 5)),
        "somebody behind us may refuse it"
    );
    assert!(admit(&router, create("a", "1", 4)));
    index.apply(serde_json::from_str(&quota(400, 2).to_string()).unwrap());
    assert!(admit(&router, create("b", "2", 396)));
    change(400, 4);
    assert!(!admit(&router, create("c", "3", 1)));
}

#[test]
fn a_resize_is_compared_as_far_as_it_grows() {
    let pods = known_pods();
    let router = router(&pods);
    pods.apply(serde_json::from_value(pod("a", "1", 2)).unwrap());
    let resize = |cpu| {
        let review = ReviewBuilder::update("pods", &pod("a", "1", 2), &pod("a", "1", cpu));
        review
            .with("subResource", "resize".into())
            .with("namespace", "ns".into())
    };
    assert!(!admit(&router, resize(5)));
    assert!(admit(&router, resize(4)));
    assert!(!admit(&router, create("b", "2", 1)));
    // Smaller again, which the watch shows.
    pods.apply(serde_json::from_value(pod("a", "1", 1)).unwrap());
    assert!(admit(&router, resize(1)));
}

#[test]
fn nothing_is_decided_while_not_all_pods_are_known_but_what_asks_for_nothing_more() {
    let pods = known_pods();
    let router = router(&pods);
    pods.set_known(false);
    assert_eq!(
        post(&router, create("a", "1", 1)).status,
        StatusCode::SERVICE_UNAVAILABLE
    );
    let update = |cpu| {
        let review = ReviewBuilder::update("pods", &pod("a", "1", 2), &pod("a", "1", cpu));
        post(&router, review.with("namespace", "ns".into())).status
    };
    assert_eq!(update(3), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!([1, 2].map(update), [StatusCode::OK; 2]);
}

#[test]
fn creation_growth_and_moves_are_failed_calls_while_quotas_are_unknown() {
    let index = QuotaIndex::new(Arrivals::default());
    let router = router_knowing(&known_pods(), &index, KnownSources::default());
    let status = |review: ReviewBuilder| {
        post(&router, review.with("namespace", "ns".into()))
            .status
            .as_u16()
    };
    let stored = pod("a", "1", 2);
    let update = |new: &Value| status(ReviewBuilder::update("pods", &stored, new));
    let mut moved = stored.clone();
    moved["metadata"]["labels"][LABEL] = "missing".into();
    assert_eq!(status(create("b", "2", 1)), 503);
    assert_eq!(
        status(ReviewBuilder::create("pods", &moved)),
        503,
        "it is not missing"
    );
    assert_eq!(update(&pod("a", "1", 3)), 503);
    assert_eq!(update(&moved), 503);
    assert_eq!(update(&stored), 200);
    assert_eq!(update(&pod("a", "1", 1)), 200);
}

/// The attacker claims that a pod is under deletion, in a create by server-side apply, or deletes a pod and keeps it
/// running with a finalizer.
#[test]
fn pods_under_deletion_keep_all_checks_of_their_quota() {
    let pods = known_pods();
    let router = router(&pods);
    let deleting = |cpu| {
        let mut pod = pod("a", "1", cpu);
        pod["metadata"]["deletionTimestamp"] = "2026-11-20T00:00:00Z".into();
        pod["metadata"]["finalizers"] = json!(["a/b"]);
        pod
    };
    let apply = ReviewBuilder::create("pods", &deleting(5)).with("namespace", "ns".into());
    assert!(!admit(&router, apply), "a create counts with any metadata");
    pods.apply(serde_json::from_value(deleting(2)).unwrap());
    let update = |new: &Value, sub_resource: &str| {
        let review = ReviewBuilder::update("pods", &deleting(2), new).with("namespace", "ns".into());
        review.with("subResource", sub_resource.into())
    };
    assert!(!admit(&router, update(&deleting(5), "resize")));
    let mut released = deleting(2);
    released["metadata"]["finalizers"] = json!([]);
    assert!(admit(&router, update(&released, "")));
    released["metadata"]["labels"]["koordinator.sh/qosClass"] = "LSR".into();
    assert!(!admit(&router, update(&released, "")), "labels keep their checks");
}

#[test]
fn a_pod_that_cannot_count_is_a_failed_call() {
    let pods = known_pods();
    let router = router(&pods);
    let small = |name: usize| {
        let mut object = pod(&name.to_string(), &name.to_string(), 0);
        object["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1m".into();
        ReviewBuilder::create("pods", &object).with("namespace", "ns".into())
    };
    // Made later than the reviews below, so that none ends meanwhile.
    let later = Instant::now() + Duration::from_secs(60);
    for name in 0..MOST_OF_NAMESPACE {
        let group = PodGroup::new(Some("lab"), "ns");
        let request = QuotaRequest {
            pod: PodName {
                namespace: "ns".into(),
                name: name.to_string().into(),
            },
            uid: name.to_string().into(),
            group: group.clone(),
            requested: serde_json::from_value(json!({"cpu": "1m"})).unwrap(),
            replaced: 0,
            levels: vec![vec![group]],
            resources: ["cpu".into()].into(),
            transformation: Transformation::None,
            controller: Box::default(),
            caller: ReviewCaller::Unverified,
        };
        pods.admit(request, later, &mut |_| true).unwrap().unwrap().keep();
    }
    let answer = post(&router, small(MOST_OF_NAMESPACE));
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    let body = String::from_utf8_lossy(&answer.body);
    assert!(body.contains("namespace ns has 1024 pods"), "{body}");
    // The request without quota left is refused, and a dry run is not counted.
    assert!(!admit(&router, create("large", "l", 4)));
    assert!(admit(&router, small(MOST_OF_NAMESPACE).dry_run()));
}
