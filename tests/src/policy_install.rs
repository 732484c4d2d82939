//! The generated policies on a [`Stand`]: functions that install and remove them, and a marked Node that they
//! protect.

use headroom_domain::{installation::Installation, names};
use headroom_testbed::policies;
use headroom_webhook::install::manifest::policies as generated;
use k8s_openapi::api::{admissionregistration::v1::MutatingAdmissionPolicyBinding, core::v1::Node};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

use crate::stand::{Stand, allocatable, annotation, until};

/// Node whose writes show whether the policies are in force; deleted afterwards.
const PROBE: &str = "probe";

/// A Node that looks as if it was amplified from 4 CPUs and 8Gi to 6 CPUs and 10Gi at noon.
pub async fn marked(stand: &Stand, name: &str) -> Node {
    let node = stand.create_node(name, "4", "8Gi").await;
    let status = json!({"allocatable": {"cpu": "6", "memory": "10Gi"}});
    stand.patch_as_kubelet(name, &status).await.expect("passes");
    stand
        .annotate(name, names::MARKER, &marker(&node.uid().expect("a UID")))
        .await
}

pub fn marker(uid: &str) -> String {
    json!({
        "at": "2026-01-01T12:00:00Z", "cpu": "6", "memory": "10Gi", "uid": uid,
        "from": {"cpu": {"capacity": "4", "raw": "4"}, "memory": {"capacity": "8Gi", "raw": "8Gi"}},
    })
    .to_string()
}

/// Installs the policies and waits until both are in force. No webhook may be registered yet.
pub async fn install(stand: &Stand) {
    policies::install(&stand.client)
        .await
        .expect("install the policies");
    probed(stand, true).await;
}

/// Removes the policies and waits until both are no longer in force. The webhook must not answer.
pub async fn remove(stand: &Stand) {
    let bindings: Api<MutatingAdmissionPolicyBinding> = Api::all(stand.client.clone());
    for bound in generated::all(&Installation::default()) {
        let name = bound.binding.name_any();
        let deleted = bindings.delete(&name, &DeleteParams::default()).await;
        deleted.expect("delete the binding");
    }
    probed(stand, false).await;
}

async fn probed(stand: &Stand, are_in_force: bool) {
    marked(stand, PROBE).await;
    let client = stand.cluster.client_for_node(PROBE).await;
    let kubelet: Api<Node> = Api::all(client.expect("the node's client"));
    let patch = Patch::Merge(json!({
        "metadata": {"annotations": {names::MODE: "off"}},
        "status": {"allocatable": {"cpu": "4"}},
    }));
    let dry_run = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    until("the policies are in force or not", async || {
        let answer = kubelet.patch_status(PROBE, &dry_run, &patch).await;
        let answer = answer.expect("a kubelet's write is never refused");
        let (is_held, is_reverted) = (
            allocatable(&answer, "cpu") == "6",
            annotation(&answer, names::MODE).is_none(),
        );
        is_held == are_in_force && is_reverted == are_in_force
    })
    .await;
    let deleted = stand.nodes().delete(PROBE, &DeleteParams::default()).await;
    deleted.expect("delete the probe");
}
