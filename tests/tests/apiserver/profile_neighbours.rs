//! Tests of colocation profiles with other mutators of pods on a real API server: a LimitRange, and a webhook that
//! runs after ours and is called again. Neither changes the profile's results, as long as ours is not called again.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use e2e::{
    custom_kinds::PROFILES,
    foreign_webhook::{AFTER, CalledFor, Foreign, reinvoke},
    namespaces,
    stand::{Stand, until},
};
use headroom_testbed::{cluster::ClusterOptions, webhook::GATES};
use headroom_webhook::admission::endpoint::Family;
use k8s_openapi::api::{
    core::v1::{LimitRange, Pod},
    scheduling::v1::PriorityClass,
};
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

const TEAM: &str = "neighbours";
/// The configuration of our entries for pods.
const OURS: &str = "headroom-pods";

fn pod(name: &str) -> Pod {
    let resources = json!({
        "requests": {"cpu": "1500m", "memory": "2Gi"}, "limits": {"cpu": "2", "memory": "2Gi"},
    });
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": "batch"}},
        "spec": {"containers": [{"name": "main", "image": "i", "resources": resources}]},
    }))
    .expect("a pod")
}

/// A namespace with a range of its own, and a profile and a class for its pods.
async fn team(stand: &Stand) -> Api<Pod> {
    let pods = namespaces::create(stand, TEAM).await;
    let range: LimitRange = serde_json::from_value(json!({
        "metadata": {"name": "defaults"},
        "spec": {"limits": [{
            "type": "Container",
            "default": {"cpu": "500m", "memory": "256Mi"}, "defaultRequest": {"cpu": "250m", "memory": "128Mi"},
        }]},
    }))
    .expect("a range");
    let ranges: Api<LimitRange> = Api::namespaced(stand.client.clone(), TEAM);
    let created = ranges.create(&PostParams::default(), &range).await;
    created.expect("create the range");
    let class: PriorityClass =
        serde_json::from_value(json!({"metadata": {"name": "koord-batch"}, "value": 5_000}))
            .expect("a class");
    let classes: Api<PriorityClass> = Api::all(stand.client.clone());
    let created = classes.create(&PostParams::default(), &class).await;
    created.expect("create the class");
    PROFILES.install(stand).await;
    let effects = json!({
        "selector": {"matchLabels": {"app": "batch"}}, "qosClass": "BE", "priorityClassName": "koord-batch",
    });
    PROFILES.create(stand, "", "batch", &effects).await;
    pods
}

/// Adds a container without resources to each pod, once.
fn inject(pod: &mut Value) {
    let containers = pod["spec"]["containers"].as_array_mut().expect("containers");
    if containers.iter().all(|container| container["name"] != "side") {
        containers.insert(0, json!({"name": "side", "image": "i"}));
    }
}

/// Batch resources that the user's container requests.
fn batch(pod: &Pod) -> Value {
    let pod = serde_json::to_value(pod).expect("JSON");
    let containers = pod["spec"]["containers"].as_array().expect("containers");
    let main = containers.iter().find(|container| container["name"] == "main");
    let requests = &main.expect("the user's container")["resources"]["requests"];
    json!([
        requests["kubernetes.io/batch-cpu"],
        requests["kubernetes.io/batch-memory"]
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_range_and_later_webhook_do_not_change_profile_results() {
    let stand = Stand::start_with(ClusterOptions::default()).await;
    let pods = team(&stand).await;
    let folder = tempfile::tempdir().expect("a folder");
    let foreign = Foreign::start(folder.path(), |_call, pod| inject(pod)).await;
    let called_for = CalledFor {
        operation: "CREATE",
        resource: "pods",
        reinvocation: "IfNeeded",
    };
    foreign.register_for(&stand.client, AFTER, called_for).await;
    let _webhook = stand
        .serving("webhook-0", "{}", &[Family::Nodes, Family::Koordinator], GATES)
        .await;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let as_asked = json!(["1500", "2Gi"]);
    until("the profile applies", async || {
        let created = pods.create(&dry, &pod("probe")).await.expect("a dry run");
        batch(&created) == as_asked
    })
    .await;
    let created = pods
        .create(&PostParams::default(), &pod("plain"))
        .await
        .expect("a pod");
    assert_eq!(batch(&created), as_asked);
    let names: Vec<String> = created
        .spec
        .expect("a specification")
        .containers
        .into_iter()
        .map(|c| c.name)
        .collect();
    assert_eq!(names, ["side", "main"]);
    assert!(foreign.calls() > 0);

    // Why ours is never called again: the range has added its defaults, and they would be taken for the user's.
    reinvoke(&stand.client, OURS).await;
    until("our webhook is called again", async || {
        let created = pods.create(&dry, &pod("again")).await.expect("a dry run");
        batch(&created) == json!(["250", "128Mi"])
    })
    .await;
}
