//! Somebody changes the webhook configurations of a real API server: every replica says so.

use e2e::stand::{Stand, count, until};
use headroom_domain::names;
use headroom_testbed::webhook::Webhook;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

/// Waits until a replica says of each endpoint whether it is registered.
async fn says(webhook: &Webhook, what: &str, status_is: u64) {
    let series = |endpoint: &str| format!("headroom_webhook_registered{{endpoint=\"{endpoint}\"");
    let (status, node) = (series("mutate-node-status"), series("validate-node"));
    until(what, async || {
        count(webhook, &status).await == status_is && count(webhook, &node).await == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_says_when_it_is_no_longer_called_as_declared() {
    let stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.register_skipping(&webhook).await;
    says(&webhook, "registered", 1).await;

    let configurations: Api<MutatingWebhookConfiguration> = Api::all(stand.client.clone());
    let change = async |operations: Value| {
        let patch: Patch<MutatingWebhookConfiguration> =
            Patch::Json(serde_json::from_value(operations).expect("a JSON patch"));
        let patched = configurations
            .patch(names::WEBHOOK_CONFIGURATION, &PatchParams::default(), &patch)
            .await;
        patched.expect("patch the configuration");
    };
    for (what, operations) in [
        (
            "the authority is wiped",
            json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]),
        ),
        (
            "a condition that never holds",
            json!([{"op": "replace", "path": "/webhooks/0/matchConditions/0/expression", "value": "false"}]),
        ),
    ] {
        change(operations).await;
        says(&webhook, what, 0).await;
        stand.register_skipping(&webhook).await;
        says(&webhook, "registered again", 1).await;
    }
    let deleted = configurations
        .delete(names::WEBHOOK_CONFIGURATION, &DeleteParams::default())
        .await;
    deleted.expect("delete the configuration");
    says(&webhook, "the configuration is deleted", 0).await;
}
