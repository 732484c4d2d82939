//! Events about a Node on a real API server: a brake, its release and a mode, as `kubectl describe node` shows them, with
//! the rights that the manifests give.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use e2e::{
    scripted_agent::hint,
    stand::{AUTO, Stand, allocatable, count, ready, until},
};
use headroom_domain::{
    hint::{Brake, NodeHint},
    names,
};
use headroom_testbed::webhook::Webhook;
use k8s_openapi::api::core::v1::Event;
use kube::{Api, ResourceExt as _, api::ListParams};
use serde_json::json;

use crate::slo_config::Kubectl;

/// The Events that `kubectl describe node n1` asks for: those with the name as UID.
async fn described(stand: &Stand) -> Vec<Event> {
    let events: Api<Event> = Api::all(stand.client.clone());
    let of_node = "involvedObject.kind=Node,involvedObject.name=n1,involvedObject.uid=n1";
    let found = events.list(&ListParams::default().fields(of_node)).await;
    found.expect("a list of Events").items
}

/// Waits for an Event of this reason; its type and note.
async fn event_of(stand: &Stand, reason: &str) -> (String, String) {
    let is_it = |event: &&Event| event.reason.as_deref() == Some(reason);
    until(reason, async || {
        described(stand).await.iter().any(|event| is_it(&event))
    })
    .await;
    let found = described(stand).await;
    let of_reason: Vec<_> = found.iter().filter(is_it).collect();
    assert_eq!(of_reason.len(), 1, "{of_reason:?}");
    let event = of_reason.first().expect("the Event");
    assert_eq!(event.namespace().as_deref(), Some("default"));
    (
        event.type_.clone().expect("a type"),
        event.message.clone().expect("a note"),
    )
}

async fn published(webhook: &Webhook, result: &str) -> u64 {
    let mut sum = 0;
    for reason in ["Braked", "BrakeReleased", "ModeChanged"] {
        let series = format!("headroom_webhook_events_total{{reason=\"{reason}\",result=\"{result}\"");
        sum += count(webhook, &series).await;
    }
    sum
}

#[tokio::test(flavor = "multi_thread")]
async fn a_brake_its_release_and_a_mode_are_events_of_the_node_by_one_replica() {
    let stand = Stand::start().await;
    let first = stand.webhook("webhook-0", AUTO).await;
    let second = stand.webhook("webhook-1", AUTO).await;
    stand.register(&first).await;
    let node = stand.create_node("n1", "4", "8Gi").await;
    let mut agent = stand.agent(&node, &first).await;
    let uid = node.uid().expect("a UID");
    agent.report(&hint("n1", &uid, 1, 105)).await.expect("an answer");
    stand
        .node_until("n1", "risen to 1.05", |node| allocatable(node, "cpu") == "4200m")
        .await;
    assert!(described(&stand).await.is_empty());

    let mut braked: NodeHint = hint("n1", &uid, 2, 100);
    braked.resources.cpu.brake = Brake::Stop;
    agent.report(&braked).await.expect("an answer");
    let (kind, note) = event_of(&stand, "Braked").await;
    assert_eq!(
        (kind.as_str(), note.as_str()),
        ("Warning", "cpu is not amplified")
    );

    agent.report(&hint("n1", &uid, 3, 100)).await.expect("an answer");
    let status = json!({"allocatable": {"cpu": "4"}, "conditions": [ready(7)]});
    stand
        .patch_as_kubelet("n1", &status)
        .await
        .expect("a write passes");
    let (kind, note) = event_of(&stand, "BrakeReleased").await;
    assert_eq!(
        (kind.as_str(), note.as_str()),
        ("Normal", "no brake limits its allocatable any more")
    );

    stand.annotate("n1", names::MODE, "static").await;
    let (kind, note) = event_of(&stand, "ModeChanged").await;
    assert_eq!(
        (kind.as_str(), note.as_str()),
        ("Normal", "mode static by annotation headroom.sh/mode, was auto")
    );

    let output = Kubectl::new(&stand).run(&["describe", "node", "n1"], "");
    let page = String::from_utf8_lossy(&output.stdout);
    let (_, events) = page.split_once("\nEvents:").expect("a section of Events");
    for reason in ["Braked", "BrakeReleased", "ModeChanged"] {
        let rows = events
            .lines()
            .filter(|line| line.split_whitespace().nth(1) == Some(reason));
        assert_eq!(rows.count(), 1, "{page}");
    }
    let created = published(&first, "created").await + published(&second, "created").await;
    assert_eq!((created, described(&stand).await.len()), (3, 3));
    for webhook in [&first, &second] {
        assert_eq!(published(webhook, "failed").await, 0);
    }
}
