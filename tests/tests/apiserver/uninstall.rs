//! Tests of `kubectl headroom uninstall` on a real API server: with a webhook, with all replicas dead, next to objects of
//! other users, and without the rights.
#![expect(
    clippy::expect_used,
    clippy::too_many_lines,
    reason = "tests panic: a returned error has no stack; a story is read in one go"
)]

use std::{collections::BTreeSet, path::Path, process::Output, time::Duration};

use e2e::{
    policy_install::marked,
    rendered_manifests::Installation,
    stand::{Stand, allocatable, annotation, until},
};
use headroom_domain::{installation, names};
use headroom_testbed::cluster::ClusterOptions;
use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::{Namespace, Node, Pod, Secret, ServiceAccount},
    rbac::v1::ClusterRole,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use kubectl_headroom::uninstall::inventory::inventory;
use serde_json::json;
use tokio::process::Command;

use crate::slo_config::Kubectl;

/// Components with objects of their own.
const COMPONENTS: [&str; 3] = ["koordinator", "kubelet-use", "openshift"];

async fn uninstall(stand: &Stand, kubeconfig: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(&stand.programs.cli);
    command
        .arg("uninstall")
        .args(words)
        .env("HEADROOM_KUBECONFIG", kubeconfig);
    command.kill_on_drop(true).output().await.expect("run it")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[track_caller]
fn assert_end(ran: &Output, code: i32, end: &str) {
    let (printed, complaint) = (text(&ran.stdout), text(&ran.stderr));
    assert_eq!(ran.status.code(), Some(code), "{printed}\n{complaint}");
    let last = if code == 0 { &printed } else { &complaint };
    let last = last.lines().last().unwrap_or_default();
    assert!(last.starts_with(end), "{last}\n{printed}\n{complaint}");
}

/// Creates a pod on node n1 as a dry run.
async fn try_pod(stand: &Stand) -> kube::Result<Pod> {
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    pods(stand).create(&params, &pod("small", "1")).await
}

fn pod(name: &str, cpu: &str) -> Pod {
    let pod = json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": cpu}}}],
        },
    });
    serde_json::from_value(pod).expect("a pod")
}

fn pods(stand: &Stand) -> Api<Pod> {
    Api::default_namespaced(stand.client.clone())
}

async fn create_account(stand: &Stand) {
    let accounts: Api<ServiceAccount> = Api::default_namespaced(stand.client.clone());
    let account = serde_json::from_value(json!({"metadata": {"name": "default"}})).expect("an account");
    accounts
        .create(&PostParams::default(), &account)
        .await
        .expect("the account of pods");
}

async fn put_label<K>(api: &Api<K>, name: &str)
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let label = json!({"metadata": {"labels": {names::PART_OF_LABEL: names::PART_OF_HEADROOM}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(label))
        .await
        .expect("label it");
}

fn has_nothing_of_ours(node: &Node) -> bool {
    node.annotations()
        .keys()
        .all(|key| !key.starts_with(names::DOMAIN) && key != names::RAW_ALLOCATABLE)
}

#[test]
fn inventory_has_each_object_of_the_manifests_and_all_have_the_label() {
    let mut installation = Installation::render_overlay("overlays/configuration");
    for component in COMPONENTS {
        installation.add_component(component);
    }
    let own = inventory(&installation::Installation::default());
    let known: BTreeSet<(&str, Option<&str>, &str)> = own
        .iter()
        .map(|object| {
            (
                object.kind.kind,
                object.namespace.as_deref(),
                object.name.as_str(),
            )
        })
        .collect();
    let is_of_overlay = |kind: &str| ["Secret", "ConfigMap"].contains(&kind);
    let mut count = 0;
    for object in &installation.objects {
        let kind = object["kind"].as_str().expect("a kind");
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().expect("a name");
        if !is_of_overlay(kind) {
            assert_eq!(
                metadata["labels"][names::PART_OF_LABEL],
                names::PART_OF_HEADROOM,
                "{kind} {name}"
            );
        }
        let name = if name.starts_with("headroom-config-") {
            names::CONFIG_MAP
        } else {
            name
        };
        let namespace = metadata["namespace"].as_str();
        assert!(
            known.contains(&(kind, namespace, name)),
            "{kind} {namespace:?} {name}"
        );
        count += 1;
    }
    assert!(count > 50, "{count}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_replicas_leave_nothing_and_pods_are_created_at_once() {
    let stand = Stand::start_with(ClusterOptions::default()).await;
    let admin = stand.cluster.kubeconfig().to_owned();
    create_account(&stand).await;
    // Before the policies are in force, which refuse a marker of a user.
    marked(&stand, "n1").await;
    stand
        .annotate("n1", names::RAW_ALLOCATABLE, r#"{"cpu":"4","memory":"8Gi"}"#)
        .await;
    pods(&stand)
        .create(&PostParams::default(), &pod("web", "5"))
        .await
        .expect("a pod that needs more than raw");
    let namespaces: Api<Namespace> = Api::all(stand.client.clone());
    let namespace = json!({"metadata": {"name": names::SLO_CONFIG_NAMESPACE}});
    let namespace = serde_json::from_value(namespace).expect("a Namespace");
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .expect("create it");
    let roles: Api<ClusterRole> = Api::all(stand.client.clone());
    let foreign = json!({"metadata": {"name": names::KUBELET_USE_ROLE}, "rules": []});
    let foreign = serde_json::from_value(foreign).expect("a ClusterRole");
    roles
        .create(&PostParams::default(), &foreign)
        .await
        .expect("a role of another user");
    let mut installation = Installation::render();
    installation.add_component("koordinator");
    let applied = installation.try_apply(&admin);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let secrets: Api<Secret> = Api::namespaced(stand.client.clone(), names::AGENT_NAMESPACE);
    let secret = serde_json::from_value(json!({"metadata": {"name": "theirs"}})).expect("a Secret");
    secrets
        .create(&PostParams::default(), &secret)
        .await
        .expect("a Secret of another user");
    until("no pod can be created", async || {
        try_pod(&stand)
            .await
            .is_err_and(|error| error.to_string().contains("failed calling webhook"))
    })
    .await;
    floor_in_force(&stand).await;

    // The plan changes nothing.
    let plan = uninstall(&stand, &admin, &["--check"]).await;
    assert_end(&plan, 0, "planned: ");
    let plan = text(&plan.stdout);
    for line in [
        "   delete MutatingWebhookConfiguration headroom-pods (fails closed: ",
        "warning: no webhook answers: ",
        "stays: ClusterRole headroom-webhook-kubelet-use: it has no label",
        "stays: Namespace headroom-agent: it contains objects of other users: Secret theirs",
        "stays: folder /var/lib/headroom of each node: ",
    ] {
        assert!(
            plan.lines().any(|found| found.starts_with(line)),
            "{line} is not in\n{plan}"
        );
    }
    assert!(try_pod(&stand).await.is_err());

    // The pod on n1 needs the amplified value, so the floor stays. Other writes no longer wait for the webhook.
    let held = uninstall(&stand, &admin, &["--yes"]).await;
    assert_end(
        &held,
        1,
        "error: no webhook answers, and some nodes cannot return to raw: n1 (its bound pods need cpu 5000m of 4000m)",
    );
    until("pods can be created", async || try_pod(&stand).await.is_ok()).await;
    let raw = json!({"allocatable": {"cpu": "4", "memory": "8Gi"}});
    let kept = stand.patch_as_kubelet("n1", &raw).await.expect("a write passes");
    assert_eq!(allocatable(&kept, "cpu"), "6");

    let at_once = DeleteParams::default().grace_period(0);
    pods(&stand)
        .delete("web", &at_once)
        .await
        .expect("delete the pod");
    let writes = async {
        loop {
            stand.patch_as_kubelet("n1", &raw).await.expect("a write passes");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    let ran = tokio::select! {
        ran = uninstall(&stand, &admin, &["--yes"]) => ran,
        () = writes => unreachable!("the kubelet writes without end"),
    };
    assert_end(
        &ran,
        1,
        "error: not removed: Namespace headroom-agent contains Secret theirs",
    );
    let node = stand.nodes().get("n1").await.expect("read the node");
    assert_eq!(allocatable(&node, "cpu"), "4");
    assert!(has_nothing_of_ours(&node), "{:?}", node.annotations());
    roles
        .get(names::KUBELET_USE_ROLE)
        .await
        .expect("the role of another user");

    // The next run continues, and the one after finds nothing. No controller finishes the deletion of namespaces here.
    secrets
        .delete("theirs", &DeleteParams::default())
        .await
        .expect("delete the Secret");
    let ran = uninstall(&stand, &admin, &["--yes"]).await;
    assert_end(&ran, 0, "removed: ");
    let again = uninstall(&stand, &admin, &["--yes"]).await;
    assert_end(&again, 0, "nothing: ");
    let left = Kubectl::new(&stand).run(
        &[
            "get",
            "mutatingwebhookconfigurations,validatingwebhookconfigurations,mutatingadmissionpolicies,validatingadmissionpolicies,\
             clusterroles,clusterrolebindings,priorityclasses,roles,rolebindings,deployments,daemonsets,services,secrets,configmaps",
            "--all-namespaces",
            "--selector=app.kubernetes.io/part-of=headroom",
            "--output=name",
        ],
        "",
    );
    assert_eq!(text(&left.stdout), "", "{left:?}");
}

/// Waits until the floor replaces raw values. Only dry runs: a write before that would be stored.
async fn floor_in_force(stand: &Stand) {
    let client = stand.cluster.client_for_node("n1").await;
    let kubelet: Api<Node> = Api::all(client.expect("the node's client"));
    let dry_run = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let raw = Patch::Merge(json!({"status": {"allocatable": {"cpu": "4"}}}));
    until("the floor is in force", async || {
        let answer = kubelet.patch_status("n1", &dry_run, &raw).await;
        answer.is_ok_and(|node| allocatable(&node, "cpu") == "6")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_answers_restores_nodes_before_it_is_removed() {
    let stand = Stand::start().await;
    let admin = stand.cluster.kubeconfig().to_owned();
    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.register(&webhook).await;
    create_account(&stand).await;
    for name in ["n1", "n2"] {
        stand.create_node(name, "4", "8Gi").await;
        stand.annotate(name, names::RATIO, r#"{"cpu":1.5}"#).await;
        stand
            .node_until(name, "amplified", |node| allocatable(node, "cpu") == "6")
            .await;
    }
    pods(&stand)
        .create(&PostParams::default(), &pod("web", "5"))
        .await
        .expect("a pod that needs more than raw");
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(stand.client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(stand.client.clone());

    // They lead to a URL and have no label, so they may belong to another user.
    let plan = uninstall(&stand, &admin, &[]).await;
    let unlabelled = "stays: MutatingWebhookConfiguration headroom-webhook: it has no label app.kubernetes.io/part-of: headroom";
    assert!(text(&plan.stdout).contains(unlabelled), "{}", text(&plan.stdout));
    put_label(&mutating, names::WEBHOOK_CONFIGURATION).await;
    put_label(&validating, names::WEBHOOK_CONFIGURATION).await;

    until("the pod is counted", async || {
        let plan = uninstall(&stand, &admin, &["--check"]).await;
        text(&plan.stdout).contains("n1: stays at cpu 5000m")
    })
    .await;
    let held = uninstall(&stand, &admin, &["--yes", "--wait-seconds", "5"]).await;
    assert_end(&held, 1, "error: waiting: 1 of 2 nodes are not raw yet: n1 ");
    mutating
        .get(names::WEBHOOK_CONFIGURATION)
        .await
        .expect("still needed to restore n1");

    let at_once = DeleteParams::default().grace_period(0);
    pods(&stand)
        .delete("web", &at_once)
        .await
        .expect("delete the pod");
    let ran = uninstall(&stand, &admin, &["--yes"]).await;
    assert_end(&ran, 0, "removed: ");
    // The replica still runs, and no write reaches it.
    for name in ["n1", "n2"] {
        let raw = json!({"allocatable": {"cpu": "4", "memory": "8Gi"}});
        let node = stand.patch_as_kubelet(name, &raw).await.expect("a write passes");
        assert_eq!(allocatable(&node, "cpu"), "4", "{name}");
        assert!(has_nothing_of_ours(&node), "{name}: {:?}", node.annotations());
        assert_eq!(
            annotation(&node, names::RATIO),
            Some(r#"{"cpu":1.5}"#),
            "the user's"
        );
    }
    drop(webhook);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_rights_are_reported_before_any_change() {
    let stand = Stand::start().await;
    stand.create_node("n1", "4", "8Gi").await;
    stand.annotate("n1", names::MODE, "static").await;
    let stranger = stand
        .cluster
        .kubeconfig_for("stranger", None)
        .expect("kubeconfig");
    let refused = uninstall(&stand, &stranger, &["--yes"]).await;
    assert_end(
        &refused,
        1,
        "error: the user lacks permission to list nodes, patch nodes, ",
    );
    let complaint = text(&refused.stderr);
    for part in [
        "delete mutatingwebhookconfigurations headroom-pods",
        "delete namespaces headroom-system",
        "; nothing was changed: run it as a cluster administrator",
    ] {
        assert!(complaint.contains(part), "{complaint}");
    }
    let node = stand.nodes().get("n1").await.expect("read the node");
    assert_eq!(annotation(&node, names::MODE), Some("static"));
}
