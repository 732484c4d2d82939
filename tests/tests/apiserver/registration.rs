//! Every replica reports a changed webhook configuration of a real API server, and names the changed field.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{fs, time::SystemTime};

use e2e::stand::{Stand, count, until};
use headroom_domain::{installation::Installation, names};
use headroom_kit::tls::self_signed;
use headroom_testbed::{
    accounts, policies,
    webhook::{Served, Webhook},
};
use headroom_webhook::{control::floor_check, install::manifest, store::floor::PolicyState};
use k8s_openapi::{
    ByteString,
    api::{admissionregistration::v1::MutatingWebhookConfiguration, coordination::v1::Lease},
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

/// Waits until a replica reports for each endpoint whether it is registered.
async fn wait_until_status(webhook: &Webhook, what: &str, status_is: u64) {
    let series = |endpoint: &str| format!("headroom_webhook_registered{{endpoint=\"{endpoint}\"");
    let (status, node) = (series("mutate-node-status"), series("validate-node"));
    until(what, async || {
        count(webhook, &status).await == status_is && count(webhook, &node).await == 1
    })
    .await;
}

/// CA of another issuer, in base64.
fn foreign_authority() -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    self_signed::ensure(folder.path(), &["a.svc".to_owned()], SystemTime::now()).expect("certificates");
    let ca = fs::read(folder.path().join(self_signed::CA_CERT)).expect("the CA");
    serde_json::to_value(ByteString(ca)).expect("base64")
}

#[tokio::test(flavor = "multi_thread")]
async fn modified_registration_is_reported_by_field() {
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
    for (field, value, finding) in [
        (
            "clientConfig/caBundle",
            foreign_authority(),
            "clientConfig.caBundle does not verify our certificate",
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
        wait_until_status(&webhook, finding, 0).await;
        let log = fs::read_to_string(&log).expect("the log");
        assert!(log.contains(finding), "{finding} is not in {log}");
        // Server-side apply keeps the additions of other clients.
        delete().await;
        stand.register_skipping(&webhook).await;
        wait_until_status(&webhook, "registered again", 1).await;
    }
    delete().await;
    wait_until_status(&webhook, "the configuration is deleted", 0).await;
}

/// A second installation, apart from the first in each of its names.
fn second() -> Installation {
    Installation {
        namespace: "second".parse().expect("a name"),
        agent_namespace: "second-agent".parse().expect("a name"),
        suffix: "-b".parse().expect("a suffix"),
        ..Installation::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_installations_register_side_by_side_and_manage_only_their_own() {
    let stand = Stand::start().await;
    let ours = stand.webhook("webhook-0", "{}").await;
    stand.register(&ours).await;

    let second = second();
    let created = accounts::create_installation(&stand.client, &second).await;
    created.expect("create the accounts");
    let served = Served {
        installation: second.clone(),
        ..Served::default()
    };
    let mut options = stand.options_serving("webhook-1", served).expect("kubeconfig");
    // Its certificate is for other names.
    options.folder = stand.cluster.dir().join("second");
    fs::create_dir_all(&options.folder).expect("a folder");
    let theirs = Webhook::start(&options).await.expect("start the webhook");
    wait_until_status(&ours, "the first is registered", 1).await;
    let unregistered = "there is no entry mnode-status.koordinator.sh in configuration headroom-webhook-b";
    let log = options.folder.join("webhook-1.log");
    until("the second misses its own entries", async || {
        fs::read_to_string(&log).expect("the log").contains(unregistered)
    })
    .await;
    stand.register(&theirs).await;
    wait_until_status(&theirs, "both are registered", 1).await;
    wait_until_status(&ours, "both are registered", 1).await;

    for (namespace, lease) in [
        (names::NAMESPACE, names::LEASE.to_owned()),
        (second.namespace.as_str(), second.lease()),
    ] {
        let leases: Api<Lease> = Api::namespaced(stand.client.clone(), namespace);
        until("each has a leader", async || {
            let found = leases.get_opt(&lease).await.expect("read the lease");
            found.and_then(|lease| lease.spec?.holder_identity).is_some()
        })
        .await;
    }

    for bound in manifest::policies::all(&second) {
        policies::put(&stand.client, &bound)
            .await
            .expect("install a policy");
    }
    for (installation, state) in [
        (&second, PolicyState::InForce),
        (&Installation::default(), PolicyState::Missing),
    ] {
        let found = floor_check::fetch(&stand.client, installation).await;
        assert_eq!(found.expect("policies").floor, state);
    }

    let configurations: Api<MutatingWebhookConfiguration> = Api::all(stand.client.clone());
    let deleted = configurations
        .delete(names::WEBHOOK_CONFIGURATION, &DeleteParams::default())
        .await;
    deleted.expect("delete the configuration");
    wait_until_status(&ours, "the first is no longer called", 0).await;
    wait_until_status(&theirs, "the second is", 1).await;
}
