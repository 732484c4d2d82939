//! `kubectl headroom pod explain` on a real API server: a pod is created and explained, one without a name before it gets one, one
//! that is refused, and one in a file.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests panic: a returned error has no stack"
)]

use std::{fs, path::Path};

use e2e::{
    console,
    custom_kinds::PROFILES,
    namespaces,
    stand::{Stand, until},
};
use headroom_testbed::{
    accounts,
    cluster::ClusterOptions,
    webhook::{GATES, Webhook},
};
use headroom_webhook::admission::endpoint::Family;
use k8s_openapi::api::{
    core::v1::{Namespace, Pod},
    scheduling::v1::PriorityClass,
};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::cli::Cli;

/// The namespace of docs/koordinator.md.
const SHOP: &str = "shop";

fn pod(metadata: &Value) -> Pod {
    let container =
        json!({"name": "main", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": [container]}})).expect("a pod")
}

async fn create(pods: &Api<Pod>, metadata: &Value) -> kube::Result<Pod> {
    pods.create(&PostParams::default(), &pod(metadata)).await
}

/// The values of a decision at a path, each with its writer.
fn written(decision: &Value, path: &str) -> Vec<(Value, Value)> {
    let writes = decision["writes"].as_array().expect("writes").iter();
    let found = writes.filter(|write| write["path"] == path);
    found
        .map(|write| (write["value"].clone(), write["by"].clone()))
        .collect()
}

/// Output for a pod in a file, with the cluster's objects as `kubectl get -o json` prints them.
async fn offline(stand: &Stand, cli: &Cli, pod: &Pod) -> Value {
    let params = ListParams::default();
    let profiles = PROFILES.api(stand, "").list(&params).await.expect("profiles");
    let classes: Api<PriorityClass> = Api::all(stand.client.clone());
    let namespaces: Api<Namespace> = Api::all(stand.client.clone());
    let lists = [
        serde_json::to_value(profiles),
        serde_json::to_value(classes.list(&params).await.expect("classes")),
        serde_json::to_value(namespaces.list(&params).await.expect("namespaces")),
    ];
    let kinds = [
        "ClusterColocationProfileList",
        "PriorityClassList",
        "NamespaceList",
    ];
    let (mut text, dir) = (String::new(), stand.cluster.dir());
    for (list, kind) in lists.into_iter().zip(kinds) {
        let mut list = list.expect("JSON");
        list["kind"] = kind.into();
        text.extend([list.to_string().as_str(), "\n"]);
    }
    let (cluster, file) = (dir.join("cluster.json"), dir.join("pod.json"));
    fs::write(&cluster, text).expect("write");
    fs::write(&file, serde_json::to_string(pod).expect("JSON")).expect("write");
    let path = |path: &Path| path.display().to_string();
    cli.ask_json(&[
        "pod",
        "explain",
        "-f",
        &path(&file),
        "--profiles",
        &path(&cluster),
    ])
    .await
}

/// Cluster with two profiles, and a command for a user with the viewer role.
struct Explained {
    stand: Stand,
    pods: Api<Pod>,
    cli: Cli,
    _webhook: Webhook,
}

impl Explained {
    async fn start() -> Self {
        let stand = Stand::start_with(ClusterOptions::default()).await;
        let pods = namespaces::create(&stand, SHOP).await;
        PROFILES.install(&stand).await;
        let class = json!({"metadata": {"name": "koord-batch"}, "value": 5_000});
        let class: PriorityClass = serde_json::from_value(class).expect("a class");
        let classes: Api<PriorityClass> = Api::all(stand.client.clone());
        classes
            .create(&PostParams::default(), &class)
            .await
            .expect("a class");
        let batch = json!({
            "selector": {"matchLabels": {"app": "web"}}, "qosClass": "BE", "priorityClassName": "koord-batch",
            "labels": {"mutated": "yes"},
        });
        PROFILES.create(&stand, "", "batch", &batch).await;
        let other = json!({"namespaceSelector": {"matchLabels": {"env": "production"}}});
        PROFILES.create(&stand, "", "production", &other).await;
        let families = [Family::Nodes, Family::Koordinator];
        let webhook = stand.serving("webhook-0", "{}", &families, GATES).await;
        until("pods reach the webhook", async || {
            let dry = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            let probe = pod(&json!({"name": "probe", "labels": {"app": "web"}}));
            let created = pods.create(&dry, &probe).await.expect("a dry run");
            created.metadata.labels.expect("labels").contains_key("mutated")
        })
        .await;
        let token = accounts::debug_token(&stand.client).await.expect("a token");
        let cli = Cli::new(&stand, &webhook, "person", &token);
        Self {
            stand,
            pods,
            cli,
            _webhook: webhook,
        }
    }

    async fn explain(&self, name: &str) -> String {
        self.cli.ask(&["pod", "explain", &format!("{SHOP}/{name}")]).await
    }
}

/// A pod that was created is explained, and by a file with the objects of the cluster alike.
async fn created(explained: &Explained) {
    let Explained { stand, pods, cli, .. } = explained;
    let labels = json!({"app": "web"});
    let created = create(pods, &json!({"name": "web-0", "labels": labels})).await;
    created.expect("a pod");
    let folder = tempfile::tempdir().expect("a folder");
    let shell = cli.shell(folder.path(), stand.cluster.kubeconfig()).await;
    let commands = console::page_commands("docs/koordinator.md", "kubectl headroom pod ");
    let [as_printed] = commands.as_slice() else {
        panic!("{commands:#?}")
    };
    assert_eq!(shell.printed(as_printed).await, explained.explain("web-0").await);
    let explained = cli.ask_json(&["pod", "explain", "shop/web-0"]).await;
    let decisions = explained["decisions"].as_array().expect("decisions");
    let [validated, mutated] = decisions.as_slice() else {
        panic!("{explained:#}");
    };
    assert_eq!(
        (&validated["endpoint"], &validated["outcome"]),
        (&json!("validate-pod"), &json!("allowed"))
    );
    let profiles = json!([
        {"name": "batch", "result": "applied", "reason": ""},
        {
            "name": "production", "result": "other-namespace",
            "reason": "spec.namespaceSelector: label \"env\" is absent and must be \"production\"",
        },
    ]);
    assert_eq!(mutated["profiles"], profiles);
    let label = written(mutated, "metadata.labels.mutated");
    assert_eq!(label, [(json!("\"yes\""), json!("profile batch"))]);
    let cpu = "spec.containers[0].resources.requests[kubernetes.io/batch-cpu]";
    let translated = [(json!("\"1k\""), json!("translation of cpu and memory"))];
    assert_eq!(written(mutated, cpu), translated);

    let in_file = pod(&json!({"name": "web-0", "namespace": SHOP, "labels": labels}));
    let offline = offline(stand, cli, &in_file).await;
    assert_eq!(offline["missing"], json!([]));
    let decision = &offline["decisions"][0];
    assert_eq!(decision["profiles"], mutated["profiles"]);
    // The API server had filled in one of the fields before it asked the webhook.
    let mut writes = decision["writes"].as_array().expect("writes").clone();
    writes.retain(|write| write["path"] != "spec.preemptionPolicy");
    assert_eq!(Value::from(writes), mutated["writes"]);
}

/// A dry run is distinguished from a stored pod, and a pod is found by its generated name.
async fn named_later(explained: &Explained) {
    let probe = explained.explain("probe").await;
    assert!(probe.contains("mutate-pod CREATE: allowed, dry run"), "{probe}");
    let metadata = json!({"generateName": "named-", "labels": {"app": "db"}});
    let created = create(&explained.pods, &metadata).await.expect("a pod");
    let text = explained.explain(&created.metadata.name.expect("a name")).await;
    assert!(text.contains("generateName \"named-\""), "{text}");
    let reason = "spec.selector: label \"app\" is \"db\" and must be \"web\"";
    assert!(text.contains(reason), "{text}");
}

/// A refused pod shows the reason; an unknown pod shows nothing.
async fn refused(Explained { pods, cli, .. }: &Explained) {
    let labels = json!({"koordinator.sh/qosClass": "LSR", "koordinator.sh/priority-class": "koord-batch"});
    let wrong = create(pods, &json!({"name": "wrong", "labels": labels})).await;
    wrong.expect_err("a refusal");
    let refused = cli.ask_json(&["pod", "explain", "shop/wrong"]).await;
    assert_eq!(refused["decisions"][0]["outcome"], "denied");
    let reasons = refused["decisions"][0]["reasons"].to_string();
    assert!(reasons.contains("koordinator.sh/qosClass"), "{reasons}");
    let (code, reason) = cli.fail(&["pod", "explain", "shop/absent"]).await;
    assert_eq!(code, Some(1));
    let none = "error: the webhook keeps no review of pod shop/absent: replica ";
    assert!(reason.starts_with(none), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_explained_by_the_webhook_that_decided_about_them() {
    let explained = Explained::start().await;
    created(&explained).await;
    named_later(&explained).await;
    refused(&explained).await;
}
