//! Every write of every kubelet is answered and amplified while hostile bodies, huge and dense or withheld, reach a
//! replica that a real API server calls, and none adds much to its memory.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use e2e::{
    admission::Admission,
    process_resources::counted_kib,
    slow_bodies::{connected, raise_file_limit, withhold},
    stand::{Stand, allocatable, ready, until},
};
use headroom_domain::names;
use headroom_testbed::{
    cluster::ClusterOptions,
    pathological::{BodyShape, GATES, shapes, targets},
    webhook::Webhook,
};
use headroom_webhook::admission::endpoint::Family;
use http::StatusCode;
use k8s_openapi::api::{admissionregistration::v1::MutatingWebhookConfiguration, core::v1::Node};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{
    sync::Barrier,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

/// Maximum increase of a replica's memory by any number of bodies, in KiB.
const MOST_KIB: u64 = 64 << 10;
/// Bytes of a dense body.
const DENSE: usize = 3_000_000;
/// Kubelets that write all the time, each of a node of its own, and how often each does.
const KUBELETS: usize = 4;
const WRITES_EVERY: Duration = Duration::from_millis(100);
/// Timeout of the API server, in seconds.
const PATIENCE_S: i32 = 10;
/// Duration of the writes, with and without withheld bodies.
const FOR: Duration = Duration::from_secs(6);
/// Connections that withhold their bodies, the time each waits before it reconnects, and the time between two of
/// them. They start one after another, so that their bodies cause the load and not their handshakes.
const WITHHOLDING: u32 = 320;
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const APART: Duration = Duration::from_millis(8);

/// Nodes of raw 4 CPUs that are amplified to 6, and no floor: a write that the replica does not answer is stored raw.
struct HostileBodySite {
    stand: Stand,
    webhook: Arc<Webhook>,
    kubelets: Vec<(String, Api<Node>)>,
}

impl HostileBodySite {
    async fn start() -> Self {
        raise_file_limit();
        let stand = Stand::start().await;
        let webhook = stand.webhook("webhook-0", "{}").await;
        stand.register(&webhook).await;
        be_patient(&stand).await;
        let mut kubelets = Vec::new();
        for number in 0..KUBELETS {
            let name = format!("n{number}");
            stand.create_node(&name, "4", "8Gi").await;
            stand.annotate(&name, names::RATIO, r#"{"cpu":1.5}"#).await;
            let client = stand.cluster.client_for_node(&name).await;
            kubelets.push((name, Api::all(client.expect("the node's client"))));
        }
        let site = Self {
            stand,
            webhook: Arc::new(webhook),
            kubelets,
        };
        for (name, kubelet) in &site.kubelets {
            until("the API server calls the replica", async || {
                allocatable(&write(kubelet, name, 0).await, "cpu") == "6"
            })
            .await;
        }
        site
    }

    /// Has all kubelets write at a steady pace, regardless of the results, until `is_enough` is set; returns the
    /// duration of each write.
    async fn write_until(&self, is_enough: &Arc<AtomicBool>) -> Vec<Duration> {
        let unanswered = self.unanswered().await;
        let mut writers = JoinSet::new();
        for (name, kubelet) in self.kubelets.clone() {
            let is_enough = Arc::clone(is_enough);
            writers.spawn(async move {
                let mut ticks = interval(WRITES_EVERY);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
                let mut took = Vec::new();
                for second in 1..3600 {
                    if is_enough.load(Ordering::Relaxed) {
                        break;
                    }
                    ticks.tick().await;
                    let begun = Instant::now();
                    let node = write(&kubelet, &name, second).await;
                    took.push(begun.elapsed());
                    assert_eq!(allocatable(&node, "cpu"), "6", "not answered: {node:#?}");
                }
                took
            });
        }
        let mut took: Vec<Duration> = writers.join_all().await.into_iter().flatten().collect();
        took.sort_unstable();
        let missed = self.unanswered().await - unanswered;
        assert!(missed < 0.5, "{missed} calls without an answer");
        took
    }

    /// Webhook calls that the API server abandoned without an answer.
    async fn unanswered(&self) -> f64 {
        let metrics = self.stand.metrics().await;
        metrics.sum("apiserver_admission_webhook_fail_open_count", &[])
    }
}

/// Gives the replica a longer timeout than in production: on a machine with too few CPUs for this load it answers
/// late, and a late answer is not a refusal.
async fn be_patient(stand: &Stand) {
    let all: Api<MutatingWebhookConfiguration> = Api::all(stand.client.clone());
    let registered = all.get(names::WEBHOOK_CONFIGURATION).await;
    let mut registered = registered.expect("the registration");
    for entry in registered.webhooks.iter_mut().flatten() {
        entry.timeout_seconds = Some(PATIENCE_S);
    }
    let params = PostParams::default();
    let replaced = all.replace(names::WEBHOOK_CONFIGURATION, &params, &registered);
    replaced.await.expect("more time");
}

/// Stored result of a heartbeat that contains raw values.
async fn write(kubelet: &Api<Node>, name: &str, second: u32) -> Node {
    let status = json!({"allocatable": {"cpu": "4"}, "conditions": [ready(second)]});
    let patch = Patch::Strategic(json!({"status": status}));
    let written = kubelet.patch_status(name, &PatchParams::default(), &patch).await;
    written.expect("a kubelet's write is never refused")
}

/// Posts a dense body: it is answered, or late, and never adds much to the memory that the replica had.
async fn post_dense(webhook: &Webhook, admission: &mut Admission, path: &str, shape: &BodyShape, idle: u64) {
    let (status, answer) = admission.post(path, &shape.body(DENSE)).await;
    if status == StatusCode::REQUEST_TIMEOUT {
        // The webhook closes a connection with an unread body.
        *admission = Admission::connect(webhook).await;
    }
    let is_late = answer.contains("no answer within") || answer.contains("did not arrive within");
    let is_served = ![StatusCode::NOT_FOUND, StatusCode::SERVICE_UNAVAILABLE].contains(&status);
    assert!(is_served || is_late, "{path} {}: {answer}", shape.name);
    let added = counted_kib(webhook.process.pid(), "VmHWM").saturating_sub(idle);
    assert!(added < MOST_KIB, "{path} {}: {added} KiB over {idle}", shape.name);
}

/// Ends it after that time.
async fn ends(is_enough: &AtomicBool, after: Duration) {
    sleep(after).await;
    is_enough.store(true, Ordering::Relaxed);
}

/// Percentile of sorted times.
fn percentile(took: &[Duration], percent: usize) -> Duration {
    let last = took.len() - 1;
    *took.get(last * percent / 100).expect("there are some")
}

#[tokio::test(flavor = "multi_thread")]
async fn dense_bodies_add_less_than_64_mib_and_do_not_block_amplified_writes() {
    let site = HostileBodySite::start().await;
    let pid = site.webhook.process.pid();
    let idle = counted_kib(pid, "VmRSS");
    let is_enough = Arc::new(AtomicBool::new(false));
    let post_all = async {
        let mut admission = Admission::connect(&site.webhook).await;
        for (path, sub_resource, user) in [
            ("/mutate-node-status", "status", "system:node:n0"),
            ("/validate-node", "", "somebody"),
        ] {
            for shape in shapes(sub_resource, user) {
                post_dense(&site.webhook, &mut admission, path, &shape, idle).await;
            }
        }
        is_enough.store(true, Ordering::Relaxed);
    };
    let (took, ()) = tokio::join!(site.write_until(&is_enough), post_all);
    println!(
        "{} KiB over {idle}; {} writes, half within {:?}, 99 % within {:?}",
        counted_kib(pid, "VmHWM") - idle,
        took.len(),
        percentile(&took, 50),
        percentile(&took, 99)
    );
    assert!(took.len() >= 20, "{} writes", took.len());
}

/// The replica knows its cluster, so it does all that the endpoints do.
#[tokio::test(flavor = "multi_thread")]
async fn dense_pods_quotas_and_configurations_add_less_than_64_mib() {
    let stand = Stand::start_with(ClusterOptions::default()).await;
    stand.install_kinds().await;
    let families = [Family::Nodes, Family::Koordinator, Family::Fluid];
    let webhook = stand.serving("webhook-0", "{}", &families, GATES).await;
    let idle = counted_kib(webhook.process.pid(), "VmRSS");
    let mut admission = Admission::connect(&webhook).await;
    for target in targets() {
        for shape in &target.own {
            post_dense(&webhook, &mut admission, target.path, shape, idle).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_withhold_bodies_do_not_block_amplified_writes() {
    let site = HostileBodySite::start().await;
    let is_enough = Arc::new(AtomicBool::new(false));
    let (quiet, ()) = tokio::join!(site.write_until(&is_enough), ends(&is_enough, FOR));

    let (begin, withheld) = (
        Arc::new(Barrier::new(1 + WITHHOLDING as usize)),
        Arc::new(AtomicUsize::new(0)),
    );
    let mut slow = JoinSet::new();
    for number in 0..WITHHOLDING {
        let mut stream = connected(&site.webhook).await;
        let (begin, withheld) = (Arc::clone(&begin), Arc::clone(&withheld));
        let webhook = Arc::clone(&site.webhook);
        slow.spawn(async move {
            let mut pause = AGAIN_AFTER + APART * number;
            begin.wait().await;
            loop {
                withheld.fetch_add(1, Ordering::Relaxed);
                withhold(stream).await;
                sleep(pause).await;
                pause = AGAIN_AFTER;
                stream = connected(&webhook).await;
            }
        });
    }
    is_enough.store(false, Ordering::Relaxed);
    begin.wait().await;
    let (loaded, ()) = tokio::join!(site.write_until(&is_enough), ends(&is_enough, FOR));
    let withheld = withheld.load(Ordering::Relaxed);
    for (what, took) in [("undisturbed", &quiet), ("with withheld bodies", &loaded)] {
        println!(
            "{what}: {} writes, half within {:?}, 99 % within {:?}",
            took.len(),
            percentile(took, 50),
            percentile(took, 99)
        );
    }
    println!("{withheld} bodies withheld");
    assert!(slow.try_join_next().is_none(), "one of them gave up");
    assert!(withheld > WITHHOLDING as usize, "{withheld} bodies withheld");
    assert!(loaded.len() >= 20, "{} writes", loaded.len());
    let (before, after) = (percentile(&quiet, 50), percentile(&loaded, 50));
    assert!(
        after < before * 5,
        "half of all within {after:?}, {before:?} undisturbed"
    );
}
