//! Tests of pods on a real API server, with the family koordinator served: their requests are completed, a dry run
//! leaves no trace, and only listed users bind them.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use e2e::{
    custom_kinds::QUOTAS,
    namespaces,
    scheduler_double::{SchedulerDouble, bind},
    stand::{Stand, count, until},
};
use headroom_domain::names;
use headroom_testbed::{
    cluster::ClusterOptions,
    webhook::{GATES, Webhook},
};
use headroom_webhook::admission::endpoint::Family;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// The namespace of the pods that are bound.
const BOUND: &str = "bound";
const LABELLED: &str = "labelled";
const FAMILIES: [Family; 2] = [Family::Nodes, Family::Koordinator];

fn pod(name: &str, metadata: &Value, resources: &Value) -> Pod {
    let mut object = json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "i", "resources": resources}]},
    });
    for (member, value) in metadata.as_object().expect("metadata") {
        object["metadata"][member] = value.clone();
    }
    serde_json::from_value(object).expect("a pod")
}

async fn create(pods: &Api<Pod>, pod: &Pod) -> Pod {
    let created = pods.create(&PostParams::default(), pod).await;
    created.expect("create the pod")
}

/// The amounts as the API server has them.
fn resources(pod: &Pod) -> Value {
    let spec = pod.spec.as_ref().expect("a spec");
    serde_json::to_value(spec.containers[0].resources.as_ref()).expect("JSON")
}

fn annotation(pod: &Pod) -> Option<&str> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations.get(names::EXTENDED_RESOURCE_SPEC).map(String::as_str)
}

/// Waits until the API server calls the pods' endpoints.
async fn wait_until_called(pods: &Api<Pod>) {
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let batch = pod("probe", &json!({"labels": labels()}), &batch("1"));
    until("pods reach the webhook", async || {
        let created = pods.create(&dry, &batch).await.expect("a dry run");
        annotation(&created).is_some()
    })
    .await;
}

/// Labels of a pod that may ask for batch resources.
fn labels() -> Value {
    json!({names::QOS_CLASS: "BE", names::PRIORITY_CLASS: names::KOORD_BATCH})
}

fn batch(cpu: &str) -> Value {
    let amounts = json!({"kubernetes.io/batch-cpu": cpu, "kubernetes.io/batch-memory": "1Gi"});
    json!({"requests": amounts, "limits": amounts})
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_requests_are_completed_and_a_dry_run_leaves_no_trace() {
    let stand = Stand::start().await;
    let pods = namespaces::create(&stand, "completed").await;
    let _webhook = stand.serving("webhook-0", "{}", &FAMILIES, GATES).await;
    wait_until_called(&pods).await;
    assert_eq!(
        pods.list(&ListParams::default()).await.expect("pods").items.len(),
        0
    );

    // A value that a client wrote into the annotation is replaced.
    let mut metadata = json!({"annotations": {names::EXTENDED_RESOURCE_SPEC: "forged"}, "labels": labels()});
    metadata["labels"][names::MUTATING_UPDATE] = "true".into();
    let created = create(&pods, &pod("batch", &metadata, &batch("1000"))).await;
    let wanted = r#"{"containers":{"main":{"limits":{"kubernetes.io/batch-cpu":"1k","kubernetes.io/batch-memory":"1Gi"},"requests":{"kubernetes.io/batch-cpu":"1k","kubernetes.io/batch-memory":"1Gi"}}}}"#;
    assert_eq!(annotation(&created), Some(wanted));

    // An update of a pod that asks for it by label puts it right again, and touches nothing else.
    let forged = json!({"metadata": {"annotations": {names::EXTENDED_RESOURCE_SPEC: "{}", "own": "kept"}}});
    let patched = pods
        .patch("batch", &PatchParams::default(), &Patch::Merge(forged))
        .await
        .expect("patch the pod");
    assert_eq!(annotation(&patched), Some(wanted));
    assert_eq!(patched.metadata.annotations.expect("annotations")["own"], "kept");

    let percent = json!({"requests": {"koordinator.sh/gpu": "200"}, "limits": {"koordinator.sh/gpu": "200"}});
    let created = create(&pods, &pod("gpu", &json!({}), &percent)).await;
    let amounts = json!({
        "koordinator.sh/gpu-core": "200",
        "koordinator.sh/gpu-memory-ratio": "200",
        "koordinator.sh/gpu.shared": "2",
    });
    assert_eq!(
        resources(&created),
        json!({"requests": amounts, "limits": amounts})
    );

    let plain = json!({"requests": {"cpu": "1"}});
    let created = create(&pods, &pod("plain", &json!({}), &plain)).await;
    assert_eq!((annotation(&created), resources(&created)), (None, plain));
}

async fn bindings(webhook: &Webhook, decision: &str) -> u64 {
    let series = format!("headroom_webhook_binding_decisions_total{{decision=\"{decision}\"");
    count(webhook, &series).await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_listed_users_bind_pods_and_a_pod_that_has_just_been_created_is_waited_for() {
    let stand = Stand::start().await;
    let pods = namespaces::create(&stand, BOUND).await;
    let gates = format!("{GATES},BindingAdmissionWebhook=true");
    let flags = [
        "--binding-admission-user-name=good-scheduler",
        "--binding-admission-namespaces=*",
    ];
    let webhook = stand
        .serving_with("webhook-0", "{}", &FAMILIES, &gates, &flags)
        .await;
    wait_until_called(&pods).await;
    let [good, evil] = ["good-scheduler", "evil-good-scheduler-2"].map(async |user| {
        let client = stand.cluster.client_for(user, Some("system:masters")).await;
        client.expect("a client")
    });
    let (good, evil) = (good.await, evil.await);
    let mut passed = 0;
    for number in 0..20 {
        let name = format!("pod-{number}");
        create(&pods, &pod(&name, &json!({}), &json!({}))).await;
        // Immediately: the replica may not have observed it yet, and waits for it.
        let refused = match bind(&evil, BOUND, &name, "n1").await {
            Err(kube::Error::Api(status)) => status,
            Err(error) => panic!("{error}"),
            Ok(_) => {
                passed += 1;
                continue;
            }
        };
        assert_eq!(refused.code, 403);
        let text = "binding denied: username is not in the allowed list";
        assert!(refused.message.contains(text), "{}", refused.message);
    }
    // On a machine that is too busy to bring a pod within the time, it passes, and counts as that.
    assert_eq!(bindings(&webhook, "unknown_pod").await, passed);
    assert_eq!(bindings(&webhook, "denied").await, 20 - passed);
    assert!(passed <= 5, "{passed}");
    create(&pods, &pod("last", &json!({}), &json!({}))).await;
    bind(&good, BOUND, "last", "n1").await.expect("a listed user may");

    let bypass = json!({"labels": {names::BINDING_ADMISSION_BYPASS: ""}});
    create(&pods, &pod("free", &bypass, &json!({}))).await;
    bind(&evil, BOUND, "free", "n1")
        .await
        .expect("its label allows any user");
    assert_eq!(bindings(&webhook, "bypass_label").await, 1);
}

/// The attacker may create `pods/binding` and moves a pod to another class and quota in the same request.
#[tokio::test(flavor = "multi_thread")]
async fn bindings_change_no_labels_and_annotations_of_koordinator() {
    let stand = Stand::start().await;
    let pods = namespaces::create(&stand, LABELLED).await;
    let _webhook = stand.serving("webhook-0", "{}", &FAMILIES, GATES).await;
    wait_until_called(&pods).await;
    let labels = json!({"labels": {names::QOS_CLASS: "LS", "zone": "a"}});
    create(&pods, &pod("victim", &labels, &json!({}))).await;
    let bind = async |metadata: &Value| {
        let mut metadata = metadata.clone();
        metadata["name"] = "victim".into();
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": metadata,
            "target": {"kind": "Node", "name": "n1"},
        });
        let params = PostParams::default();
        let created = pods.create_subresource::<_, Value>("binding", "victim", &params, &binding);
        match created.await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) => Err(status.message.clone()),
            Err(error) => panic!("{error}"),
        }
    };
    let changed = json!({"labels": {names::QOS_CLASS: "LSR", names::QUOTA_NAME: "other"}});
    let status = json!({"annotations": {"scheduling.koordinator.sh/resource-status": "{}"}});
    let own = json!({"annotations": {"headroom.sh/x": ""}});
    // More keys than the API server compares, and than a replica reads.
    let keys: serde_json::Map<_, _> = (0..20_000).map(|key| (format!("k{key}"), json!(""))).collect();
    for forged in [&changed, &status, &own, &json!({"annotations": keys})] {
        let refused = bind(forged).await.expect_err("refused");
        assert!(
            refused.contains("metadata.vpodbinding.koordinator.sh"),
            "{refused}"
        );
    }
    let refused = bind(&changed).await.expect_err("refused");
    for key in [names::QOS_CLASS, names::QUOTA_NAME] {
        let text = format!("metadata.labels[{key}]: Forbidden: a Binding may not change it");
        assert!(refused.contains(&text), "{refused}");
    }
    let same = json!({"labels": {names::QOS_CLASS: "LS", "zone": "b"}, "annotations": {"x": "y"}});
    bind(&same).await.expect("equal values pass, and other keys");
    let bound = pods.get("victim").await.expect("the pod");
    assert_eq!(bound.spec.expect("a spec").node_name.as_deref(), Some("n1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listed_scheduler_binds_all_pods_and_its_writes_of_quotas_reach_no_webhook() {
    const SCHEDULED: &str = "scheduled";
    const PODS: u64 = 10;
    let stand = Stand::start_with(ClusterOptions::default()).await;
    let pods = namespaces::create(&stand, SCHEDULED).await;
    QUOTAS.install(&stand).await;
    let gates = format!("{GATES},BindingAdmissionWebhook=true");
    let account = "system:serviceaccount:koordinator-system:koord-scheduler";
    let flags = [
        format!("--binding-admission-user-name={account}"),
        "--binding-admission-namespaces=*".to_owned(),
    ];
    let flags = flags.each_ref().map(String::as_str);
    let webhook = stand
        .serving_with("webhook-0", "{}", &FAMILIES, &gates, &flags)
        .await;
    wait_until_called(&pods).await;
    let max = json!({"max": {"cpu": "10"}, "min": {"cpu": "1"}});
    QUOTAS.create(&stand, SCHEDULED, "team", &max).await;
    for number in 0..PODS {
        let mut pod = pod(&format!("pod-{number}"), &json!({}), &json!({}));
        pod.spec.as_mut().expect("a spec").scheduler_name = Some("koord-scheduler".to_owned());
        create(&pods, &pod).await;
    }

    let strange = SchedulerDouble::start(&stand, "stranger", "koord-scheduler", "n1", "elsewhere").await;
    until("the stranger is refused", async || strange.refused() > PODS).await;
    // A pod that the replica does not observe in time passes, and is counted so.
    assert_eq!(strange.bound(), bindings(&webhook, "unknown_pod").await);
    let passed = strange.bound();
    drop(strange);

    let asked = bindings(&webhook, "allowed_username").await;
    let double = SchedulerDouble::start(&stand, account, "koord-scheduler", "n1", SCHEDULED).await;
    until("all are bound", async || double.bound() == PODS - passed).await;
    assert_eq!(double.refused(), 0);
    assert_eq!(
        bindings(&webhook, "allowed_username").await,
        asked + PODS - passed
    );

    // The scheduler's writes of each second are stored and cause no review in this webhook.
    let reviews = async || count(&webhook, "headroom_webhook_reviews_total").await;
    let (before, written) = (reviews().await, double.quota_writes());
    until("quotas are written", async || {
        double.quota_writes() >= written + 6
    })
    .await;
    let quota = QUOTAS
        .api(&stand, SCHEDULED)
        .get("team")
        .await
        .expect("the quota");
    assert!(
        quota
            .metadata
            .annotations
            .expect("annotations")
            .contains_key(names::QUOTA_CHILD_REQUEST)
    );
    assert!(
        quota.data["status"]["used"]["cpu"].is_string(),
        "{:?}",
        quota.data
    );
    assert_eq!(reviews().await, before);
}
