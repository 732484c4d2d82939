//! Writes the status of a node without a pause for long, and fails at the first write that a webhook did not amplify.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::{sync::watch, time::sleep};

use crate::stand::{allocatable, ready, until};

/// Pause between two writes.
const PAUSE: Duration = Duration::from_millis(10);

/// Writes 4 CPUs for a node with the ratio 1.5 until `stop`; each write is a call of the webhook by the API server of this client.
/// An unanswered call would leave 4. Returns the number of writes.
pub async fn write(nodes: Api<Node>, name: &'static str, stop: watch::Receiver<bool>) -> u32 {
    let mut writes = 0;
    while !*stop.borrow() {
        writes += 1;
        let status = json!({"allocatable": {"cpu": "4"}, "conditions": [ready(writes % 3000)]});
        let patch = Patch::Strategic(json!({"status": status}));
        let node = nodes.patch_status(name, &PatchParams::default(), &patch).await;
        let node = node.expect("a write passes");
        assert_eq!(allocatable(&node, "cpu"), "6", "write {writes} of {name}");
        sleep(PAUSE).await;
    }
    writes
}

/// Waits until the API server of this client calls a webhook that amplifies the node.
pub async fn until_amplified(nodes: &Api<Node>, name: &str) {
    until("the API server calls the webhook", async || {
        let status = json!({"status": {"allocatable": {"cpu": "4"}}});
        let patched = nodes
            .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
            .await;
        allocatable(&patched.expect("a write passes"), "cpu") == "6"
    })
    .await;
}
