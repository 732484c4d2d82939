//! Tests of managed certificates: Secret, CA bundle and rotation with real replicas, agents and API server.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use e2e::stand::{Stand, allocatable, count, until};
use headroom_domain::names;
use headroom_testbed::{
    accounts,
    agent::{Agent, AgentOptions},
    policies,
    programs::get,
    webhook::{Webhook, register_without_bundle},
};
use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::{ConfigMap, Secret},
        events::v1::Event,
    },
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// Flags that shorten the waits of a rotation.
const FAST: [&str; 3] = ["--allow-demo-timing", "--rotation-wait-seconds", "2"];
/// Time within which the leader restores a bundle: its watch delivers the change at once.
const RESTORED_WITHIN: Duration = Duration::from_secs(5);

/// A stand with an empty ConfigMap of the agents and the policies for the webhook's own writes.
async fn installed() -> Stand {
    let stand = Stand::start().await;
    let config_map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": names::AUTHORITIES_CONFIG_MAP}}))
            .expect("a ConfigMap");
    config_maps(&stand)
        .create(&PostParams::default(), &config_map)
        .await
        .expect("the ConfigMap");
    policies::put_own_writes(&stand.client).await.expect("policies");
    stand
}

fn secrets(stand: &Stand) -> Api<Secret> {
    Api::namespaced(stand.client.clone(), names::NAMESPACE)
}

fn config_maps(stand: &Stand) -> Api<ConfigMap> {
    Api::namespaced(stand.client.clone(), names::AGENT_NAMESPACE)
}

fn mutating(stand: &Stand) -> Api<MutatingWebhookConfiguration> {
    Api::all(stand.client.clone())
}

async fn managed(stand: &Stand, name: &str) -> Webhook {
    let options = stand.webhook_options(name, "{}").managed().flags(FAST);
    Webhook::start(&options).await.expect("start the webhook")
}

async fn secret(stand: &Stand) -> Secret {
    secrets(stand)
        .get(names::CERTIFICATES_SECRET)
        .await
        .expect("the Secret")
}

fn data(secret: &Secret, key: &str) -> String {
    let ByteString(bytes) = secret.data.as_ref().expect("data")[key].clone();
    String::from_utf8(bytes).expect("text")
}

fn state(secret: &Secret) -> String {
    secret.annotations()["headroom.sh/rotation-state"].clone()
}

/// CA bundles of all entries of the nodes' configurations.
async fn bundles(stand: &Stand) -> Vec<String> {
    let of = |bundle: Option<ByteString>| {
        String::from_utf8(bundle.map(|bundle| bundle.0).unwrap_or_default()).expect("text")
    };
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(stand.client.clone());
    let mutating = mutating(stand)
        .get(names::WEBHOOK_CONFIGURATION)
        .await
        .expect("entries");
    let validating = validating
        .get(names::WEBHOOK_CONFIGURATION)
        .await
        .expect("entries");
    let mutating = mutating.webhooks.expect("entries").into_iter();
    let validating = validating.webhooks.expect("entries").into_iter();
    mutating
        .map(|entry| of(entry.client_config.ca_bundle))
        .chain(validating.map(|entry| of(entry.client_config.ca_bundle)))
        .collect()
}

/// Waits until every entry and the agents' ConfigMap have the bundle of the Secret.
async fn until_published(stand: &Stand) -> String {
    let mut bundle = String::new();
    until("the bundle is published", async || {
        let Ok(Some(secret)) = secrets(stand).get_opt(names::CERTIFICATES_SECRET).await else {
            return false;
        };
        bundle = data(&secret, "ca.crt");
        let config_map = config_maps(stand).get(names::AUTHORITIES_CONFIG_MAP).await;
        let of_agents = config_map.expect("the ConfigMap").data.unwrap_or_default();
        of_agents.get("ca.crt") == Some(&bundle) && bundles(stand).await.iter().all(|entry| *entry == bundle)
    })
    .await;
    bundle
}

/// Calls of the webhook that failed and passed unchecked.
async fn failed_calls(stand: &Stand) -> String {
    let metrics = stand.metrics().await;
    metrics
        .sum("apiserver_admission_webhook_fail_open_count", &[])
        .to_string()
}

/// Demands a rotation, as an administrator.
async fn demand(stand: &Stand, reason: &str) {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"headroom.sh/rotate": reason}}}));
    secrets(stand)
        .patch(names::CERTIFICATES_SECRET, &PatchParams::default(), &patch)
        .await
        .expect("annotate the Secret");
}

/// An agent on its procfs source, with the CAs of the ConfigMap in a file, as a kubelet would write it.
async fn agent(stand: &Stand, replicas: &[&Webhook], bundle: &str) -> (Agent, PathBuf) {
    let file = stand.cluster.dir().join("agent-ca.crt");
    fs::write(&file, bundle).expect("the CAs");
    let options = AgentOptions {
        ca: file.clone(),
        ..stand.agent_options("n1", replicas).await.expect("options")
    };
    let agent = Agent::spawn(&options.source("procfs")).expect("start the agent");
    (agent, file)
}

/// A status write that the webhook amplifies, at most every 20 ms, until `is_done`.
async fn write_until(stand: &Stand, what: &str, mut is_done: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_done().await {
        assert!(Instant::now() < deadline, "not in a minute: {what}");
        stand.set_ratio("n1", 150).await;
        let node = stand.nodes().get("n1").await.expect("the node");
        assert_eq!(allocatable(&node, "cpu"), "6", "{what}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the Secret is in a state, while nodes are written.
async fn write_until_state(stand: &Stand, wanted: &str) {
    write_until(stand, wanted, async || state(&secret(stand).await) == wanted).await;
}

/// An entry with this bundle that fails closed: the API server, which verifies in Go, refuses the write if it refuses
/// the certificate.
async fn go_verifies(stand: &Stand, webhook: &Webhook, bundle: &str) {
    let url = format!("{}/mutate-node-status", webhook.url());
    let configuration = json!({
        "metadata": {"name": "verifier"},
        "webhooks": [{
            "name": "verifier.example.org",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": {"url": url, "caBundle": ByteString(bundle.as_bytes().to_vec())},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes/status"]}],
        }],
    });
    let configuration = serde_json::from_value(configuration).expect("a configuration");
    let created = mutating(stand)
        .create(&PostParams::default(), &configuration)
        .await;
    created.expect("the configuration");
    // The API server calls a new webhook within a moment.
    for _ in 0..10 {
        stand.set_ratio("n1", 150).await;
        sleep(Duration::from_millis(100)).await;
    }
    let deleted = mutating(stand).delete("verifier", &DeleteParams::default()).await;
    deleted.expect("delete the configuration");
}

#[tokio::test(flavor = "multi_thread")]
async fn ca_is_rotated_without_a_failed_call_once_agents_trust_the_next_one() {
    let stand = installed().await;
    let first = managed(&stand, "webhook-0").await;
    let second = managed(&stand, "webhook-1").await;
    register_without_bundle(&stand.client, &first.url(), &first.served)
        .await
        .expect("register");
    let old = until_published(&stand).await;
    let before = secret(&stand).await;
    stand.create_node("n1", "4", "8Gi").await;
    until("the webhook is called", async || {
        stand.set_ratio("n1", 150).await;
        let node = stand.nodes().get("n1").await.expect("the node");
        allocatable(&node, "cpu") == "6"
    })
    .await;
    let (_agent, file) = agent(&stand, &[&first, &second], &old).await;
    until("the agent reports to both replicas", async || {
        count(&first, "headroom_webhook_streams").await + count(&second, "headroom_webhook_streams").await
            == 2
    })
    .await;
    let failed = failed_calls(&stand).await;

    demand(&stand, "a test").await;
    write_until_state(&stand, "next-published").await;
    let both = until_published(&stand).await;
    assert!(both.starts_with(&old) && both.len() > old.len());
    // The agent has the old CA alone: the rotation waits.
    let waited = Instant::now();
    write_until(&stand, "the agent is waited for", async || {
        waited.elapsed() > Duration::from_secs(6)
    })
    .await;
    assert_eq!(state(&secret(&stand).await), "next-published");
    fs::write(&file, &both).expect("the CAs");
    write_until_state(&stand, "new-leaf").await;
    go_verifies(&stand, &first, &old).await;
    go_verifies(&stand, &first, &both).await;
    write_until_state(&stand, "old-retired").await;
    let new = until_published(&stand).await;
    assert_eq!(both, format!("{old}{new}"));
    fs::write(&file, &new).expect("the CAs");
    write_until_state(&stand, "stable").await;
    until_published(&stand).await;
    assert_eq!(failed_calls(&stand).await, failed);

    let after = secret(&stand).await;
    assert_ne!(data(&before, "issuer.crt"), data(&after, "issuer.crt"));
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert!(!after.annotations().contains_key("headroom.sh/rotate"));
    for absent in ["next.crt", "next.key", "old.crt", "cross.crt"] {
        assert!(
            !after.data.as_ref().expect("data").contains_key(absent),
            "{absent}"
        );
    }
    until_events(&stand).await;
}

/// Waits for an Event of each step.
async fn until_events(stand: &Stand) {
    let events: Api<Event> = Api::namespaced(stand.client.clone(), names::NAMESPACE);
    until("an Event for each step", async || {
        let listed = events.list(&ListParams::default()).await.expect("Events");
        let notes: Vec<String> = listed.items.into_iter().filter_map(|event| event.note).collect();
        ["next-published", "new-leaf", "old-retired", "stable"]
            .iter()
            .all(|state| notes.iter().any(|note| note.contains(state)))
    })
    .await;
}

/// Applies the nodes' entries as a tool such as Argo CD does: without the bundle, as field manager.
async fn apply_as_tool(stand: &Stand, webhook: &Webhook, names: &[&str]) -> Result<(), kube::Error> {
    let entries: Vec<Value> = names
        .iter()
        .map(|name| {
            json!({
                "name": name,
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Ignore",
                "clientConfig": {"url": format!("{}/mutate-node-status", webhook.url())},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes/status"]}],
            })
        })
        .collect();
    let patch = Patch::Apply(json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": names::WEBHOOK_CONFIGURATION},
        "webhooks": entries,
    }));
    mutating(stand)
        .patch(names::WEBHOOK_CONFIGURATION, &PatchParams::apply("tool"), &patch)
        .await
        .map(|_| ())
}

/// Entries by name, with true if they have this bundle.
async fn entries_with(stand: &Stand, bundle: &str) -> BTreeMap<String, bool> {
    let stored = mutating(stand)
        .get(names::WEBHOOK_CONFIGURATION)
        .await
        .expect("entries");
    let entries = stored.webhooks.unwrap_or_default().into_iter();
    entries
        .map(|entry| {
            let has_it = entry.client_config.ca_bundle == Some(ByteString(bundle.as_bytes().to_vec()));
            (entry.name, has_it)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn bundle_is_restored_next_to_a_tool_that_owns_the_entries() {
    let stand = installed().await;
    let webhook = managed(&stand, "webhook-0").await;
    let (one, other) = ("a.headroom.sh", "b.headroom.sh");
    apply_as_tool(&stand, &webhook, &[one, other])
        .await
        .expect("apply");
    let bundle = data(&secret(&stand).await, "ca.crt");
    let both = BTreeMap::from([(one.to_owned(), true), (other.to_owned(), true)]);
    until("the bundle is there", async || {
        entries_with(&stand, &bundle).await == both
    })
    .await;

    // Another writer wipes one and changes the other.
    let operations = json!([
        {"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"},
        {"op": "replace", "path": "/webhooks/1/clientConfig/caBundle", "value": "Cg=="},
    ]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(operations).expect("a patch"));
    let wiped = Instant::now();
    mutating(&stand)
        .patch(names::WEBHOOK_CONFIGURATION, &PatchParams::default(), &patch)
        .await
        .expect("wipe the bundle");
    until("the bundle is restored", async || {
        entries_with(&stand, &bundle).await == both
    })
    .await;
    assert!(wiped.elapsed() < RESTORED_WITHIN, "{:?}", wiped.elapsed());

    // The tool applies again, removes an entry, and adds it again: no conflict, and nothing of ours is left in between.
    apply_as_tool(&stand, &webhook, &[one, other])
        .await
        .expect("no conflict");
    assert_eq!(entries_with(&stand, &bundle).await, both);
    until("the tool alone owns the entries", async || {
        let stored = mutating(&stand)
            .get(names::WEBHOOK_CONFIGURATION)
            .await
            .expect("entries");
        let managers = stored.metadata.managed_fields.unwrap_or_default();
        managers
            .iter()
            .all(|fields| fields.manager.as_deref() != Some("headroom-certificates"))
    })
    .await;
    apply_as_tool(&stand, &webhook, &[one])
        .await
        .expect("remove an entry");
    assert_eq!(
        entries_with(&stand, &bundle).await,
        BTreeMap::from([(one.to_owned(), true)])
    );
    apply_as_tool(&stand, &webhook, &[one, other])
        .await
        .expect("add the entry");
    until("the new entry has the bundle", async || {
        entries_with(&stand, &bundle).await == both
    })
    .await;
}

async fn readiness(webhook: &Webhook) -> (u16, String) {
    let (status, body) = get(webhook.admin, "/readyz?verbose").await.expect("an answer");
    (status.into(), String::from_utf8(body.to_vec()).expect("text"))
}

async fn patch_secret(stand: &Stand, patch: Value) {
    secrets(stand)
        .patch(
            names::CERTIFICATES_SECRET,
            &PatchParams::default(),
            &Patch::Merge(patch),
        )
        .await
        .expect("patch the Secret");
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_or_deleted_secret_is_restored_and_a_later_versions_is_left_alone() {
    let stand = installed().await;
    let webhook = managed(&stand, "webhook-0").await;
    let second = managed(&stand, "webhook-1").await;
    let good = secret(&stand).await;
    let same = async |stand: &Stand| {
        secrets(stand)
            .get_opt(names::CERTIFICATES_SECRET)
            .await
            .expect("the API server")
            .is_some_and(|secret| secret.data == good.data)
    };
    for damage in [
        json!({"data": {"tls.crt": null}}),
        json!({"data": {"tls.key": "Cg=="}}),
        json!({"data": {"issuer.key": "Cg=="}}),
        json!({"data": {"ca.crt": "Cg=="}}),
    ] {
        patch_secret(&stand, damage.clone()).await;
        until(&format!("restored after {damage}"), async || same(&stand).await).await;
        assert_eq!(readiness(&webhook).await.0, 200);
    }
    let deleted = secrets(&stand)
        .delete(names::CERTIFICATES_SECRET, &DeleteParams::default())
        .await;
    deleted.expect("delete the Secret");
    until("restored after its deletion", async || same(&stand).await).await;

    patch_secret(
        &stand,
        json!({"metadata": {"annotations": {"headroom.sh/rotation-state": "paused"}}}),
    )
    .await;
    until("the state is reported", async || {
        let (status, body) = readiness(&second).await;
        status == 200 && body.contains("headroom.sh/rotation-state") && body.contains("\"paused\"")
    })
    .await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(state(&secret(&stand).await), "paused");
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_of_another_writer_is_used_and_never_written() {
    let stand = installed().await;
    let name = format!("headroom-webhook.{}.svc", names::NAMESPACE);
    let (good, foreign) = (
        certificates(&[&name, &name.replace("webhook", "hints"), "127.0.0.1"]),
        certificates(&["a.svc"]),
    );
    let object =
        json!({"metadata": {"name": names::CERTIFICATES_SECRET}, "type": "kubernetes.io/tls", "data": good});
    let object = serde_json::from_value(object).expect("a Secret");
    let created = secrets(&stand).create(&PostParams::default(), &object).await;
    let created = created.expect("the Secret");
    let webhook = managed(&stand, "webhook-0").await;
    register_without_bundle(&stand.client, &webhook.url(), &webhook.served)
        .await
        .expect("register");
    let bundle = until_published(&stand).await;
    assert_eq!(bundle, data(&created, "ca.crt"));
    assert_eq!(
        secret(&stand).await.metadata.resource_version,
        created.metadata.resource_version
    );

    // Its writer makes a mistake: the pair before it stays, and the reason is shown.
    patch_secret(&stand, json!({"data": foreign})).await;
    until("the mistake is reported", async || {
        let (status, body) = readiness(&webhook).await;
        status == 200 && body.contains("clients would refuse the certificate in Secret")
    })
    .await;
    assert_eq!(until_published_is(&stand, &bundle).await, bundle);
    patch_secret(&stand, json!({"data": good})).await;
    until("the problem is over", async || {
        !readiness(&webhook).await.1.contains("refuse")
    })
    .await;
}

/// The bundle of all entries, which must be one.
async fn until_published_is(stand: &Stand, wanted: &str) -> String {
    sleep(Duration::from_secs(2)).await;
    let all = bundles(stand).await;
    assert!(all.iter().all(|bundle| bundle == wanted));
    wanted.to_owned()
}

/// Keys of a Secret with a CA and a certificate for these names.
fn certificates(names: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    headroom_kit::tls::self_signed::ensure(folder.path(), &names, std::time::SystemTime::now())
        .expect("certificates");
    let read = |file: &str| ByteString(fs::read(folder.path().join(file)).expect("a file"));
    json!({"ca.crt": read("ca.crt"), "tls.crt": read("tls.crt"), "tls.key": read("tls.key")})
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_account_can_write_no_more_than_its_certificates() {
    let stand = installed().await;
    let webhook = managed(&stand, "webhook-0").await;
    register_without_bundle(&stand.client, &webhook.url(), &webhook.served)
        .await
        .expect("register");
    until_published(&stand).await;
    let client = stand
        .cluster
        .client_for(
            &headroom_domain::installation::Installation::default().webhook_user(),
            None,
        )
        .await
        .expect("the webhook's client");
    let own: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let patched = async |patch: Value| {
        let patch = Patch::<()>::Json(serde_json::from_value(patch).expect("a patch"));
        let patched = own.patch(names::WEBHOOK_CONFIGURATION, &dry_run(), &patch).await;
        patched.map(|_| ()).map_err(|error| error.to_string())
    };
    let refused = async |patch: Value| patched(patch).await.expect_err("it is refused");
    // The API server puts a new policy in force after a moment.
    let fail = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"}]);
    until("the policy is in force", async || {
        patched(fail.clone()).await.is_err()
    })
    .await;
    for operation in [
        json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"}]),
        json!([{"op": "replace", "path": "/webhooks/0/clientConfig/url", "value": "https://127.0.0.1:1/x"}]),
        json!([{"op": "replace", "path": "/webhooks/0/rules/0/resources", "value": ["*/*"]}]),
        json!([{"op": "remove", "path": "/webhooks/0"}]),
    ] {
        let error = refused(operation.clone()).await;
        assert!(
            error.contains("changes only clientConfig.caBundle"),
            "{operation}: {error}"
        );
    }
    let error = refused(json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}])).await;
    assert!(error.contains("changes no metadata"), "{error}");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), names::NAMESPACE);
    for object in [
        json!({"metadata": {"name": "other"}}),
        json!({
            "metadata": {
                "name": "token",
                "annotations": {"kubernetes.io/service-account.name": "headroom-viewer"},
            },
            "type": "kubernetes.io/service-account-token",
        }),
    ] {
        let object = serde_json::from_value(object).expect("a Secret");
        let error = secrets
            .create(&PostParams::default(), &object)
            .await
            .expect_err("refused");
        assert!(error.to_string().contains("headroom-own-secret"), "{error}");
    }
    let listed = secrets.list(&ListParams::default()).await;
    assert!(listed.expect_err("no right").to_string().contains("forbidden"));
    let elsewhere: Api<Secret> = Api::namespaced(client, "kube-system");
    assert!(
        elsewhere
            .get("a")
            .await
            .expect_err("no right")
            .to_string()
            .contains("forbidden")
    );
}

fn dry_run() -> PatchParams {
    PatchParams {
        dry_run: true,
        ..PatchParams::default()
    }
}

/// Entries of the nodes' mutating configuration: name and failure policy.
async fn failure_policies(stand: &Stand) -> BTreeMap<String, String> {
    let stored = mutating(stand)
        .get(names::WEBHOOK_CONFIGURATION)
        .await
        .expect("entries");
    let entries = stored.webhooks.unwrap_or_default().into_iter();
    entries
        .map(|entry| (entry.name, entry.failure_policy.unwrap_or_default()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_are_reverted_and_those_of_closed_gates_removed_on_request() {
    let stand = Stand::start().await;
    let options = stand.webhook_options("webhook-0", "{}").managed();
    let flags = ["--reconcile", "entries"];
    let webhook = Webhook::start(&options.clone().flags(flags))
        .await
        .expect("start the webhook");
    register_without_bundle(&stand.client, &webhook.url(), &webhook.served)
        .await
        .expect("register");
    let mut wanted = failure_policies(&stand).await;
    let foreign = json!({
        "name": "foreign.example.org", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
    });
    wanted.insert("foreign.example.org".to_owned(), "Ignore".to_owned());
    let operations = json!([
        {"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"},
        {"op": "remove", "path": "/webhooks/1"},
        {"op": "add", "path": "/webhooks/-", "value": foreign},
    ]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(operations).expect("a patch"));
    mutating(&stand)
        .patch(names::WEBHOOK_CONFIGURATION, &PatchParams::default(), &patch)
        .await
        .expect("change the entries");
    until("the entries are as generated", async || {
        failure_policies(&stand).await == wanted
    })
    .await;
    drop(webhook);

    let gates = "NodeMutatingWebhook=true,NodeValidatingWebhook=false";
    let _next = Webhook::start(&options.gates(gates).flags(flags))
        .await
        .expect("start the webhook");
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(stand.client.clone());
    until("the entry of the closed gate is removed", async || {
        let stored = validating
            .get(names::WEBHOOK_CONFIGURATION)
            .await
            .expect("the object");
        stored.webhooks.unwrap_or_default().is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_the_webhook_lead_to_its_own_service() {
    let stand = Stand::start().await;
    let installation = headroom_domain::installation::Installation::default();
    policies::put_reconciled_entries(&stand.client)
        .await
        .expect("policies");
    let entry = |name: &str| {
        json!({
            "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
            "clientConfig": {"service": {"namespace": names::NAMESPACE, "name": names::WEBHOOK_SERVICE}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        })
    };
    let object = json!({
        "metadata": {"name": names::WEBHOOK_CONFIGURATION},
        "webhooks": [entry("mnode-status.koordinator.sh"), entry("foreign.example.org")],
    });
    let object = serde_json::from_value(object).expect("a configuration");
    mutating(&stand)
        .create(&PostParams::default(), &object)
        .await
        .expect("the configuration");
    accounts::grant(
        &stand.client,
        &installation,
        &[headroom_webhook::admission::endpoint::Family::Nodes],
    )
    .await
    .expect("rights");
    let client = stand.cluster.client_for(&installation.webhook_user(), None).await;
    let own: Api<MutatingWebhookConfiguration> = Api::all(client.expect("the webhook's client"));
    let patched = async |operation: Value| {
        let patch = Patch::<()>::Json(serde_json::from_value(json!([operation])).expect("a patch"));
        own.patch(names::WEBHOOK_CONFIGURATION, &dry_run(), &patch)
            .await
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    let replace = |path: &str, value: &str| json!({"op": "replace", "path": path, "value": value});
    // The API server puts a new policy in force after a moment.
    until("the policy is in force", async || {
        patched(replace("/webhooks/0/clientConfig/service/name", "other"))
            .await
            .is_err()
    })
    .await;
    let elsewhere = patched(replace("/webhooks/0/clientConfig/service/name", "other")).await;
    assert!(
        elsewhere
            .expect_err("refused")
            .contains("only entries of its own Service")
    );
    let foreign = patched(replace("/webhooks/1/failurePolicy", "Fail")).await;
    assert!(
        foreign
            .expect_err("refused")
            .contains("changes only clientConfig.caBundle")
    );
    patched(replace("/webhooks/0/failurePolicy", "Fail"))
        .await
        .expect("its own entry");
}
