//! Tests of the generated policies on a real API server: writes by kubelets and other clients while the webhook is
//! down, returns, or answers in addition to the policies.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "tests panic: a returned error has no stack"
)]

use e2e::{
    policy_install::{install, marked, marker},
    stand::{Stand, allocatable, annotation, ready, until},
};
use futures::{StreamExt as _, TryStreamExt as _};
use headroom_domain::names;
use headroom_testbed::{cluster::NodeOptions, webhook::Webhook};
use k8s_openapi::api::{core::v1::Node, rbac::v1::ClusterRoleBinding};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::slo_config::Kubectl;

/// Annotation that a kubelet sends in every write.
const OWN_ANNOTATION: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

async fn kubelet(stand: &Stand, name: &str) -> Api<Node> {
    let client = stand.cluster.client_for_node(name).await;
    Api::all(client.expect("the node's client"))
}

/// Stored result of a write by n1's kubelet.
async fn written(stand: &Stand, status: Value) -> Node {
    stand.patch_as_kubelet("n1", &status).await.expect("passes")
}

/// A status with raw values, `seconds` after noon.
fn raw(seconds: u32) -> Value {
    json!({"allocatable": {"cpu": "4", "memory": "8Gi"}, "conditions": [ready(seconds)]})
}

fn amounts(node: &Node) -> [String; 2] {
    ["cpu", "memory"].map(|resource| allocatable(node, resource))
}

fn heartbeat(node: &Node) -> String {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.and_then(|all| all.iter().find(|condition| condition.type_ == "Ready"));
    let beat = ready.and_then(|ready| ready.last_heartbeat_time.as_ref());
    beat.expect("a heartbeat").0.to_string()
}

/// The floor policy's note, read.
fn note(node: &Node) -> Option<Value> {
    annotation(node, names::KUBELET_RAW).map(|text| serde_json::from_str(text).expect("JSON"))
}

/// A node n1 of 4 CPUs and 8Gi that a webhook has amplified to 6 and 10Gi, 10 s after noon.
async fn amplified(stand: &Stand) -> Webhook {
    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.register(&webhook).await;
    stand.create_node("n1", "4", "8Gi").await;
    stand
        .annotate("n1", names::RATIO, r#"{"cpu":1.5,"memory":1.25}"#)
        .await;
    until("amplified", async || {
        amounts(&written(stand, raw(10)).await) == ["6", "10Gi"]
    })
    .await;
    webhook
}

/// Ends the webhook and waits until the API server answers without it.
async fn killed(stand: &Stand, mut webhook: Webhook) {
    webhook.process.stop().expect("stop the webhook");
    drop(webhook);
    let answer = stand.patch_as_kubelet("n1", &json!({})).await;
    answer.expect("failurePolicy is Ignore");
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_kubelet_writes_change_no_allocatable_while_the_webhook_is_down() {
    let stand = Stand::start().await;
    install(&stand).await;
    let webhook = amplified(&stand).await;
    killed(&stand, webhook).await;

    let stored = stand.nodes().get("n1").await.expect("read the node");
    let version = stored.resource_version();
    for quiet in [raw(20), json!({"conditions": [ready(30)]}), raw(40), raw(299)] {
        let again = written(&stand, quiet).await;
        assert_eq!(amounts(&again), ["6", "10Gi"]);
        assert_eq!(again.resource_version(), version, "{again:#?}");
    }

    // A heartbeat that is due is stored, with a note of the values that it contained.
    let due = written(&stand, raw(300)).await;
    assert_ne!(due.resource_version(), version);
    assert!(heartbeat(&due) > heartbeat(&stored));
    assert_eq!(amounts(&due), ["6", "10Gi"]);
    let expected = json!({"cpu": "4", "memory": "8Gi", "at": heartbeat(&due)});
    assert_eq!(note(&due), Some(expected));
    assert_eq!(
        annotation(&due, names::MARKER),
        annotation(&stored, names::MARKER)
    );
    assert_eq!(
        written(&stand, raw(310)).await.resource_version(),
        due.resource_version()
    );

    // News passes at once; also of an unknown type.
    let mut news = raw(320);
    news["declaredFeatures"] = json!(["Later"]);
    let changed = written(&stand, news).await;
    assert!(heartbeat(&changed) > heartbeat(&due));
    assert_eq!(amounts(&changed), ["6", "10Gi"]);
    // A kubelet whose clock was set back starts again.
    let back = written(&stand, raw(100)).await;
    assert!(heartbeat(&back) < heartbeat(&changed));
    assert_eq!(amounts(&back), ["6", "10Gi"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raw_value_that_changes_meanwhile_passes_and_is_picked_up() {
    let stand = Stand::start().await;
    install(&stand).await;
    let webhook = amplified(&stand).await;
    killed(&stand, webhook).await;

    let less =
        |seconds| json!({"allocatable": {"cpu": "3", "memory": "8Gi"}, "conditions": [ready(seconds)]});
    let fallen = written(&stand, less(20)).await;
    assert_eq!(amounts(&fallen), ["3", "10Gi"]);
    let expected = json!({"memory": "8Gi", "at": heartbeat(&fallen)});
    assert_eq!(note(&fallen), Some(expected));
    let again = written(&stand, less(30)).await;
    assert_eq!(again.resource_version(), fallen.resource_version());
    // The old value again: the policy keeps the stored value and raises nothing.
    assert_eq!(amounts(&written(&stand, raw(40)).await), ["4", "10Gi"]);
    assert_eq!(amounts(&written(&stand, less(50)).await), ["3", "10Gi"]);

    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.register(&webhook).await;
    until("the new raw value is amplified", async || {
        let node = written(&stand, less(60)).await;
        amounts(&node) == ["4500m", "10Gi"]
    })
    .await;
    let node = stand.nodes().get("n1").await.expect("read the node");
    assert_eq!(
        annotation(&node, names::RAW_ALLOCATABLE),
        Some(r#"{"cpu":"3","memory":"8Gi"}"#)
    );
    assert_eq!(note(&node), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn kubelet_values_reach_the_webhook_unchanged() {
    let stand = Stand::start().await;
    install(&stand).await;
    let _webhook = amplified(&stand).await;

    // Two more CPUs, all of them reserved: the floor cannot distinguish this from a raw value of 6.
    let mut status = raw(20);
    status["capacity"] = json!({"cpu": "6"});
    let reserved = written(&stand, status).await;
    assert_eq!(amounts(&reserved), ["6", "10Gi"]);
    assert_eq!(
        annotation(&reserved, names::RAW_ALLOCATABLE),
        Some(r#"{"cpu":"4","memory":"8Gi"}"#)
    );

    // Two more that pods may have. The kubelet finds its 6 on the Node already and leaves them out.
    let status = json!({"capacity": {"cpu": "8"}, "conditions": [ready(30)]});
    let grown = written(&stand, status).await;
    assert_eq!(amounts(&grown), ["9", "10Gi"]);
    assert_eq!(note(&grown), None);

    // With mode `off` the node gets its kubelet's values back, and the floor no longer holds it.
    stand.annotate("n1", names::MODE, "off").await;
    let off = json!({"allocatable": {"cpu": "6"}, "conditions": [ready(40)]});
    let off = written(&stand, off).await;
    assert_eq!(amounts(&off), ["6", "8Gi"]);
    assert_eq!((annotation(&off, names::MARKER), note(&off)), (None, None));
}

/// The emergency command of docs/patterns.md, with all replicas dead.
#[tokio::test(flavor = "multi_thread")]
async fn mode_off_restores_raw_values_while_no_webhook_answers() {
    let stand = Stand::start().await;
    install(&stand).await;
    headroom_testbed::policies::put_checks(&stand.client)
        .await
        .expect("install the checks");
    let webhook = amplified(&stand).await;
    killed(&stand, webhook).await;
    assert_eq!(amounts(&written(&stand, raw(20)).await), ["6", "10Gi"]);

    let command = [
        "annotate",
        "nodes",
        "--all",
        "--overwrite",
        "headroom.sh/mode=off",
    ];
    let annotated = Kubectl::new(&stand).run(&command, "");
    assert!(annotated.status.success(), "{annotated:?}");
    let off = written(&stand, raw(30)).await;
    assert_eq!(
        (amounts(&off), note(&off)),
        (["4".to_owned(), "8Gi".to_owned()], None)
    );

    // A webhook that returns has nothing to restore and removes its records.
    let webhook = stand.webhook("webhook-1", "{}").await;
    stand.register(&webhook).await;
    let is_clean = |node: &Node| annotation(node, names::MARKER).is_none();
    stand.node_until("n1", "without a marker", is_clean).await;
    assert_eq!(amounts(&written(&stand, raw(40)).await), ["4", "8Gi"]);
}

/// The marker of a node that is off has the value that its pods need. An outage does not take that from them.
#[tokio::test(flavor = "multi_thread")]
async fn values_that_pods_need_are_held_in_mode_off_too() {
    let stand = Stand::start().await;
    install(&stand).await;
    let node = marked(&stand, "n1").await;
    let uid = node.uid().expect("a UID");
    let marker = json!({
        "at": "2026-01-01T12:00:00Z", "cpu": "6", "memory": "10Gi", "uid": uid,
        "from": {
            "cpu": {"capacity": "4", "places": {"daemonSets": 500}, "product": "4", "raw": "4"},
            "memory": {"capacity": "8Gi", "raw": "8Gi"},
        },
    });
    stand.annotate("n1", names::MARKER, &marker.to_string()).await;
    assert_eq!(amounts(&written(&stand, raw(10)).await), ["6", "10Gi"]);
    stand.annotate("n1", names::MODE, "off").await;
    let off = written(&stand, raw(20)).await;
    assert_eq!(amounts(&off), ["6", "8Gi"]);
    let expected = json!({"cpu": "4", "at": heartbeat(&off)});
    assert_eq!(note(&off), Some(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn note_of_an_earlier_request_is_not_trusted() {
    let stand = Stand::start().await;
    install(&stand).await;
    let _webhook = amplified(&stand).await;

    let before = written(&stand, raw(20)).await;
    let stale = json!({"cpu": "1", "memory": "1Gi", "at": heartbeat(&before)}).to_string();
    // With the heartbeat of the note, and with a later one; quiet and not.
    for status in [
        json!({}),
        json!({"phase": "Running"}),
        json!({"allocatable": {"cpu": "4", "memory": "8Gi"}}),
        raw(30),
        raw(400),
    ] {
        let kubelet = stand.cluster.client_for_node("n1").await;
        let nodes: Api<Node> = Api::all(kubelet.expect("the node's client"));
        let metadata = json!({"annotations": {names::KUBELET_RAW: stale}});
        let patch = Patch::Strategic(json!({"metadata": metadata, "status": status}));
        let node = nodes.patch_status("n1", &PatchParams::default(), &patch).await;
        let node = node.expect("a kubelet's write passes");
        assert_eq!(amounts(&node), ["6", "10Gi"], "{status}");
        assert_eq!(note(&node), None, "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn floor_releases_nodes_one_hour_after_the_webhook_stops() {
    let stand = Stand::start().await;
    install(&stand).await;
    let webhook = amplified(&stand).await;
    let at = |node: &Node| {
        let marker = annotation(node, names::MARKER).expect("a marker");
        let marker: Value = serde_json::from_str(marker).expect("JSON");
        marker["at"].as_str().expect("a time").to_owned()
    };
    let status = |time: &str| {
        let mut status = raw(0);
        status["conditions"][0]["lastHeartbeatTime"] = time.into();
        status
    };
    // While the webhook answers it renews the marker with each heartbeat that is due.
    until("renewed", async || {
        at(&written(&stand, status("2026-01-01T12:10:00Z")).await) == "2026-01-01T12:10:00Z"
    })
    .await;
    killed(&stand, webhook).await;

    for (time, amounts_then, is_held) in [
        ("2026-01-01T12:20:00Z", ["6", "10Gi"], true),
        ("2026-01-01T13:09:59Z", ["6", "10Gi"], true),
        ("2026-01-01T13:10:00Z", ["4", "8Gi"], false),
        ("2026-01-01T13:10:10Z", ["4", "8Gi"], false),
        // A clock that is set back within the hour: the stored value, which is raw, is held. Then one that is set
        // back further.
        ("2026-01-01T11:10:01Z", ["4", "8Gi"], true),
        ("2026-01-01T11:10:00Z", ["4", "8Gi"], false),
    ] {
        let node = written(&stand, status(time)).await;
        assert_eq!(amounts(&node), amounts_then, "{time}");
        assert_eq!(at(&node), "2026-01-01T12:10:00Z");
        assert_eq!(note(&node).is_some(), is_held, "{time}");
    }

    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.register(&webhook).await;
    until("amplified again", async || {
        amounts(&written(&stand, status("2026-01-01T14:00:00Z")).await) == ["6", "10Gi"]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unmanaged_nodes_and_other_writers_are_unaffected() {
    let stand = Stand::start().await;
    stand.create_node("plain", "4", "8Gi").await;
    let reborn = marked(&stand, "reborn").await;
    stand
        .annotate("reborn", names::MARKER, &marker("of another life"))
        .await;
    marked(&stand, "n1").await;
    install(&stand).await;

    // Without our marker, or with the marker of a deleted Node of the same name: stored as sent, heartbeats included.
    for name in ["plain", "reborn"] {
        let mut last = None;
        for seconds in [10, 20] {
            let node = stand.patch_as_kubelet(name, &raw(seconds)).await.expect("passes");
            assert_eq!(amounts(&node), ["4", "8Gi"], "{name}");
            assert_eq!(note(&node), None, "{name}");
            assert_ne!(last, node.resource_version(), "{name}");
            last = node.resource_version();
        }
    }
    assert_eq!(amounts(&reborn), ["6", "10Gi"]);

    // A write by any client except the kubelet stays: the floor holds at most the stored value.
    let patch = Patch::Strategic(json!({"status": raw(30)}));
    let patched = stand
        .nodes()
        .patch_status("n1", &PatchParams::default(), &patch)
        .await;
    assert_eq!(amounts(&patched.expect("passes")), ["4", "8Gi"]);
    assert_eq!(amounts(&written(&stand, raw(40)).await), ["4", "8Gi"]);
    let back = Patch::Merge(json!({"status": {"allocatable": {"cpu": "6", "memory": "10Gi"}}}));
    let patched = stand
        .nodes()
        .patch_status("n1", &PatchParams::default(), &back)
        .await;
    assert_eq!(amounts(&patched.expect("passes")), ["6", "10Gi"]);
    assert_eq!(amounts(&written(&stand, raw(50)).await), ["6", "10Gi"]);
    // A kubelet cannot remove the annotations that hold its node.
    let bare =
        Patch::Merge(json!({"metadata": {"annotations": null}, "status": {"allocatable": {"cpu": "4"}}}));
    let patched = kubelet(&stand, "n1").await;
    let patched = patched.patch_status("n1", &PatchParams::default(), &bare).await;
    let patched = patched.expect("passes");
    assert_eq!(amounts(&patched), ["6", "10Gi"]);
    assert!(annotation(&patched, names::MARKER).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn kubelet_writes_to_our_annotations_are_reverted_and_never_refused() {
    let stand = Stand::start().await;
    marked(&stand, "n1").await;
    let before = stand.annotate("n1", names::RATIO, r#"{"cpu":1.5}"#).await;
    install(&stand).await;
    let kubelet = kubelet(&stand, "n1").await;

    let forged = json!({"metadata": {"annotations": {
        names::RATIO: r#"{"cpu":9}"#, names::RAW_ALLOCATABLE: r#"{"cpu":"400"}"#, names::MARKER: null,
        names::MODE: "off", "headroom.sh/later": "x", "headroom.sh.example.com/other": "kept", OWN_ANNOTATION: "true",
    }}});
    let bare = json!({"metadata": {"annotations": null}});
    let params = PatchParams::default();
    for patch in [&forged, &bare] {
        let patch = Patch::Merge(patch);
        for (door, answer) in [
            ("nodes", kubelet.patch("n1", &params, &patch).await),
            ("nodes/status", kubelet.patch_status("n1", &params, &patch).await),
        ] {
            let after = answer.unwrap_or_else(|error| panic!("{door}: {error}"));
            for key in [
                names::RATIO,
                names::MARKER,
                names::RAW_ALLOCATABLE,
                names::MODE,
                "headroom.sh/later",
            ] {
                assert_eq!(annotation(&after, key), annotation(&before, key), "{door}: {key}");
            }
            let is_forged = matches!(&patch, Patch::Merge(patch) if **patch == forged);
            for key in ["headroom.sh.example.com/other", OWN_ANNOTATION] {
                assert_eq!(annotation(&after, key).is_some(), is_forged, "{door}: {key}");
            }
        }
    }

    // A number for which one operation each would exceed the budget.
    let thousands = (0..17_000).map(|number| (format!("headroom.sh/{number}"), json!("")));
    let mut thousands: serde_json::Map<_, _> = thousands.collect();
    thousands.insert(names::RATIO.to_owned(), json!(r#"{"cpu":9}"#));
    let many = Patch::Merge(json!({"metadata": {"annotations": thousands}}));
    let after = kubelet.patch_status("n1", &params, &many).await.expect("passes");
    assert_eq!(
        annotation(&after, names::RATIO),
        annotation(&before, names::RATIO)
    );
    assert_eq!(annotation(&after, "headroom.sh/0"), None);

    // Annotations of ours in a kubelet's registration are dropped; other clients may write them.
    let own = self::kubelet(&stand, "n2").await;
    let node = serde_json::from_value(json!({"metadata": {"name": "n2", "annotations": {
        names::RATIO: r#"{"cpu":9}"#, OWN_ANNOTATION: "true",
    }}}));
    let node = own.create(&PostParams::default(), &node.expect("a Node")).await;
    let node = node.expect("a kubelet may register");
    assert_eq!(annotation(&node, names::RATIO), None);
    assert_eq!(annotation(&node, OWN_ANNOTATION), Some("true"));
    let node = stand.annotate("n2", names::RATIO, r#"{"cpu":2}"#).await;
    assert_eq!(annotation(&node, names::RATIO), Some(r#"{"cpu":2}"#));
}

/// All versions of n1 after one and up to another, which is sent later.
async fn versions(nodes: Api<Node>, after: String, mut last_rx: oneshot::Receiver<String>) -> Vec<Node> {
    let params = WatchParams::default().fields("metadata.name=n1").timeout(290);
    let events = nodes.watch(&params, &after).await.expect("watch");
    let mut events = events.boxed();
    let mut seen: Vec<Node> = Vec::new();
    let mut last = None;
    while last.is_none() || seen.last().and_then(kube::ResourceExt::resource_version) != last {
        tokio::select! {
            version = &mut last_rx, if last.is_none() => last = Some(version.expect("the last version")),
            event = events.try_next() => {
                let Some(WatchEvent::Modified(node)) = event.expect("an event") else {
                    panic!("something else than a write");
                };
                seen.push(node);
            }
        }
    }
    seen
}

/// Full and partial writes of the kubelet, quiet, due and with news, while the ratio changes under them.
async fn a_round_of_writes(stand: &Stand, seconds: &mut u32) {
    let kinds: [fn(Value) -> Value; 3] = [
        |ready| json!({"conditions": [ready], "allocatable": {"cpu": "4"}}),
        |ready| json!({"conditions": [ready]}),
        |ready| json!({"conditions": [ready], "phase": "Running"}),
    ];
    for ratio in ["2", "1.5"] {
        let ratio = format!(r#"{{"cpu":{ratio},"memory":1.25}}"#);
        stand.annotate("n1", names::RATIO, &ratio).await;
        for status in kinds {
            for apart in [10, 300] {
                *seconds += apart;
                written(stand, status(ready(*seconds % 3600))).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_revision_of_a_node_is_amplified_twice() {
    let stand = Stand::start().await;
    install(&stand).await;
    let webhook = amplified(&stand).await;
    let start = stand.nodes().get("n1").await.expect("read the node");
    let start = start.resource_version().expect("a version");
    let (last_tx, last_rx) = oneshot::channel();
    let watch = tokio::spawn(versions(stand.nodes(), start, last_rx));

    let mut seconds = 20;
    a_round_of_writes(&stand, &mut seconds).await;
    killed(&stand, webhook).await;
    a_round_of_writes(&stand, &mut seconds).await;
    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.register(&webhook).await;
    a_round_of_writes(&stand, &mut seconds).await;

    let last = stand.annotate("n1", "last", "one").await;
    let last = last.resource_version().expect("a version");
    last_tx.send(last).expect("the watch task runs");
    let seen = watch.await.expect("join");
    assert!(seen.len() > 20, "{} revisions", seen.len());
    for wanted in [["6", "10Gi"], ["8", "10Gi"]] {
        assert!(
            seen.iter().any(|node| amounts(node) == wanted),
            "never {wanted:?}"
        );
    }
    for node in &seen {
        assert!(
            amounts(node) == ["6", "10Gi"] || amounts(node) == ["8", "10Gi"],
            "{node:#?}"
        );
    }
}

/// Number of node status PATCHes that the API server has answered with 200.
async fn patches(stand: &Stand) -> f64 {
    let labels = [
        r#"code="200""#,
        r#"resource="nodes""#,
        r#"subresource="status""#,
        r#"verb="PATCH""#,
    ];
    stand.metrics().await.sum("apiserver_request_total", &labels)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_kubelet_that_restarts_meanwhile_finds_its_node_amplified() {
    let mut stand = Stand::start().await;
    install(&stand).await;
    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.register(&webhook).await;
    let options = NodeOptions {
        cpus: 4,
        memory_bytes: 8 << 30,
        ..NodeOptions::new("n1")
    };
    stand.cluster.start_node(options).await.expect("node");
    stand.annotate("n1", names::RATIO, r#"{"cpu":1.5}"#).await;
    stand
        .node_until("n1", "amplified to 6", |node| allocatable(node, "cpu") == "6")
        .await;
    killed(&stand, webhook).await;

    let tried = async |stand: &Stand, more: f64| {
        let before = patches(stand).await;
        until("the kubelet has written that often", async || {
            patches(stand).await >= before + more
        })
        .await;
        stand.nodes().get("n1").await.expect("read the node")
    };
    // A kubelet sends its changes after its start; then no further write is stored.
    let before = tried(&stand, 3.0).await;
    let after = tried(&stand, 3.0).await;
    assert_eq!(after.resource_version(), before.resource_version(), "{after:#?}");

    let start = after.resource_version().expect("a version");
    let (last_tx, last_rx) = oneshot::channel();
    let watch = tokio::spawn(versions(stand.nodes(), start, last_rx));
    stand.cluster.restart_node("n1").expect("restart the kubelet");
    tried(&stand, 3.0).await;
    let last = stand.annotate("n1", "last", "one").await;
    last_tx
        .send(last.resource_version().expect("a version"))
        .expect("the watch task runs");
    for node in watch.await.expect("join") {
        assert_eq!(allocatable(&node, "cpu"), "6", "{node:#?}");
    }
}

/// Nodes as kubelets that share the user `system:node` see them.
async fn shared_kubelet(stand: &Stand) -> Api<Node> {
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "shared-kubelets"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": names::NODES_GROUP}],
    }))
    .expect("a binding");
    Api::<ClusterRoleBinding>::all(stand.client.clone())
        .create(&PostParams::default(), &binding)
        .await
        .expect("bind the role");
    let client = stand
        .cluster
        .client_for("system:node", Some(names::NODES_GROUP))
        .await;
    let nodes = Api::all(client.expect("the kubelets' client"));
    until("the role is in force", async || {
        shared_write(&nodes, &json!({"status": {}})).await.is_ok()
    })
    .await;
    nodes
}

async fn shared_write(nodes: &Api<Node>, node: &Value) -> kube::Result<Node> {
    nodes
        .patch_status("n1", &PatchParams::default(), &Patch::Strategic(node.clone()))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_treat_kubelets_with_one_user_as_kubelets_of_the_nodes_they_write() {
    let stand = Stand::start().await;
    install(&stand).await;
    let webhook = amplified(&stand).await;
    let nodes = shared_kubelet(&stand).await;
    // The machine grows from 4 to 6 CPUs, the stored value: a kubelet sends no difference in allocatable.
    let grown = json!({"status": {"capacity": {"cpu": "6"}, "conditions": [ready(15)]}});
    let grown = shared_write(&nodes, &grown).await.expect("passes");
    assert_eq!(amounts(&grown), ["9", "10Gi"]);
    killed(&stand, webhook).await;

    let raw = json!({
        "metadata": {"annotations": {names::RATIO: "{}", names::MODE: "off"}},
        "status": {"allocatable": {"cpu": "6", "memory": "8Gi"}, "conditions": [ready(400)]},
    });
    let stored = shared_write(&nodes, &raw).await.expect("passes");
    assert_eq!(amounts(&stored), ["9", "10Gi"], "the floor holds");
    assert_eq!(
        annotation(&stored, names::RATIO),
        annotation(&grown, names::RATIO)
    );
    assert_eq!(annotation(&stored, names::MODE), None);
    // The checks would refuse this write if the other policy did not restore it.
    let patch = Patch::Merge(json!({"metadata": {"annotations": {names::MODE: "off"}}}));
    let written = nodes
        .patch("n1", &PatchParams::default(), &patch)
        .await
        .expect("passes");
    assert_eq!(annotation(&written, names::MODE), None);
}
