//! Reviews built to be expensive cost each endpoint at most a fixed multiple, per byte, of a kubelet's usual review.
//! Measured in memory, as CPU time of one thread.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    collections::BTreeMap,
    hint::black_box,
    sync::Arc,
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

const FAMILIES: [Family; 2] = [Family::Nodes, Family::Koordinator];
/// Length of the bodies among which the most expensive one is found, in bytes.
const SHORT: usize = 50_000;
/// Length at which it costs no more per byte.
const LONG: usize = 3_000_000;
/// Limit of the CPU time per byte, as a multiple of that of a kubelet's usual review.
const MOST: f64 = 10.0;

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
    })
}

/// Shapes of bodies by the path of their endpoint.
fn bodies() -> BTreeMap<&'static str, Vec<BodyShape>> {
    let mut bodies = BTreeMap::from([
        ("/mutate-node-status", shapes("status", "system:node:n1")),
        ("/validate-node", shapes("", "somebody")),
    ]);
    for target in targets() {
        let shapes = bodies.entry(target.path).or_default();
        shapes.extend(target.own);
        shapes.extend(target.common);
    }
    bodies
}

/// CPU time of a review: the least of some rounds.
fn cost(router: &Router, path: &str, body: &[u8], rounds: u32) -> f64 {
    let endpoint = router.endpoint(path).expect("an endpoint");
    let round = |_| {
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(600));
        let start = cpu_time();
        let answer = black_box(router.answer(endpoint, black_box(body), deadline));
        let taken = cpu_time().saturating_sub(start);
        assert!(!answer.status.is_server_error(), "{path}: {}", answer.status);
        taken
    };
    let least = (0..rounds).map(round).min().expect("a round");
    least.as_secs_f64()
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
fn the_most_expensive_body_of_each_endpoint_costs_a_bounded_multiple_of_a_kubelets_review() {
    let router = router();
    let review = amplified_review().expect("a review");
    let usual = cost(&router, "/mutate-node-status", &review, 5);
    println!("usual {usual} s");
    for (path, shapes) in bodies() {
        for screen in [50_000, 400_000] {
            let start = Instant::now();
            let cost_of = |shape: &BodyShape| cost(&router, path, shape.body(screen).as_bytes(), 1);
            let mut costs: Vec<_> = shapes.iter().map(|shape| (cost_of(shape), shape)).collect();
            costs.sort_by(|(one, _), (other, _)| one.total_cmp(other));
            println!(
                "{path} {screen}: screened {} in {:?}",
                shapes.len(),
                start.elapsed()
            );
            for (_, shape) in costs.iter().rev().take(2) {
                for bytes in [SHORT, 400_000, LONG] {
                    let start = Instant::now();
                    let ratio = cost(&router, path, shape.body(bytes).as_bytes(), 1) / usual;
                    println!(
                        "   {path}, {}, {bytes} bytes: {ratio:.2} in {:?}",
                        shape.name,
                        start.elapsed()
                    );
                }
            }
        }
    }
}
