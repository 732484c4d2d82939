//! Every replica reports a changed webhook configuration of a real API server, and names the changed field.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{fs, time::SystemTime};

use e2e::stand::{Stand, count, until};
use headroom_domain::names;
use headroom_kit::tls::self_signed;
use headroom_testbed::webhook::Webhook;
use k8s_openapi::{ByteString, api::admissionregistration::v1::MutatingWebhookConfiguration};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

/// Waits until a replica says of each endpoint whether it is registered.
async fn wait_until_status(webhook: &Webhook, what: &str, status_is: u64) {
    let series = |endpoint: &str| format!("headroom_webhook_registered{{endpoint=\"{endpoint}\"");
    let (status, node) = (series("mutate-node-status"), series("validate-node"));
    until(what, async || {
        count(webhook, &status).await == status_is && count(webhook, &node).await == 1
    })
    .await;
}

/// The CA of somebody else, in base64.
fn foreign_authority() -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    self_signed::ensure(folder.path(), &["a.svc".to_owned()], SystemTime::now()).expect("certificates");
    let ca = fs::read(folder.path().join(self_signed::CA_CERT)).expect("the CA");
    serde_json::to_value(ByteString(ca)).expect("base64")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_says_by_which_field_it_is_no_longer_called_as_generated() {
    let stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.register_skipping(&webhook).await;
    wait_until_status(&webhook, "registered", 1).await;

    let configurations: Api<MutatingWebhookConfiguration> = Api::all(stand.client.clone());
    let change = async |field: &str, value: Value| {
        let path = format!("/webhooks/0/{field}");
        let operations = json!([{"op": "replace", "path": path, "value": value}]);
        let patch: Patch<MutatingWebhookConfiguration> =
            Patch::Json(serde_json::from_value(operations).expect("a JSON patch"));
        let patched = configurations
            .patch(names::WEBHOOK_CONFIGURATION, &PatchParams::default(), &patch)
            .await;
        patched.expect("patch the configuration");
    };
    let delete = async || {
        let deleted = configurations
            .delete(names::WEBHOOK_CONFIGURATION, &DeleteParams::default())
            .await;
        deleted.expect("delete the configuration");
    };
    let log = stand.cluster.dir().join("webhook-0.log");
    for (field, value, told) in [
        (
            "clientConfig/caBundle",
            foreign_authority(),
            "clientConfig.caBundle is not that of our certificate",
        ),
        ("timeoutSeconds", json!(30), "timeoutSeconds is 30, must be 1"),
        (
            "rules/0/operations",
            json!(["CREATE"]),
            "rules[0].operations[1] is absent, must be ",
        ),
        (
            "matchConditions/0/expression",
            json!("false"),
            "matchConditions[0].expression is ",
        ),
    ] {
        change(field, value).await;
        wait_until_status(&webhook, told, 0).await;
        let log = fs::read_to_string(&log).expect("the log");
        assert!(log.contains(told), "{told} is not in {log}");
        // Server-side apply leaves what others added.
        delete().await;
        stand.register_skipping(&webhook).await;
        wait_until_status(&webhook, "registered again", 1).await;
    }
    delete().await;
    wait_until_status(&webhook, "the configuration is deleted", 0).await;
}
