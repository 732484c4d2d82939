//! Colocation profiles on a real API server: a plain pod becomes a batch pod, a class that is created just before its
//! pod is waited for, and a profile that cannot be applied changes nothing and refuses no pod.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use std::fs;

use e2e::{
    custom_kinds::PROFILES,
    namespaces,
    stand::{Stand, count, until},
};
use headroom_testbed::{
    cluster::ClusterOptions,
    webhook::{GATES, Webhook},
};
use headroom_webhook::admission::endpoint::Family;
use k8s_openapi::api::{core::v1::Pod, scheduling::v1::PriorityClass};
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

/// The namespace of the pods. The API server labels it with its name.
const TEAM: &str = "team";
/// Most operations that make a batch pod of a plain one.
const MOST_OPERATIONS: usize = 12;
/// Classes that come just before the first pod of each.
const LATE_CLASSES: usize = 100;

fn pod(name: &str, app: &str) -> Pod {
    let resources = json!({
        "requests": {"cpu": "1500m", "memory": "2Gi"}, "limits": {"cpu": "2", "memory": "2Gi"},
    });
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": "i", "resources": resources}]},
    }))
    .expect("a pod")
}

async fn create(pods: &Api<Pod>, pod: &Pod) -> Value {
    let created = pods.create(&PostParams::default(), pod).await;
    serde_json::to_value(created.expect("create the pod")).expect("JSON")
}

async fn create_class(stand: &Stand, name: &str, value: i32) {
    let class = json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": "Never"});
    let class: PriorityClass = serde_json::from_value(class).expect("a class");
    let classes: Api<PriorityClass> = Api::all(stand.client.clone());
    let created = classes.create(&PostParams::default(), &class).await;
    created.expect("create the class");
}

/// A profile for the pods of an app in the namespace.
async fn create_profile(stand: &Stand, name: &str, app: &str, effects: &Value) {
    let mut spec = effects.clone();
    spec["selector"] = json!({"matchLabels": {"app": app}});
    spec["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": TEAM}});
    PROFILES.create(stand, "", name, &spec).await;
}

async fn results(webhook: &Webhook, result: &str) -> u64 {
    let series = format!("headroom_webhook_profile_results_total{{result=\"{result}\"");
    count(webhook, &series).await
}

/// Number of operations in the replica's patch of that new pod, from the review's log line.
fn operations(stand: &Stand, name: &str) -> usize {
    let log = fs::read_to_string(stand.cluster.dir().join("webhook-0.log")).expect("the log");
    let fields = [r#"endpoint="mutate-pod""#, &format!(r#" name="{name}""#)];
    let mut lines = log
        .lines()
        .filter(|line| fields.iter().all(|field| line.contains(field)));
    let (_, rest) = lines
        .next_back()
        .and_then(|line| line.split_once(" operations="))
        .expect("the line of the review");
    let digits = rest.split(' ').next().expect("digits");
    digits.parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn profile_converts_a_plain_pod_to_batch_and_a_failed_profile_changes_no_pod() {
    let stand = Stand::start_with(ClusterOptions::default()).await;
    let pods = namespaces::create(&stand, TEAM).await;
    PROFILES.install(&stand).await;
    create_class(&stand, "koord-batch", 5_000).await;
    let families = [Family::Nodes, Family::Koordinator];
    let effects = json!({
        "qosClass": "BE", "priorityClassName": "koord-batch", "koordinatorPriority": 1000,
        "schedulerName": "koord-scheduler", "labels": {"mutated": "yes"},
    });
    create_profile(&stand, "batch", "batch", &effects).await;
    let broken = json!({"priorityClassName": "absent", "labels": {"mutated": "yes"}});
    create_profile(&stand, "broken", "broken", &broken).await;
    let webhook = stand.serving("webhook-0", "{}", &families, GATES).await;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    until("pods reach the webhook", async || {
        let created = pods
            .create(&dry, &pod("probe", "batch"))
            .await
            .expect("a dry run");
        created.metadata.labels.expect("labels").contains_key("mutated")
    })
    .await;
    assert!(pods.get_opt("probe").await.expect("an answer").is_none());

    let created = create(&pods, &pod("plain", "batch")).await;
    let spec = &created["spec"];
    let members = [
        "priorityClassName",
        "priority",
        "preemptionPolicy",
        "schedulerName",
    ];
    assert_eq!(
        json!(members.map(|member| &spec[member])),
        json!(["koord-batch", 5_000, "Never", "koord-scheduler"])
    );
    assert_eq!(
        spec["containers"][0]["resources"],
        json!({
            "requests": {"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "2Gi"},
            "limits": {"kubernetes.io/batch-cpu": "2k", "kubernetes.io/batch-memory": "2Gi"},
        })
    );
    assert_eq!(created["metadata"]["labels"]["koordinator.sh/qosClass"], "BE");
    let operations = operations(&stand, "plain");
    assert!((5..=MOST_OPERATIONS).contains(&operations), "{operations}");

    // Another app, and a profile whose class does not exist: the pods stay unchanged.
    for (name, app, failed) in [("other", "other", 0), ("broken", "broken", 1)] {
        let created = create(&pods, &pod(name, app)).await;
        assert_eq!(created["metadata"]["labels"], json!({"app": app}));
        assert_eq!(
            created["spec"]["containers"][0]["resources"]["requests"]["cpu"],
            "1500m"
        );
        assert_eq!(results(&webhook, "failed").await, failed, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn admission_waits_for_a_class_created_just_before_its_pod() {
    let stand = Stand::start_with(ClusterOptions::default()).await;
    let pods = namespaces::create(&stand, TEAM).await;
    PROFILES.install(&stand).await;
    let families = [Family::Nodes, Family::Koordinator];
    let names: Vec<String> = (0..LATE_CLASSES).map(|number| format!("late-{number}")).collect();
    create_profile(&stand, "probe", "probe", &json!({"labels": {"mutated": "yes"}})).await;
    let webhook = stand.serving("webhook-0", "{}", &families, GATES).await;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    until("pods reach the webhook", async || {
        let created = pods
            .create(&dry, &pod("probe", "probe"))
            .await
            .expect("a dry run");
        created.metadata.labels.expect("labels").contains_key("mutated")
    })
    .await;
    let mut in_time = 0;
    for (before, name) in (1_u64..).zip(&names) {
        // A profile is waited for while it is young.
        create_profile(&stand, name, name, &json!({"priorityClassName": name})).await;
        until("the replica knows the profile", async || {
            count(&webhook, "headroom_webhook_profiles{state=\"valid\"").await > before
        })
        .await;
        create_class(&stand, name, 7_000).await;
        let created = match pods.create(&PostParams::default(), &pod(name, name)).await {
            // The pod names no class, so the profile put it there in time; the API server's own watch is behind the webhook's.
            Err(kube::Error::Api(refused))
                if refused
                    .message
                    .ends_with(&format!("no PriorityClass with name {name} was found")) =>
            {
                in_time += 1;
                continue;
            }
            created => serde_json::to_value(created.expect("create the pod")).expect("JSON"),
        };
        let spec = &created["spec"];
        let trio = [
            &spec["priorityClassName"],
            &spec["priority"],
            &spec["preemptionPolicy"],
        ];
        if trio == [&json!(name), &json!(7_000), &json!("Never")] {
            in_time += 1;
        } else {
            // All of it or nothing, on a machine that is too busy to bring a class within the time.
            assert_eq!(spec["priorityClassName"], Value::Null, "{spec}");
        }
    }
    let late = LATE_CLASSES - in_time;
    assert_eq!(
        results(&webhook, "failed").await,
        u64::try_from(late).expect("few")
    );
    assert!(late <= LATE_CLASSES / 4, "{late} of {LATE_CLASSES}");
}
