//! Tests of `uninstall` against an API server in this process: order, repetition, obstacles, and dead replicas.

mod fake_cluster;

use clap::Parser as _;
use headroom_domain::names;
use serde_json::{Value, json};

use self::fake_cluster::{FakeCluster, NODE, entry, node};
use super::*;
use crate::{Args, cmd::Command};

const PODS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/headroom-pods";
const SYSTEM: &str = "/api/v1/namespaces/headroom-system";

/// Result of a run: printed lines, and the error.
struct Ran {
    text: String,
    error: Option<String>,
}

impl Ran {
    #[track_caller]
    fn assert_end(&self, end: &str) {
        assert_eq!(self.error, None, "{}", self.text);
        assert_eq!(self.text.lines().last(), Some(end), "{}", self.text);
    }

    #[track_caller]
    fn assert_line(&self, line: &str) {
        assert!(
            self.text.lines().any(|found| found == line),
            "no {line:?} in\n{}",
            self.text
        );
    }
}

async fn uninstall(cluster: &FakeCluster, words: &[&str]) -> Ran {
    let line = ["kubectl-headroom", "uninstall"].iter().chain(words);
    let Args {
        connect,
        output,
        command,
        ..
    } = Args::try_parse_from(line).unwrap();
    let Command::Uninstall(args) = command else {
        panic!("another command");
    };
    let target = Target::new(cluster.client(), &connect, &args);
    let mut out = Vec::new();
    let mut screen = Screen::plain(&mut out);
    let printer = LinePrinter {
        screen: &mut screen,
        format: output.format(),
    };
    let error = args
        .run_on(&target, printer)
        .await
        .err()
        .map(|error| error.to_string());
    Ran {
        text: String::from_utf8(out).unwrap(),
        error,
    }
}

const REMOVED: &str = "removed: nothing of this installation is left in the cluster";
const NOTHING: &str = "nothing: the cluster contains nothing of this installation";

/// Position of the first change of this text.
#[track_caller]
fn position(cluster: &FakeCluster, change: &str) -> usize {
    let state = cluster.state();
    let found = state.changes.iter().position(|made| made == change);
    found.unwrap_or_else(|| panic!("no {change:?} in {:#?}", state.changes))
}

#[tokio::test(start_paused = true)]
async fn entries_that_fail_closed_are_deleted_first_and_a_second_run_finds_nothing() {
    let cluster = FakeCluster::installed();
    let ran = uninstall(&cluster, &["--yes"]).await;
    ran.assert_end(REMOVED);
    let order = [
        "delete MutatingWebhookConfiguration headroom-pods",
        "patch n1 headroom.sh/mode",
        "delete MutatingWebhookConfiguration headroom-webhook",
        "delete MutatingAdmissionPolicy headroom-floor",
        "delete Deployment headroom-webhook",
        "delete ClusterRole headroom-webhook",
        "delete Namespace headroom-system",
    ];
    let positions = order.map(|change| position(&cluster, change));
    assert!(positions.is_sorted(), "{positions:?}");
    let last_change_of_node = cluster
        .state()
        .changes
        .iter()
        .rposition(|change| change.starts_with("patch"));
    assert!(last_change_of_node > Some(position(&cluster, "delete Deployment headroom-webhook")));
    let left: Vec<String> = cluster.state().objects.keys().cloned().collect();
    assert_eq!(left, [NODE]);
    let node = cluster.state().objects[NODE].clone();
    assert_eq!(node["metadata"]["annotations"], json!({}));
    assert_eq!(node["status"]["allocatable"]["cpu"], "4");

    cluster.state().changes.clear();
    for words in [&["--yes"][..], &["--check"], &[]] {
        uninstall(&cluster, words).await.assert_end(NOTHING);
    }
    assert_eq!(cluster.state().changes, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn without_yes_the_plan_is_printed_and_nothing_changes() {
    let cluster = FakeCluster::installed();
    for words in [&["--check"][..], &[]] {
        let ran = uninstall(&cluster, words).await;
        ran.assert_end("planned: nothing was changed; run `kubectl headroom uninstall --yes`");
        ran.assert_line("   delete MutatingWebhookConfiguration headroom-pods (fails closed: entry)");
        ran.assert_line("   delete MutatingWebhookConfiguration headroom-webhook");
        ran.assert_line("n1: raw, cpu 4000m, memory 8.0GiB");
        ran.assert_line(
            "   remove from n1: headroom.sh/amplified-allocatable, headroom.sh/hint, node.koordinator.sh/raw-allocatable",
        );
        ran.assert_line("stays: folder /var/lib/headroom of each node: the API server cannot delete it");
        let steps: Vec<&str> = ran
            .text
            .lines()
            .filter_map(|line| line.split_once(". "))
            .map(|(at, _)| at)
            .collect();
        assert_eq!(steps, ["1", "2", "3", "4", "5", "6", "7"]);
    }
    assert_eq!(cluster.state().changes, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn dead_replicas_are_replaced_by_the_kubelets() {
    let cluster = FakeCluster::installed();
    cluster.state().has_webhook = false;
    let plan = uninstall(&cluster, &[]).await;
    plan.assert_line(
        "warning: no webhook answers: step 3 comes first, and the kubelets restore raw allocatable",
    );
    let ran = uninstall(&cluster, &["--yes"]).await;
    ran.assert_end(REMOVED);
    let floor = position(&cluster, "delete MutatingAdmissionPolicyBinding headroom-floor");
    let pods = position(&cluster, "delete MutatingWebhookConfiguration headroom-pods");
    let patches = cluster
        .state()
        .changes
        .iter()
        .rposition(|change| change.starts_with("patch"));
    assert!(pods < floor && Some(floor) < patches);
    let node = cluster.state().objects[NODE].clone();
    assert_eq!(node["metadata"]["annotations"], json!({}));
    assert_eq!(node["status"]["allocatable"]["cpu"], "4");
}

#[tokio::test(start_paused = true)]
async fn without_a_webhook_nodes_whose_pods_need_more_than_raw_stop_the_removal() {
    let cluster = FakeCluster::installed();
    cluster.state().has_webhook = false;
    cluster.put(
        "/api/v1/namespaces/shop/pods/large",
        json!({"metadata": {"name": "large", "namespace": "shop"}, "status": {"phase": "Running"},
            "spec": {"nodeName": "n1", "containers": [{"name": "a", "resources": {"requests": {"cpu": "5"}}}]}}),
    );
    let ran = uninstall(&cluster, &["--yes"]).await;
    let error = ran.error.unwrap();
    assert!(
        error.contains("no webhook answers, and some nodes cannot return to raw: n1 (its bound pods need cpu 5000m of 4000m)"),
        "{error}"
    );
    // The floor still protects the pods: mode `off` would release them. No write waits for the webhook.
    let changes = cluster.state().changes.clone();
    assert!(
        changes.iter().all(|change| !change.contains("headroom-floor")),
        "{changes:?}"
    );
    assert!(
        changes.iter().all(|change| !change.starts_with("patch")),
        "{changes:?}"
    );
    assert!(!cluster.state().objects.contains_key(PODS));
    uninstall(&cluster, &["--yes", "--force"])
        .await
        .assert_end(REMOVED);
}

#[tokio::test(start_paused = true)]
async fn kubelets_that_do_not_write_are_named_and_the_next_run_continues() {
    let cluster = FakeCluster::installed();
    {
        let mut state = cluster.state();
        (state.has_webhook, state.has_kubelets) = (false, false);
    }
    let ran = uninstall(&cluster, &["--yes", "--wait-seconds", "20"]).await;
    let error = ran.error.unwrap();
    assert!(
        error.starts_with("the kubelets have not written raw values of n1 yet; "),
        "{error}"
    );
    cluster.state().has_kubelets = true;
    uninstall(&cluster, &["--yes"]).await.assert_end(REMOVED);
}

#[tokio::test(start_paused = true)]
async fn objects_and_namespaces_of_other_users_stay_and_are_listed() {
    let cluster = FakeCluster::installed();
    let foreign = json!({"kind": "MutatingWebhookConfiguration", "metadata": {"name": "headroom-pods", "uid": "x",
        "labels": {"app.kubernetes.io/part-of": "headroom"}}, "webhooks": [entry("Fail", "theirs")]});
    cluster.put(PODS, foreign);
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/headroom-viewer";
    cluster.put(
        role,
        json!({"kind": "ClusterRole", "metadata": {"name": "headroom-viewer", "uid": "y"}}),
    );
    let claim = format!("{SYSTEM}/persistentvolumeclaims/data");
    cluster.put(&claim, json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "headroom-system"}}));
    let config = format!("{SYSTEM}/configmaps/headroom-config-5k2");
    cluster.put(&config, json!({"kind": "ConfigMap", "metadata": {"name": "headroom-config-5k2", "namespace": "headroom-system"}}));
    let ran = uninstall(&cluster, &["--yes"]).await;
    ran.assert_line(
        "stays: MutatingWebhookConfiguration headroom-pods: it calls another Service; see --namespace",
    );
    ran.assert_line(
        "stays: ClusterRole headroom-viewer: it has no label app.kubernetes.io/part-of: headroom",
    );
    ran.assert_line(
        "stays: Namespace headroom-system: it contains objects of other users: PersistentVolumeClaim data",
    );
    assert_eq!(
        ran.error.as_deref(),
        Some("not removed: Namespace headroom-system contains PersistentVolumeClaim data")
    );
    let left: Vec<String> = cluster.state().objects.keys().cloned().collect();
    let mut expected = vec![
        NODE.to_owned(),
        SYSTEM.to_owned(),
        claim,
        PODS.to_owned(),
        role.to_owned(),
    ];
    expected.sort_unstable();
    assert_eq!(left, expected);
}

#[tokio::test(start_paused = true)]
async fn a_configuration_of_another_name_that_calls_our_service_is_ours() {
    let cluster = FakeCluster::installed();
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/team-x";
    let object = json!({"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "team-x", "uid": "z"},
        "webhooks": [entry("Fail", "headroom-system")]});
    cluster.put(path, object);
    uninstall(&cluster, &["--yes"]).await.assert_end(REMOVED);
    assert_eq!(
        cluster.state().changes[..9]
            .iter()
            .filter(|change| change.ends_with(" team-x"))
            .count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn missing_permissions_are_listed_before_any_change() {
    let cluster = FakeCluster::installed();
    let denied = ["delete priorityclasses", "list secrets", "patch nodes"];
    cluster.state().denied.extend(denied.map(str::to_owned));
    for words in [&["--yes"][..], &["--check"]] {
        let ran = uninstall(&cluster, words).await;
        assert_eq!(
            ran.error.as_deref(),
            Some(
                "the user lacks permission to patch nodes, patch nodes/status, list secrets in namespace headroom-system, list \
                 secrets in namespace headroom-agent, delete priorityclasses headroom, delete priorityclasses headroom-agent; \
                 nothing was changed: run it as a cluster administrator"
            )
        );
    }
    assert_eq!(cluster.state().changes, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn tools_that_create_objects_again_are_warned_of() {
    let cluster = FakeCluster::installed();
    let mut object = cluster.state().objects[PODS].clone();
    object["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "Helm".into();
    cluster.put(PODS, object);
    uninstall(&cluster, &[]).await.assert_line(
        "warning: Helm manages MutatingWebhookConfiguration headroom-pods and 0 more objects and creates them again: remove \
         Headroom there first",
    );
}

#[tokio::test(start_paused = true)]
async fn json_has_one_object_per_line_and_the_end_last() {
    let cluster = FakeCluster::installed();
    cluster.put(NODE, node("4", &json!({names::MODE: "off"})));
    let ran = uninstall(&cluster, &["--yes", "-o", "json"]).await;
    assert_eq!(ran.error, None);
    let lines: Vec<Value> = ran
        .text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.last(), Some(&json!({"end": "removed"})));
    let deleted = json!({"object": "MutatingWebhookConfiguration headroom-pods", "fail_entries": ["entry"], "done": true});
    assert!(lines.contains(&deleted), "{lines:#?}");
    assert!(lines.contains(&json!({"node": "n1", "keys": [names::MODE], "done": true})));
}
