//! Other policies and webhooks in the admission chain, before or after the Headroom webhook, never make it amplify a
//! node twice.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use std::sync::atomic::{AtomicU64, Ordering};

use e2e::{
    etcd::{History, Revision, assert_only},
    foreign_webhook::{AFTER, AdmissionCall, BEFORE, Foreign, naive, reinvoke, unregister},
    stand::{Stand, count, eager_kubelet, until},
};
use headroom_domain::{names, quantity::Quantity, resource::Resource::Cpu};
use headroom_testbed::{policies, webhook::Webhook};
use k8s_openapi::api::admissionregistration::v1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

/// CPUs that the kubelet reports, in milli-cores: 4, of which it reserves 200m.
const RAW: u64 = 3800;
/// The ratios that are asked for, one after the other, and the one that is in force before and after. None is twice the
/// one before it.
const RATIOS: [u64; 3] = [180, 100, FIRST];
const FIRST: u64 = 150;
/// Writes of the kubelet that each must stand.
const WRITES: u64 = 3;
/// Between [`BEFORE`] and [`AFTER`], as ours is.
const BETWEEN: &str = "n.example.org";
/// Admission calls that a replica has answered.
const REVIEWS: &str = "headroom_webhook_reviews_total{";

/// A stand with our webhook, and a node n1 that it has amplified.
async fn amplified() -> (Stand, Webhook, History) {
    let mut stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", "{}").await;
    stand.register(&webhook).await;
    stand
        .cluster
        .start_node(eager_kubelet("n1"))
        .await
        .expect("a node");
    let history = History::follow(&stand.cluster).await;
    until("amplified", async || {
        stand.set_ratio("n1", FIRST).await;
        node(&stand).await["status"]["allocatable"]["cpu"] == "5700m"
    })
    .await;
    (stand, webhook, history)
}

async fn node(stand: &Stand) -> Value {
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(stand.client.clone());
    serde_json::to_value(nodes.get("n1").await.expect("read the node")).expect("JSON")
}

/// Waits until a counter has risen by this amount.
async fn more(what: &str, by: u64, mut counter: impl AsyncFnMut() -> u64) {
    let before = counter().await;
    until(what, async || counter().await >= before + by).await;
}

/// Sets the ratios one after the other, has the kubelet write with each, and fails if the stored value is anything
/// but raw, the value by the current or the previous ratio, or `besides`.
async fn ratios_are_applied_once(
    stand: &Stand,
    webhook: &Webhook,
    history: &mut History,
    besides: impl Fn(u64) -> u64,
) {
    history.new_revisions_of("n1").await;
    let mut before = FIRST;
    for cents in RATIOS {
        stand.set_ratio("n1", cents).await;
        more("the kubelet writes", WRITES, async || {
            count(webhook, REVIEWS).await
        })
        .await;
        let states = history.new_revisions_of("n1").await;
        let given = [before, cents].map(|cents| RAW * cents / 100);
        let allowed = [
            RAW,
            given[0],
            given[1],
            besides(RAW),
            besides(given[0]),
            besides(given[1]),
        ];
        assert_only(&states, Cpu, &allowed);
        assert_eq!(last(&states), besides(given[1]));
        before = cents;
    }
}

fn last(states: &[Revision]) -> u64 {
    states.last().expect("the ratio was stored").amount(Cpu)
}

/// Has the API server call a webhook, and waits until it does.
async fn called(stand: &Stand, webhook: &Foreign, name: &str) {
    webhook.register(&stand.client, name).await;
    more("it is called", 2, async || webhook.calls()).await;
}

/// Has the API server no longer call a webhook, and waits until it does not.
async fn stop_calls_of(stand: &Stand, ours: &Webhook, webhook: &Foreign, name: &str) {
    unregister(&stand.client, name).await;
    until("it is no longer called", async || {
        let before = webhook.calls();
        more("the kubelet writes", WRITES, async || count(ours, REVIEWS).await).await;
        webhook.calls() == before
    })
    .await;
}

/// Result of the naive rule in the same chain.
async fn naive_rule_amplifies_twice(stand: &Stand, history: &mut History) {
    unregister(&stand.client, names::WEBHOOK_CONFIGURATION).await;
    let other = Foreign::start(stand.cluster.dir(), naive).await;
    other.register(&stand.client, BETWEEN).await;
    reinvoke(&stand.client, BETWEEN).await;
    stand.set_ratio("n1", FIRST).await;
    history.new_revisions_of("n1").await;
    more("it is called", 2 * WRITES, async || other.calls()).await;
    let states = history.new_revisions_of("n1").await;
    let amounts: Vec<u64> = states.iter().map(|state| state.amount(Cpu)).collect();
    assert!(
        amounts.iter().any(|&amount| amount > RAW * 200 / 100),
        "the naive rule stands the test: {amounts:?}"
    );
}

/// Policy of another product: replaces the kubelets' CPU by the stored value.
async fn put_back_old_values(client: &Client) {
    const NAME: &str = "old-values.example.org";
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes/status"]});
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{
                "name": "kubelet",
                "expression": "request.userInfo.username.startsWith('system:node:') && has(oldObject.status.allocatable)",
            }],
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {
                "expression": "[JSONPatch{op: 'add', path: '/status/allocatable/cpu', value: oldObject.status.allocatable['cpu']}]",
            }}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": NAME},
        "spec": {"policyName": NAME},
    });
    let params = PatchParams::apply("e2e").force();
    let policies: Api<MutatingAdmissionPolicy> = Api::all(client.clone());
    policies
        .patch(NAME, &params, &Patch::Apply(policy))
        .await
        .expect("a policy");
    let bindings: Api<MutatingAdmissionPolicyBinding> = Api::all(client.clone());
    bindings
        .patch(NAME, &params, &Patch::Apply(binding))
        .await
        .expect("a binding");
}

/// Waits until the kubelet's raw value no longer passes: only the behaviour of a policy shows that it is in force.
async fn is_in_force(stand: &Stand) {
    let client = stand
        .cluster
        .client_for_node("n2")
        .await
        .expect("the node's client");
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(client);
    stand.create_node("n2", "4", "8Gi").await;
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let patch = Patch::Strategic(json!({"status": {"allocatable": {"cpu": "3"}}}));
    until("the policy is in force", async || {
        let answer = nodes
            .patch_status("n2", &params, &patch)
            .await
            .expect("a dry run");
        e2e::stand::allocatable(&answer, "cpu") == "4"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_values_that_a_policy_puts_back_before_us_are_not_raw() {
    let (stand, webhook, mut history) = amplified().await;
    put_back_old_values(&stand.client).await;
    is_in_force(&stand).await;
    ratios_are_applied_once(&stand, &webhook, &mut history, |amount| amount).await;

    // Also together with our own policy, in either order: the API server chooses the order again when a policy
    // changes.
    for _ in 0..2 {
        policies::install(&stand.client)
            .await
            .expect("install the policies");
        put_back_old_values(&stand.client).await;
        ratios_are_applied_once(&stand, &webhook, &mut history, |amount| amount).await;
    }
    naive_rule_amplifies_twice(&stand, &mut history).await;
}

/// Changes fields unrelated to CPU in each write: a label, an annotation, the order of conditions, and the
/// allocatable amount of another resource.
fn decorated(_: &AdmissionCall<'_>, node: &mut Value) {
    static TURN: AtomicU64 = AtomicU64::new(0);
    let turn = TURN.fetch_add(1, Ordering::Relaxed).to_string();
    node["metadata"]["labels"]["example.org/turn"] = turn.clone().into();
    node["metadata"]["annotations"]["example.org/turn"] = turn.clone().into();
    node["status"]["allocatable"]["example.org/gpu"] = turn.into();
    if let Some(conditions) = node["status"]["conditions"].as_array_mut() {
        conditions.reverse();
    }
}

/// Doubles CPU if a write changes it: another product that overcommits.
fn doubled(asked: &AdmissionCall<'_>, node: &mut Value) {
    let milli = |node: &Value| {
        let text = node["status"]["allocatable"]["cpu"]
            .as_str()
            .expect("allocatable");
        text.parse::<Quantity>()
            .expect("a quantity")
            .milli()
            .expect("an amount")
    };
    let (was, is) = (milli(asked.old), milli(node));
    if was != is {
        node["status"]["allocatable"]["cpu"] = format!("{}m", 2 * is).into();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_webhooks_before_and_after_ours_keep_the_ratio_applied_once() {
    let (stand, webhook, mut history) = amplified().await;
    let decorator = Foreign::start(stand.cluster.dir(), decorated).await;
    let doubler = Foreign::start(stand.cluster.dir(), doubled).await;

    // Our webhook is called once, or again because a later webhook changed the object.
    for is_called_again in [false, true] {
        stand.register(&webhook).await;
        if is_called_again {
            reinvoke(&stand.client, names::WEBHOOK_CONFIGURATION).await;
        }
        called(&stand, &decorator, BEFORE).await;
        called(&stand, &decorator, AFTER).await;
        ratios_are_applied_once(&stand, &webhook, &mut history, |amount| amount).await;
        for name in [BEFORE, AFTER] {
            unregister(&stand.client, name).await;
        }

        // A value that another product overcommits from the kubelet's is not taken for the kubelet's; a value that it
        // overcommits from ours stays, unless our webhook runs last.
        called(&stand, &doubler, BEFORE).await;
        ratios_are_applied_once(&stand, &webhook, &mut history, |amount| amount).await;
        stop_calls_of(&stand, &webhook, &doubler, BEFORE).await;
        called(&stand, &doubler, AFTER).await;
        let factor = if is_called_again { 1 } else { 2 };
        ratios_are_applied_once(&stand, &webhook, &mut history, |amount| factor * amount).await;
        stop_calls_of(&stand, &webhook, &doubler, AFTER).await;
    }

    for name in [BEFORE, AFTER] {
        decorator.register(&stand.client, name).await;
    }
    naive_rule_amplifies_twice(&stand, &mut history).await;
}
