//! Tests of the webhook on a real API server: a kubelet's status write that only renews heartbeats of an amplified node
//! changes nothing until one is due.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use e2e::stand::{Stand, allocatable, count, ready, until};
use headroom_testbed::{cluster::NodeOptions, webhook::Webhook};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

/// Heartbeats that were kept from being written.
const QUIETED: &str = r#"headroom_webhook_heartbeats_total{result="quieted""#;
const MIB: u64 = 1 << 20;

fn heartbeat(node: &Node) -> String {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.and_then(|all| all.iter().find(|condition| condition.type_ == "Ready"));
    let beat = ready.and_then(|ready| ready.last_heartbeat_time.as_ref());
    beat.expect("a heartbeat").0.to_string()
}

/// Stored result of a kubelet's write.
async fn written(stand: &Stand, status: Value) -> Node {
    stand.patch_as_kubelet("n1", &status).await.expect("passes")
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeat_only_write_is_dropped_until_it_is_due() {
    let stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.register(&webhook).await;
    stand.create_node("n1", "4", "8Gi").await;
    stand.set_ratio("n1", 150).await;
    let raw = |seconds| json!({"allocatable": {"cpu": "4"}, "conditions": [ready(seconds)]});
    until("amplified", async || {
        allocatable(&written(&stand, raw(10)).await, "cpu") == "6"
    })
    .await;

    // News passes at once, and the heartbeat with it.
    let news = |seconds, feature| json!({"allocatable": {"cpu": "4"}, "conditions": [ready(seconds)], "declaredFeatures": [feature]});
    let mut stored = written(&stand, news(20, "A")).await;
    for (from, feature) in [(20, "B"), (330, "C")] {
        let version = stored.resource_version();
        for quiet in [
            raw(from + 10),
            json!({"conditions": [ready(from + 20)]}),
            raw(from + 299),
        ] {
            let again = written(&stand, quiet).await;
            assert_eq!(again.resource_version(), version, "{again:#?}");
            assert_eq!(heartbeat(&again), heartbeat(&stored));
        }
        let changed = written(&stand, news(from + 310, feature)).await;
        assert_ne!(changed.resource_version(), version);
        assert!(heartbeat(&changed) > heartbeat(&stored));
        assert_eq!(allocatable(&changed, "cpu"), "6");
        stored = changed;
    }

    // So does a heartbeat when the stored one is as old as the interval.
    let due = written(&stand, raw(640 + 300)).await;
    assert_ne!(due.resource_version(), stored.resource_version());
    assert!(heartbeat(&due) > heartbeat(&stored));

    // A node without amplification is left to its kubelet.
    stand.create_node("n2", "4", "8Gi").await;
    let own = json!({"conditions": [ready(10)]});
    let first = stand.patch_as_kubelet("n2", &own).await.expect("passes");
    let own = json!({"conditions": [ready(20)]});
    let second = stand.patch_as_kubelet("n2", &own).await.expect("passes");
    assert_ne!(first.resource_version(), second.resource_version());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_kubelet_writes_no_more_of_an_amplified_node_than_of_any_other() {
    let mut stand = Stand::start().await;
    let nodes: Api<Node> = Api::all(stand.client.clone());
    let quiet = stand.webhook("webhook-0", "{}").await;
    stand.register(&quiet).await;
    for name in ["amplified", "plain"] {
        let options = NodeOptions {
            cpus: 4,
            memory_bytes: 8192 * MIB,
            ..NodeOptions::new(name)
        };
        stand.cluster.start_node(options).await.expect("node");
    }
    until("amplified", async || {
        stand.set_ratio("amplified", 150).await;
        allocatable(&nodes.get("amplified").await.expect("read the node"), "cpu") == "6"
    })
    .await;

    let seen = async |webhook: &Webhook, more: u64| {
        let before = count(webhook, QUIETED).await;
        until("the kubelet has tried that often", async || {
            count(webhook, QUIETED).await >= before + more
        })
        .await;
    };
    let version = async |name| {
        let node = nodes.get(name).await.expect("read the node");
        node.resource_version().expect("a version")
    };
    // Two heartbeats in a row without changes: the kubelet has sent all changes of its start.
    seen(&quiet, 2).await;
    let before = (version("amplified").await, version("plain").await);
    seen(&quiet, 4).await;
    assert_eq!((version("amplified").await, version("plain").await), before);

    // The same kubelet, not quieted, writes at every sync.
    let loud = stand
        .webhook_with("webhook-1", "{}", &["--heartbeat-interval-seconds", "0"])
        .await;
    stand.register(&loud).await;
    let mut last = version("amplified").await;
    let mut writes = 0;
    until("three more writes", async || {
        let now = version("amplified").await;
        if now != last {
            (writes, last) = (writes + 1, now);
        }
        writes >= 3
    })
    .await;
    assert_eq!(count(&loud, QUIETED).await, 0);
}
