//! Reviews built to be expensive cost each endpoint at most a fixed multiple of a kubelet's usual review.
//! Measured in memory, as CPU time of one thread.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    collections::BTreeMap,
    hint::black_box,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use headroom_bench::node_status::{amplified_review, amplified_stores};
use headroom_kit::gate::GateSet;
use headroom_testbed::{
    pathological::{BodyShape, GATES, shapes, targets},
    thread::cpu_time,
};
use headroom_webhook::{
    admission::{
        callers::CallerCheck,
        endpoint::{Colocation, Deadline, Family},
        endpoints,
        features::Features,
        router::{Limits, Options, Router},
    },
    args::LOG_SAMPLE,
    store::{
        arrivals::Arrivals,
        by_name::Listing,
        colocation::{profile_sources::ProfileSources, profiles::Profiles},
        informer::Store as _,
        sources,
    },
};
use serde_json::json;
use tokio::sync::watch;

const FAMILIES: [Family; 3] = [Family::Nodes, Family::Koordinator, Family::Fluid];
/// Lengths of bodies at which the most expensive shape is found, in bytes. Shapes with many values are refused at greater
/// lengths.
const SHORT: [usize; 2] = [50_000, 200_000];
/// Length of the body of that shape, in bytes.
const LONG: usize = 3_000_000;
/// Limit of the CPU time, as a multiple of that of a usual review: one of 80 kB by the kubelet of an amplified node.
const MOST: f64 = 1_500.0;
/// The limit for Koordinator's ConfigMap: each unknown key is compared with all known ones, to suggest the nearest.
const MOST_OF_CONFIG_MAPS: f64 = 5_000.0;

/// All endpoints with an amplified node and a profile that selects every pod. All other sources are listed and empty.
fn router() -> Router {
    let mut stores = amplified_stores().expect("the stores of an amplified node");
    let profile = json!({"metadata": {"name": "p"}, "spec": {
        "labels": {"x": "1"}, "annotationKeysMapping": {"a": "b"}, "labelSuffixes": {"app": "-s"}, "schedulerName": "s",
        "patch": {"spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]}]}},
    }});
    let mut listing = Listing::default();
    Profiles::list(
        &mut listing,
        serde_json::from_str(&profile.to_string()).expect("a profile"),
    );
    let profiles = ProfileSources::new(&Arrivals::default());
    profiles.profiles.replace(listing);
    stores.colocation = Colocation {
        profiles: Arc::new(profiles),
        ..stores.colocation
    };
    for source in sources::ALL {
        stores.known.record(source, watch::channel(true).1);
    }
    Router::new(Options {
        endpoints: endpoints::served(&FAMILIES),
        features: Features::with_gates(GateSet::parse(endpoints::gates(), GATES).expect("gates")).shared(),
        stores,
        limits: Limits::default(),
        log_sample: LOG_SAMPLE,
        callers: CallerCheck::default(),
    })
}

/// Shapes of bodies by the path of their endpoint.
fn bodies() -> BTreeMap<&'static str, Vec<BodyShape>> {
    let mut bodies = BTreeMap::from([
        ("/mutate-node-status", shapes("status", "system:node:n1")),
        ("/validate-node", shapes("", "somebody")),
        ("/probe-node", shapes("", "somebody")),
    ]);
    for target in targets() {
        let shapes = bodies.entry(target.path).or_default();
        shapes.extend(target.own);
        shapes.extend(target.common);
    }
    bodies
}

/// CPU time of a review in seconds: the least of some rounds.
fn cost(router: &Router, path: &str, body: &[u8], rounds: u32) -> f64 {
    let endpoint = router.endpoint(path).expect("an endpoint");
    let round = |_| {
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(600));
        let start = cpu_time();
        let answer = black_box(router.answer(endpoint, black_box(body), deadline));
        let taken = cpu_time().saturating_sub(start);
        assert!(!answer.body.is_empty(), "{path}: no answer");
        taken
    };
    (0..rounds).map(round).min().expect("a round").as_secs_f64()
}

#[test]
fn every_endpoint_has_expensive_bodies() {
    let bodies = bodies();
    for endpoint in endpoints::served(&FAMILIES) {
        let path = endpoint.declaration().path;
        assert!(bodies.contains_key(path), "no body for {path}");
    }
}

#[test]
fn the_most_expensive_body_of_each_endpoint_costs_a_bounded_number_of_usual_reviews() {
    let router = router();
    let review = amplified_review().expect("a review");
    let usual = cost(&router, "/mutate-node-status", &review, 5);
    let check = |path: &str, shapes: &[BodyShape]| {
        let reviews = |shape: &BodyShape, bytes| cost(&router, path, shape.body(bytes).as_bytes(), 1) / usual;
        for bytes in SHORT {
            let costs = shapes.iter().map(|shape| (reviews(shape, bytes), shape));
            let (cost, shape) = costs
                .max_by(|(one, _), (other, _)| one.total_cmp(other))
                .expect("a shape");
            let long = reviews(shape, LONG);
            let most = if path == "/validate-configmap" {
                MOST_OF_CONFIG_MAPS
            } else {
                MOST
            };
            for cost in [cost, long] {
                assert!(cost < most, "{path}, {}: {cost:.0} reviews", shape.name);
            }
        }
    };
    let bodies = bodies();
    thread::scope(|scope| {
        for (path, shapes) in &bodies {
            scope.spawn(|| check(path, shapes));
        }
    });
}
