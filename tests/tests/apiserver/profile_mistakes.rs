//! Mistakes at a real API server: those of a colocation profile stop no pod, and those of a pod do not shake off a profile.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

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
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

const TEAM: &str = "team";

/// Profiles with one mistake each; without the webhook's checks the API server refuses every pod of each.
fn mistakes() -> Vec<Value> {
    vec![
        json!({"patch": {"metadata": {"labels": {"team": 7}}}}),
        json!({"patch": {"spec": {"priority": "5000"}}}),
        json!({"patch": {"spec": {"containers": "oops"}}}),
        json!({"patch": {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "lots"}}}]}}}),
        json!({"patch": {"spec": {"containers": [{"name": "main", "env": {"A": "b"}}]}}}),
        json!({"labels": {"team": "my team!"}}),
        json!({"labels": {"a/b/c": "x"}}),
        json!({"labelKeysMapping": {"app": "not a key!"}}),
        json!({"labelSuffixes": {"team": "-"}}),
    ]
}

/// Profiles whose mistake shows when they are applied.
fn misfits() -> Vec<Value> {
    vec![
        json!({"patch": {"metadata": {"name": "other"}}}),
        json!({"patch": {"metadata": {"namespace": "default"}}}),
        json!({"patch": {"spec": {"priority": 5000}}}),
        json!({"patch": {"spec": {"overhead": {"cpu": "1"}}}}),
        json!({"patch": {"spec": {"containers": [{"$patch": "replace"}]}}}),
    ]
}

fn pod(name: &str, app: &str, team: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": app, "team": team}},
        "spec": {"containers": [{"name": "main", "image": "i"}]},
    })
}

async fn create(pods: &Api<Pod>, pod: &Value) -> Result<Value, kube::Error> {
    let pod = serde_json::from_value(pod.clone()).expect("a pod");
    let created = pods.create(&PostParams::default(), &pod).await?;
    Ok(serde_json::to_value(created).expect("JSON"))
}

async fn create_profile(stand: &Stand, name: &str, app: &str, effects: &Value) {
    let mut spec = effects.clone();
    spec["selector"] = json!({"matchLabels": {"app": app}});
    PROFILES.create(stand, "", name, &spec).await;
}

async fn serve(stand: &Stand, pods: &Api<Pod>) -> Webhook {
    create_profile(stand, "probe", "probe", &json!({"labels": {"mutated": "yes"}})).await;
    let families = [Family::Nodes, Family::Koordinator];
    let webhook = stand.serving("webhook-0", "{}", &families, GATES).await;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let probe: Pod = serde_json::from_value(pod("probe", "probe", "web")).expect("a pod");
    until("pods reach the webhook", async || {
        let created = pods.create(&dry, &probe).await.expect("a dry run");
        created.metadata.labels.expect("labels").contains_key("mutated")
    })
    .await;
    webhook
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_with_a_mistake_stops_no_pod() {
    let stand = Stand::start_with(ClusterOptions::default()).await;
    let pods = namespaces::create(&stand, TEAM).await;
    PROFILES.install(&stand).await;
    let mistakes = [mistakes(), misfits()];
    for (at, spec) in mistakes.iter().flatten().enumerate() {
        create_profile(&stand, &format!("mistake-{at}"), &format!("app-{at}"), spec).await;
        create_profile(
            &stand,
            &format!("valid-{at}"),
            &format!("app-{at}"),
            &json!({"labels": {"valid": "yes"}}),
        )
        .await;
    }
    let webhook = serve(&stand, &pods).await;
    let invalid = count(&webhook, "headroom_webhook_profiles{state=\"invalid\"").await;
    assert_eq!(invalid, u64::try_from(mistakes[0].len()).expect("few"));
    for (at, spec) in mistakes.iter().flatten().enumerate() {
        let app = format!("app-{at}");
        let created = create(&pods, &pod(&format!("pod-{at}"), &app, "web")).await;
        let created = created.unwrap_or_else(|error| panic!("{spec}: {error}"));
        assert_eq!(
            created["metadata"]["labels"],
            json!({"app": app, "team": "web", "valid": "yes"}),
            "{spec}"
        );
        assert_eq!(created["spec"]["priority"], 0, "{spec}");
    }
    let failed = count(
        &webhook,
        "headroom_webhook_profile_results_total{result=\"failed\"",
    )
    .await;
    assert_eq!(
        failed,
        u64::try_from(mistakes.iter().flatten().count()).expect("few")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_does_not_fit_its_profile_is_refused_with_its_field() {
    let stand = Stand::start_with(ClusterOptions::default()).await;
    let pods = namespaces::create(&stand, TEAM).await;
    PROFILES.install(&stand).await;
    let suffix = json!({"labelSuffixes": {"team": "-x"}, "labels": {"mandatory": "yes"}});
    create_profile(&stand, "suffix", "suffix", &suffix).await;
    let secrets = json!({"patch": {"spec": {"imagePullSecrets": [{"name": "ours"}]}}});
    create_profile(&stand, "secrets", "secrets", &secrets).await;
    let _webhook = serve(&stand, &pods).await;

    let created = create(&pods, &pod("fits", "suffix", "web")).await.expect("a pod");
    assert_eq!(created["metadata"]["labels"]["team"], "web-x");
    let mut unnamed = pod("unnamed", "secrets", "web");
    unnamed["spec"]["imagePullSecrets"] = json!([{}]);
    for (pod, field) in [
        (pod("long", "suffix", &"x".repeat(62)), "metadata.labels[team]: "),
        (pod("empty", "suffix", ""), "metadata.labels[team]: "),
        (unnamed, "spec.imagePullSecrets: "),
    ] {
        match create(&pods, &pod).await {
            Err(kube::Error::Api(refused)) => {
                assert_eq!(refused.code, 400, "{refused:?}");
                assert!(refused.message.contains(field), "{refused:?}");
            }
            other => panic!("{pod}: {other:?}"),
        }
    }
}
