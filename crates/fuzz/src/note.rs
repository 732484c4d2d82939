//! Fuzz target: the annotations of a Node by any writer. The hint note is read by itself, and all of them go through
//! `/mutate-node-status`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use headroom_domain::{hint::Note, installation::Installation, names, quantity::Quantity};
use headroom_kit::gate::GateSet;
use headroom_webhook::{
    admission::{
        endpoint::{Deadline, Family, Stores},
        endpoints,
        error::ReviewOutcome,
        features::Features,
        router::{Limits, Options, Router},
    },
    store::{
        clock::Clock,
        cluster::{Cluster, Settings},
        floor::MissingFloor,
        informer::Store as _,
        nodes, pods,
    },
};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

/// The endpoint that decides.
const PATH: &str = "/mutate-node-status";
/// The annotation's size limit, in bytes.
const LONGEST: usize = 1024;
/// More time than a review takes, with coverage counted too.
const LIMIT: Duration = Duration::from_secs(60);

/// One line each, all of which may be missing: the annotations hint, marker, raw, ratio, `kubelet-raw`, `static-ratio` and
/// mode; stored and sent allocatable as `CPU MEMORY`; and who writes.
pub fn check(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let mut lines = text.split('\n').map(Some).chain(std::iter::repeat(None));
    let mut line = || lines.next().flatten().filter(|line| !line.is_empty());
    let mut annotations = json!({});
    for key in [
        names::HINT,
        names::MARKER,
        names::RAW_ALLOCATABLE,
        names::RATIO,
        names::KUBELET_RAW,
        names::STATIC_RATIO,
        names::MODE,
    ] {
        if let Some(value) = line() {
            annotations[key] = value.into();
        }
    }
    if let Some(note) = annotations[names::HINT].as_str() {
        is_read_as_written(note);
    }
    let (stored, sent) = (allocatable(line()), allocatable(line()));
    let user = line().map_or("system:node:n1", |_| "system:serviceaccount:kube-system:other");
    let old = node(&annotations, &stored, "2026-11-20T00:00:00Z");
    let new = node(&annotations, &sent, "2026-11-20T00:00:10Z");
    let after = decided(&old, &new, user);
    for resource in ["cpu", "memory"] {
        let amount = |node: &Value| node["status"]["allocatable"][resource].clone();
        if amount(&after) != amount(&new) {
            let quantity: Quantity = amount(&after)
                .as_str()
                .expect("text")
                .parse()
                .expect("what is written is a quantity");
            assert!(
                quantity.milli().is_some() || quantity.units().is_some(),
                "{quantity} of {resource}"
            );
        }
    }
    assert_eq!(
        decided(&old, &after, user),
        after,
        "a second time changes something"
    );
}

/// A note that can be read is written so that it can be read again, braked or not.
fn is_read_as_written(text: &str) {
    let Ok(note) = text.parse::<Note>() else { return };
    for note in [note.clone(), note.under_memory_pressure()] {
        let written = note.to_string();
        assert!(written.len() <= LONGEST, "{} bytes", written.len());
        let again: Note = written.parse().expect("what is written can be read");
        assert_eq!(again, note);
        assert_eq!(again.to_string(), written);
        assert!(again.has_same_effect_as(&note) && note.is_after(&again) == Some(false));
    }
}

/// Both amounts; 4 CPUs and 8Gi for what is missing.
fn allocatable(line: Option<&str>) -> [String; 2] {
    let mut words = line.unwrap_or_default().splitn(2, ' ');
    ["4", "8Gi"].map(|raw| {
        words
            .next()
            .filter(|word| !word.is_empty())
            .unwrap_or(raw)
            .to_owned()
    })
}

fn node(annotations: &Value, [cpu, memory]: &[String; 2], heartbeat: &str) -> Value {
    json!({
        "metadata": {"name": "n1", "uid": "u1", "resourceVersion": "7", "annotations": annotations},
        "status": {
            "capacity": {"cpu": "4", "memory": "8Gi"},
            "allocatable": {"cpu": cpu, "memory": memory},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}],
        },
    })
}

/// The object that a write comes to. It is never refused, and no step breaks.
fn decided(old: &Value, new: &Value, user: &str) -> Value {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "r1", "operation": "UPDATE", "name": "n1", "subResource": "status",
            "resource": {"group": "", "version": "v1", "resource": "nodes"},
            "userInfo": {"username": user},
            "object": new, "oldObject": old,
        },
    });
    let router = router(old);
    let endpoint = router.endpoint(PATH).expect("the endpoint");
    let deadline = Deadline::after(Instant::now(), LIMIT);
    let answer = router.answer(endpoint, review.to_string().as_bytes(), deadline);
    assert_eq!(
        answer.decision.outcome,
        ReviewOutcome::Allowed,
        "{:?}",
        answer.decision.errors
    );
    let answer: Value = serde_json::from_slice(&answer.body).expect("a review");
    let mut after = new.clone();
    if let Some(patch) = answer.pointer("/response/patch") {
        let ByteString(patch) = serde_json::from_value(patch.clone()).expect("base64");
        let patch: json_patch::Patch = serde_json::from_slice(&patch).expect("operations");
        json_patch::patch(&mut after, &patch).expect("a patch that applies");
    }
    after
}

/// A replica in mode `auto`, memory included, that knows this Node, no pod and no agent.
fn router(node: &Value) -> Router {
    let file = json!({"mode": "auto", "bounds": {"memory": {"max": 1.5}}});
    let settings = Settings {
        file: serde_json::from_value(file).expect("a configuration"),
        missing_floor: MissingFloor::Accepted,
        amplifies: true,
        heartbeat_interval: Duration::from_secs(300),
        denies_above_hint: false,
        installation: Installation::default(),
    };
    let cluster = Cluster::new(settings, Arc::new(Clock::new()));
    cluster.policies.replace(None);
    let mut nodes = nodes::NodeListing::default();
    if let Ok(node) = serde_json::from_value(node.clone()) {
        nodes::Nodes::list(&mut nodes, node);
    }
    cluster.nodes.replace(nodes);
    cluster.pods.replace(pods::PodListing::default());
    Router::new(Options {
        endpoints: endpoints::served(&[Family::Nodes]),
        features: Features::with_gates(GateSet::parse(endpoints::gates(), "").expect("gates")).shared(),
        stores: Stores::of_nodes(Arc::new(cluster)),
        limits: Limits::default(),
        log_sample: 0,
    })
}
