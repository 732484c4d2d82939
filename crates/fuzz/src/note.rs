//! Fuzz target: annotations of a Node, which any client may write. The hint annotation is parsed alone, and all of them are
//! part of a review of `/mutate-node-status`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use headroom_domain::{hint::Note, installation::Installation, names, quantity::Quantity};
use headroom_kit::gate::GateSet;
use headroom_webhook::{
    admission::{
        callers::CallerCheck,
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

const PATH: &str = "/mutate-node-status";
/// Size limit of the hint annotation, in bytes.
const LONGEST: usize = 1024;
/// Deadline that no review reaches, even with coverage instrumentation.
const LIMIT: Duration = Duration::from_secs(60);

/// The input has one line for each annotation (hint, marker, raw, ratio, `kubelet-raw`, `static-ratio`, mode), for stored and
/// sent allocatable (`CPU MEMORY`), and for the writer. Each line may be empty or missing.
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
        check_round_trip(note);
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
                .expect("the patch has a quantity");
            assert!(
                quantity.milli().is_some() || quantity.units().is_some(),
                "{quantity} of {resource}"
            );
        }
    }
    assert_eq!(
        decided(&old, &after, user),
        after,
        "the second review changes the node again"
    );
}

/// A parsed note is written so that it can be parsed again, with and without a brake.
fn check_round_trip(text: &str) {
    let Ok(note) = text.parse::<Note>() else { return };
    for note in [note.clone(), note.under_memory_pressure()] {
        let written = note.to_string();
        assert!(written.len() <= LONGEST, "{} bytes", written.len());
        let again: Note = written.parse().expect("a written note can be parsed");
        assert_eq!(again, note);
        assert_eq!(again.to_string(), written);
        assert!(again.has_same_effect_as(&note) && note.is_after(&again) == Some(false));
    }
}

/// CPU and memory of a line; 4 CPUs and 8Gi if missing.
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

/// The object after the webhook's patch. Panics if the write is refused or a step fails.
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

/// A replica in mode `auto` for CPU and memory, with this Node, no pods and no agent.
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
        callers: CallerCheck::default(),
    })
}
