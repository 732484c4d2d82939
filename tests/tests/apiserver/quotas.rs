//! ElasticQuotas on a real API server, through two replicas: a tree in one file, texts of refusals, hostile quotas,
//! and a scheduler whose status writes are not sent to the webhook.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use std::time::Duration;

use e2e::{
    balancer::Balancer,
    scheduler_double::SchedulerDouble,
    stand::{Stand, count, until},
};
use futures::{StreamExt as _, stream};
use headroom_testbed::{
    accounts,
    cluster::ClusterOptions,
    webhook::{self, DEMO_TIMING, GATES, Served, Webhook},
};
use headroom_webhook::admission::endpoint::Family;
use http::{Method, Request};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::sleep;

/// API path of the quotas.
const PATH: &str = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/elasticquotas";
const DOMAIN: &str = "quota.scheduling.koordinator.sh";
/// The first of all quotas.
const ROOT: &str = "koordinator-root-quota";
/// Number of times the tree is created and deleted.
const ROUNDS: usize = 50;
/// Clients that write at the same time.
const CLIENTS: usize = 4;
/// Metric of the reviews of quotas.
const REVIEWS: &str =
    r#"headroom_webhook_reviews_total{endpoint="validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota""#;

/// Two replicas behind one address.
struct QuotaStand {
    stand: Stand,
    _way: Balancer,
    both: [Webhook; 2],
}

impl QuotaStand {
    async fn start() -> Self {
        let stand = Stand::start_with(ClusterOptions::default()).await;
        stand.install_kinds().await;
        let served = Served {
            families: vec![Family::Nodes, Family::Koordinator],
            gates: GATES.to_owned(),
            ..Served::default()
        };
        accounts::grant(&stand.client, &served.installation, &served.families)
            .await
            .expect("grant rights");
        let start = async |name| {
            let options = stand.options_serving(name, served.clone()).expect("kubeconfig");
            let started = Webhook::start(&options.flags([DEMO_TIMING])).await;
            started.expect("start the webhook")
        };
        let both = [start("webhook-0").await, start("webhook-1").await];
        let way = Balancer::start().await;
        way.replace([both[0].admission, both[1].admission]);
        webhook::register(&stand.client, &way.url(), &both[0].ca, &served)
            .await
            .expect("register both");
        let replicas = Self {
            stand,
            _way: way,
            both,
        };
        until("quotas reach both replicas", async || {
            // Each of several calls at a time has a connection of its own.
            let probes = (0..2 * CLIENTS).map(|at| quota(&format!("probe-{at}"), None, &amounts(0, 1), &[]));
            let probes = stream::iter(probes).for_each_concurrent(None, async |probe| {
                let (status, answer) = replicas.send(Method::POST, "?dryRun=All", &probe).await;
                assert_eq!(status, 201, "{answer}");
            });
            probes.await;
            replicas.reviews().await.iter().all(|count| *count > 0)
        })
        .await;
        replicas
    }

    /// Number of reviews that each replica has answered.
    async fn reviews(&self) -> [u64; 2] {
        [
            count(&self.both[0], REVIEWS).await,
            count(&self.both[1], REVIEWS).await,
        ]
    }

    /// Status and object, or status and message.
    async fn send(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        self.send_text(method, path, body.to_string()).await
    }

    async fn send_text(&self, method: Method, path: &str, body: String) -> (u16, Value) {
        let kind = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("{PATH}{path}"))
            .header("content-type", kind)
            .body(Body::from(body.into_bytes()))
            .expect("a request");
        let response = self.stand.client.send(request).await.expect("an answer");
        let status = response.status().as_u16();
        let body = response.into_body().collect_bytes().await.expect("a body");
        (status, serde_json::from_slice(&body).expect("JSON"))
    }

    async fn create(&self, quota: &Value) {
        let (status, answer) = self.send(Method::POST, "", quota).await;
        assert_eq!(status, 201, "{quota}: {answer}");
    }

    async fn remove(&self, name: &str) -> (u16, Value) {
        self.send(Method::DELETE, &format!("/{name}"), &json!({})).await
    }

    /// The write is refused with that text.
    async fn assert_refused(&self, method: Method, path: &str, body: &Value, text: &str) {
        let (status, answer) = self.send(method, path, body).await;
        let entry = r#"admission webhook "velasticquota.koordinator.sh" denied the request: "#;
        assert_eq!(
            (status, &answer["message"]),
            (400, &json!(format!("{entry}{text}"))),
            "{body}"
        );
    }
}

fn quota(name: &str, parent: Option<&str>, spec: &Value, labels: &[(&str, &str)]) -> Value {
    let mut object = json!({
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": name, "labels": {}}, "spec": spec,
    });
    let parent = parent.map(|parent| ("parent", parent));
    for (key, value) in parent.into_iter().chain(labels.iter().copied()) {
        object["metadata"]["labels"][format!("{DOMAIN}/{key}")] = value.into();
    }
    object
}

fn amounts(min: u32, max: u32) -> Value {
    json!({"min": {"cpu": min}, "max": {"cpu": max}})
}

fn label(key: &str, value: &str) -> Value {
    json!({"metadata": {"labels": {format!("{DOMAIN}/{key}"): value}}})
}

/// A tree of 40 quotas, level by level.
fn tree() -> [Vec<Value>; 3] {
    let is_parent = [("is-parent", "true")];
    let first = vec![quota("org", None, &amounts(36, 100), &is_parent)];
    let teams: Vec<String> = (0..3).map(|team| format!("team-{team}")).collect();
    let second = teams
        .iter()
        .map(|team| quota(team, Some("org"), &amounts(12, 100), &is_parent));
    let leaf = |team: &str, at| quota(&format!("{team}-{at}"), Some(team), &amounts(1, 100), &[]);
    let third = teams
        .iter()
        .flat_map(|team| (0..12).map(move |at| leaf(team, at)));
    [first, second.collect(), third.collect()]
}

#[tokio::test(flavor = "multi_thread")]
async fn quota_tree_is_created_and_deleted_through_two_replicas_without_a_refusal() {
    let replicas = QuotaStand::start().await;
    let tree = tree();
    assert_eq!(tree.iter().map(Vec::len).sum::<usize>(), 40);
    let before = replicas.reviews().await;
    for _ in 0..ROUNDS {
        // Several clients at a time, so that both replicas are asked.
        for level in &tree {
            let created = stream::iter(level).for_each_concurrent(CLIENTS, |quota| replicas.create(quota));
            created.await;
        }
        let (_, leaf) = replicas.send(Method::GET, "/team-2-11", &json!({})).await;
        assert_eq!(
            leaf["metadata"]["annotations"][format!("{DOMAIN}/shared-weight")],
            r#"{"cpu":"100"}"#
        );
        let more = quota("more", Some("team-1"), &amounts(1, 100), &[]);
        until("a replica has seen the whole tree", async || {
            replicas.send(Method::POST, "?dryRun=All", &more).await.0 == 400
        })
        .await;
        for level in tree.iter().rev() {
            let removed = stream::iter(level).for_each_concurrent(CLIENTS, async |quota| {
                let name = quota["metadata"]["name"].as_str().expect("a name");
                let (status, answer) = replicas.remove(name).await;
                assert_eq!(status, 200, "{name}: {answer}");
            });
            removed.await;
        }
    }
    let after = replicas.reviews().await;
    let share = u64::try_from(8 * ROUNDS).expect("a number");
    assert!(
        (0..2).all(|at| after[at] - before[at] > share),
        "both were asked: {before:?}, {after:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_have_koordinators_texts_and_scheduler_writes_skip_the_webhook() {
    let replicas = QuotaStand::start().await;
    let parent = [("is-parent", "true")];
    replicas
        .create(&quota("org", None, &amounts(40, 100), &parent))
        .await;
    replicas
        .create(&quota("web", Some("org"), &amounts(10, 100), &[]))
        .await;
    let (status, answer) = replicas
        .send(
            Method::POST,
            "",
            &quota("kid", Some("ghost"), &amounts(1, 2), &[]),
        )
        .await;
    let text = r#"admission webhook "melasticquota.koordinator.sh" denied the request: fill quota kid failed, parent not exist"#;
    assert_eq!((status, &answer["message"]), (400, &json!(text)));
    for (body, text) in [
        (
            label("is-parent", "false"),
            "quota has children, isParent is forbidden to modify as false, quotaName:org",
        ),
        (
            json!({"spec": {"min": {"cpu": 9}}}),
            "checkMinQuotaSum all children's MinQuota > current MinQuota, current: org",
        ),
        (
            json!({"spec": {"min": {"cpu": 101}}}),
            "resourceKey cpu of quota org min 101 > max 100",
        ),
    ] {
        replicas.assert_refused(Method::PATCH, "/org", &body, text).await;
    }
    let (status, answer) = replicas.remove("org").await;
    assert_eq!(status, 400, "{answer}");
    let existing = quota("web", Some("org"), &amounts(10, 100), &[]);
    assert_eq!(replicas.send(Method::POST, "", &existing).await.0, 409);
    let dry = quota("dry", Some("org"), &amounts(30, 100), &[]);
    for _ in 0..3 {
        assert_eq!(replicas.send(Method::POST, "?dryRun=All", &dry).await.0, 201);
    }
    replicas.create(&dry).await;

    let before = replicas.reviews().await;
    let stand = &replicas.stand;
    let scheduler =
        SchedulerDouble::start(stand, "koord-scheduler", "koord-scheduler", "n1", "default").await;
    until("the scheduler writes", async || scheduler.quota_writes() >= 9).await;
    let status = json!({"status": {"used": {"cpu": 3}}, "metadata": {"finalizers": ["a.example/b"]}});
    assert_eq!(replicas.send(Method::PATCH, "/dry", &status).await.0, 200);
    assert_eq!(replicas.reviews().await, before, "no write of these is sent");

    // A second removal of a quota with a finalizer has the answer of the first.
    for _ in 0..2 {
        assert_eq!(replicas.remove("dry").await.0, 200);
    }
    let late = quota("late", Some("dry"), &amounts(1, 100), &[]);
    sleep(Duration::from_millis(300)).await;
    assert_eq!(
        replicas.send(Method::POST, "", &late).await.0,
        400,
        "its parent is going"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_quotas_are_refused_with_field_and_value() {
    let replicas = QuotaStand::start().await;
    let parent = [("is-parent", "true")];
    replicas.create(&quota("x", None, &amounts(0, 9), &parent)).await;
    replicas
        .create(&quota("y", Some("x"), &amounts(0, 9), &parent))
        .await;
    for (name, above) in [("x", "x"), ("x", "y")] {
        let mut body = label("parent", above);
        for key in ["allow-force-update", "is-root"] {
            body["metadata"]["labels"][format!("{DOMAIN}/{key}")] = "true".into();
        }
        let text = format!("{name} has parentName {above} but that is the quota itself, or a part of it");
        replicas
            .assert_refused(Method::PATCH, &format!("/{name}"), &body, &text)
            .await;
    }
    let first = [("parent", ROOT)];
    for (spec, text) in [
        (
            json!({"min": {"cpu": 5}, "max": {"cpu": 4}}),
            "resourceKey cpu of quota bad min 5 > max 4",
        ),
        (
            json!({"min": {"cpu": "9e28"}, "max": {"cpu": "8e28"}}),
            "resourceKey cpu of quota bad min 90e27 > max 80e27",
        ),
    ] {
        let bad = quota("bad", None, &spec, &first);
        replicas.assert_refused(Method::POST, "", &bad, text).await;
    }
    // The kind that we install has a bound of its own; Koordinator's has none.
    let negative = quota("bad", None, &json!({"max": {"cpu": "-1"}}), &first);
    let (status, answer) = replicas.send(Method::POST, "", &negative).await;
    assert_eq!(status, 422, "{answer}");
    // Each of the two is more than half of all that a sum can be.
    let large = json!({"min": {"cpu": "9e28"}, "max": {"cpu": "9e28"}});
    replicas.create(&quota("large", None, &large, &parent)).await;
    replicas.create(&quota("half", Some("large"), &large, &[])).await;
    let text = "checkMinQuotaSum all brothers' MinQuota > parent MinQuota, parent: large";
    let other = quota("other", Some("large"), &large, &[]);
    replicas.assert_refused(Method::POST, "", &other, text).await;
    let weight = format!(r#"{{"cpu":"1","cpu":"-2","{}":"1"}}"#, "k".repeat(1_000));
    let mut twice = quota("twice", None, &amounts(1, 9), &first);
    twice["metadata"]["annotations"] = json!({format!("{DOMAIN}/shared-weight"): weight});
    let text = format!("twice quota.Annotation[{DOMAIN}/shared-weight]'s value < 0, in dimension :[cpu]");
    replicas.assert_refused(Method::POST, "", &twice, &text).await;
    let keys = r#"{"apiVersion":"scheduling.sigs.k8s.io/v1alpha1","kind":"ElasticQuota","metadata":{"name":"keys"},"spec":{"max":{"cpu":1,"cpu":-1}}}"#;
    let (status, answer) = replicas.send_text(Method::POST, "", keys.to_owned()).await;
    assert_eq!(status, 422, "the last of two members counts: {answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_that_kubernetes_would_not_store_are_refused_before_they_are_read() {
    let replicas = QuotaStand::start().await;
    let mut many = quota("many", None, &amounts(1, 9), &[("parent", ROOT)]);
    many["metadata"]["annotations"] = json!({format!("{DOMAIN}/namespaces"): "n".repeat(256 << 10)});
    let above = "p".repeat(64);
    let long = quota("long", Some(&above), &amounts(1, 9), &[]);
    for (object, field, reason) in [
        (
            many,
            format!("metadata.annotations[{DOMAIN}/namespaces]"),
            "all annotations together may not be more than 262144 bytes",
        ),
        (
            long,
            format!("metadata.labels[{DOMAIN}/parent]"),
            "must be no more than 63 bytes",
        ),
    ] {
        let (status, answer) = replicas.send(Method::POST, "", &object).await;
        let message = answer["message"].as_str().unwrap_or_default();
        let is_told = message.contains(&format!("{field}: invalid value ")) && message.ends_with(reason);
        assert_eq!((status, is_told), (400, true), "{message}");
    }
}
