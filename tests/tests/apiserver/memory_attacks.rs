//! Users who may create pods or ElasticQuotas store as much as the API server accepts, and a replica that lists it all
//! stays within its memory and answers the reviews of others.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]
#![expect(clippy::print_stdout, reason = "the long run prints its figures")]

use std::time::{Duration, Instant};

use e2e::{
    custom_kinds::QUOTAS,
    namespaces,
    process_resources::counted_kib,
    stand::{Stand, count, until},
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use headroom_domain::names;
use headroom_testbed::{
    cluster::ClusterOptions,
    webhook::{GATES, Webhook},
};
use headroom_webhook::admission::endpoint::Family;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DynamicObject, PostParams},
};
use serde_json::{Map, Value, json};

/// Maximum resident memory of a replica, in KiB. Its limit is 512 MiB.
const MOST_KIB: u64 = 256 << 10;
/// Maximum duration of a creation by another user, with a build without optimization.
const LONGEST: Duration = Duration::from_secs(5);
/// Objects that are created at a time.
const AT_ONCE: usize = 4;
/// Pods that another user creates afterwards.
const OTHERS: usize = 20;

/// A control plane with the attacker's namespace and another one.
struct Attack {
    stand: Stand,
    attacker: Api<Pod>,
    other: Api<Pod>,
}

impl Attack {
    async fn start() -> Self {
        let stand = Stand::start_with(ClusterOptions::default()).await;
        stand.install_kinds().await;
        Self {
            attacker: namespaces::create(&stand, "attacker").await,
            other: namespaces::create(&stand, "other").await,
            stand,
        }
    }

    /// Stores the attacker's pods while no replica judges them.
    async fn store_pods(&self, count: usize, pod: impl Fn(usize) -> Pod + Sync) {
        let created = stream::iter(0..count).map(async |number| {
            let created = self.attacker.create(&PostParams::default(), &pod(number)).await;
            created.map(drop)
        });
        let created: kube::Result<Vec<()>> = created.buffer_unordered(AT_ONCE).try_collect().await;
        created.expect("the API server stores them");
    }

    /// Starts a replica, which lists everything, and lets another user create pods; prints and checks memory and time.
    async fn strike(&self, name: &str) -> Webhook {
        let families = [Family::Nodes, Family::Koordinator];
        let gates = format!("{GATES},EnableQuotaAdmission=true");
        let begun = Instant::now();
        let webhook = self.stand.serving("webhook-0", "{}", &families, &gates).await;
        for resource in ["pods", "quota-pods", "elasticquotas"] {
            let known = format!("headroom_webhook_informer_known{{resource=\"{resource}\"}}");
            until(resource, async || count(&webhook, &known).await == 1).await;
        }
        let listed = begun.elapsed();
        let mut slowest = Duration::ZERO;
        for number in 0..OTHERS {
            let begun = Instant::now();
            let created = pod(&format!("small-{number}"), &json!({}), &json!({"cpu": "1"}), "");
            let created = self.other.create(&PostParams::default(), &created).await;
            created.expect("the pod of another user");
            slowest = slowest.max(begun.elapsed());
        }
        let peak = counted_kib(webhook.process.pid(), "VmHWM");
        println!(
            "{name}: peak {} MiB, listed in {listed:.1?}, slowest of {OTHERS} creations {slowest:.2?}",
            peak >> 10
        );
        assert!(peak < MOST_KIB, "{peak} KiB");
        assert!(slowest < LONGEST, "{slowest:?}");
        webhook
    }
}

/// A pod with these labels, requests and the value of an environment variable.
fn pod(name: &str, labels: &Value, requests: &Value, value: &str) -> Pod {
    let pod = json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "c", "image": "i", "env": [{"name": "A", "value": value}],
                "resources": {"requests": requests, "limits": requests},
            }],
        },
    });
    serde_json::from_value(pod).expect("a pod")
}

/// Requests of that number of resources.
fn many_resources(count: usize) -> Value {
    let one = |number| (format!("acme.example/resource-{number}"), json!("1"));
    Value::Object((0..count).map(one).collect())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "stores hundreds of megabytes: cargo xtask test --long attacks"]
async fn two_hundred_and_fifty_pods_of_over_a_megabyte_stay_within_the_memory() {
    let attack = Attack::start().await;
    // The API server sends six bytes for each.
    let value = "x".repeat(1_100_000) + &"<".repeat(20_000);
    let large = |number| {
        pod(
            &format!("large-{number}"),
            &json!({}),
            &json!({"cpu": "1"}),
            &value,
        )
    };
    attack.store_pods(250, large).await;
    attack.strike("250 pods of 1.2 MB").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "stores hundreds of megabytes: cargo xtask test --long attacks"]
async fn two_hundred_pods_with_sixteen_thousand_labels_stay_within_the_memory() {
    let attack = Attack::start().await;
    let labelled = |number| {
        let label = |key| {
            (
                format!("tenant.koordinator.sh/label-{number}-{key}"),
                json!("value"),
            )
        };
        let labels: Map<String, Value> = (0..16_000).map(label).collect();
        pod(
            &format!("labelled-{number}"),
            &labels.into(),
            &json!({"cpu": "1"}),
            "",
        )
    };
    attack.store_pods(200, labelled).await;
    attack.strike("200 pods with 16,000 labels").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "stores many megabytes: cargo xtask test --long attacks"]
async fn eighty_quotas_with_ten_thousand_namespaces_stay_within_the_memory() {
    let attack = Attack::start().await;
    let quotas = QUOTAS.api(&attack.stand, "attacker");
    let quota = |number: usize| -> DynamicObject {
        let listed: Vec<String> = (0..10_000).map(|name| format!("team-{number}-{name}")).collect();
        let listed = json!(listed).to_string();
        serde_json::from_value(json!({
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": format!("wide-{number}"), "annotations": {names::QUOTA_NAMESPACES: listed}},
            "spec": {"max": {"cpu": 100}},
        }))
        .expect("a quota")
    };
    for number in 0..80 {
        let created = quotas.create(&PostParams::default(), &quota(number)).await;
        created.expect("the API server stores it");
    }
    let webhook = attack.strike("80 quotas with 10,000 namespaces").await;
    assert!(count(&webhook, "headroom_webhook_quota_lists_cut_total").await > 0);
    let refused = quotas.create(&PostParams::default(), &quota(80)).await;
    let refused = refused.expect_err("too many namespaces").to_string();
    assert!(
        refused.contains("quota wide-80 lists 10000 namespaces, at most 2048 are allowed"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "stores many megabytes: cargo xtask test --long attacks"]
async fn three_hundred_pods_with_thousands_of_resources_stay_within_the_memory() {
    let attack = Attack::start().await;
    let quota: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": "team"}, "spec": {"max": {"cpu": 100}},
    }))
    .expect("a quota");
    let quotas = QUOTAS.api(&attack.stand, "attacker");
    let created = quotas.create(&PostParams::default(), &quota).await;
    created.expect("the quota");
    let labels = json!({names::QUOTA_NAME: "team"});
    let requests = many_resources(2_500);
    let wide = |number| pod(&format!("wide-{number}"), &labels, &requests, "");
    attack.store_pods(300, wide).await;
    let _webhook = attack.strike("300 pods with 2,500 resources").await;
    for (resources, reason) in [
        (2_500, "more than 2048 requests and limits"),
        (1_000, "the pod requests 1000 resources"),
    ] {
        let wide = pod("wide-300", &labels, &many_resources(resources), "");
        let refused = attack.attacker.create(&PostParams::default(), &wide).await;
        let refused = refused.expect_err("too many resources").to_string();
        assert!(refused.contains(reason), "{refused}");
    }
}
