//! Every write of a kubelet passes, and only the ratio's values are stored, while one of two replicas is killed every
//! 5 s. Without the floor that would not hold: raw passes where no replica answers.
//!
//! With `HEADROOM_SOAK` set in the environment the test runs for ten minutes.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "tests panic: a returned error has no stack"
)]

use std::{env, net::SocketAddr, path::PathBuf, time::Duration};

use e2e::{
    balancer::Balancer,
    delayed_proxy::{DelayedProxy, Sent},
    etcd::{History, assert_only},
    scripted_agent::{ScriptedAgent, channel, hint},
    stand::{Stand, allocatable, eager_kubelet, ready, until},
};
use headroom_domain::{names, resource::Resource::Cpu};
use headroom_testbed::{
    cluster::NodeOptions,
    policies,
    webhook::{self, Webhook},
};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use rustix::process::Signal;
use serde_json::json;
use tokio::{sync::watch, task::JoinSet, time::sleep};

const KILL_EVERY: Duration = Duration::from_secs(5);
const KILLS: u32 = 5;
const LONG_KILLS: u32 = 120;
/// Kept by kubelet code; 3800m each.
const KUBELETS: [&str; 2] = ["k1", "k2"];
/// Kept by scripted writes, one after the other without a pause; 4 CPUs each. The last one is in `auto`.
const SCRIPTED: [&str; 3] = ["s1", "s2", "s3"];
const AUTOMATIC: &str = "s3";
/// The ratio of all nodes.
const CENTS: u64 = 150;

/// Address of a live replica for the agent: its port for hints and its CA.
type Replica = (SocketAddr, PathBuf);

/// Writes as a kubelet does, with its own CPUs or with heartbeats alone, as fast as it can; counts the writes.
async fn write(nodes: Api<Node>, name: &'static str, stop: watch::Receiver<bool>) -> u64 {
    let mut writes = 0;
    while !*stop.borrow() {
        writes += 1;
        let condition = ready(u32::try_from(writes % 3000).expect("small"));
        let status = if writes % 3 == 0 {
            json!({"conditions": [condition]})
        } else {
            json!({"allocatable": {"cpu": "4"}, "conditions": [condition]})
        };
        let patch = Patch::Strategic(json!({"status": status}));
        let answer = nodes.patch_status(name, &PatchParams::default(), &patch).await;
        answer.unwrap_or_else(|error| panic!("write {writes} of {name}: {error}"));
    }
    writes
}

/// Reports one hint after the other to the live replica, and to the next one when that ends.
async fn report(node: Node, token: String, replica: watch::Receiver<Replica>, stop: watch::Receiver<bool>) {
    let (name, uid) = (node.name_any(), node.uid().expect("a UID"));
    let cents = u32::try_from(CENTS).expect("small");
    let mut seq = 0;
    while !*stop.borrow() {
        let (address, ca) = replica.borrow().clone();
        let Ok(channel) = channel(address, &ca, None).await else {
            continue;
        };
        let Ok(mut agent) = ScriptedAgent::over(channel, Some(&token)).await else {
            continue;
        };
        while !*stop.borrow() {
            seq += 1;
            let mut hint = hint(&name, &uid, seq, cents);
            hint.pods_generation = agent.pods.as_ref().map_or(0, |pods| pods.generation);
            if agent.report(&hint).await.is_err() {
                break;
            }
            // A pause between reports, as agents make it; nothing waits for it.
            sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Starts the nodes: kubelets by way of detours, and those that writes are scripted for.
async fn nodes(stand: &mut Stand) -> Vec<DelayedProxy> {
    let mut detours = Vec::new();
    for name in KUBELETS {
        let client = stand
            .cluster
            .client_for_node(name)
            .await
            .expect("the node's client");
        let detour = DelayedProxy::open(client).await;
        let options = NodeOptions {
            api_server_url: Some(detour.url()),
            ..eager_kubelet(name)
        };
        stand.cluster.start_node(options).await.expect("a node");
        detours.push(detour);
    }
    for name in SCRIPTED {
        stand.create_node(name, "4", "8Gi").await;
    }
    detours
}

/// Fails if a write of a kubelet did, or was never answered.
fn no_write_failed(detours: &[DelayedProxy]) {
    for detour in detours {
        let sent = detour.sent();
        let failed = |sent: &&Sent| sent.status.is_some_and(|status| !status.is_success());
        assert_eq!(sent.iter().filter(failed).count(), 0, "{sent:#?}");
        // The last one may be on its way.
        let unanswered = sent.iter().rev().skip(1).filter(|sent| sent.status.is_none());
        assert_eq!(unanswered.count(), 0, "{sent:#?}");
    }
}

/// Has the node amplified by its agent alone.
async fn report_for(
    stand: &Stand,
    node: &str,
    replica: watch::Receiver<Replica>,
    stop: watch::Receiver<bool>,
) -> JoinSet<()> {
    let api: Api<Node> = Api::all(stand.client.clone());
    let mode = json!({"metadata": {"annotations": {names::MODE: "auto"}}});
    let node = api
        .patch(node, &PatchParams::default(), &Patch::Merge(mode))
        .await
        .expect("annotate the node");
    let token = stand.agent_token(&node).await;
    let mut agent = JoinSet::new();
    agent.spawn(report(node, token, replica, stop));
    agent
}

/// Waits until all nodes are amplified.
async fn amplified(stand: &Stand) {
    let api: Api<Node> = Api::all(stand.client.clone());
    for name in KUBELETS.into_iter().chain(SCRIPTED) {
        until("amplified", async || {
            if name != AUTOMATIC {
                stand.set_ratio(name, CENTS).await;
            }
            let node = api.get(name).await.expect("read the node");
            ["5700m", "6"].contains(&allocatable(&node, "cpu").as_str())
        })
        .await;
    }
}

/// Two replicas and the way to them.
struct Replicas {
    running: [Webhook; 2],
    service: Balancer,
    /// The live replica, for the agent.
    lives: watch::Sender<Replica>,
}

impl Replicas {
    async fn start(stand: &Stand) -> Self {
        let running = [
            stand.webhook("webhook-0", "{}").await,
            stand.webhook("webhook-1", "{}").await,
        ];
        let service = Balancer::start().await;
        webhook::register(&stand.client, &service.url(), &running[0].ca, &running[0].served)
            .await
            .expect("register");
        let (lives, _) = watch::channel((running[1].hints, running[1].ca.clone()));
        let replicas = Self {
            running,
            service,
            lives,
        };
        replicas.serve();
        replicas
    }

    fn serve(&self) {
        self.service
            .replace(self.running.iter().map(|replica| replica.admission));
    }

    /// Kills the replicas alternately, one every 5 s, and restarts each, while all writers continue.
    async fn kill(&mut self, stand: &Stand, kills: u32) {
        let (stop_tx, stop) = watch::channel(false);
        let mut load = JoinSet::new();
        for name in SCRIPTED {
            let client = stand
                .cluster
                .client_for_node(name)
                .await
                .expect("the node's client");
            load.spawn(write(Api::all(client), name, stop.clone()));
        }
        for turn in 0..kills {
            // This waits for the load to run.
            sleep(KILL_EVERY).await;
            let [first, second] = &mut self.running;
            let (victim, other) = if turn % 2 == 0 {
                (first, second)
            } else {
                (second, first)
            };
            victim.process.signal(Signal::KILL).expect("kill a replica");
            self.lives.send_replace((other.hints, other.ca.clone()));
            *victim = stand.webhook(&format!("webhook-{}", turn % 2), "{}").await;
            self.serve();
        }
        stop_tx.send_replace(true);
        while let Some(writes) = load.join_next().await {
            let writes = writes.expect("no write fails");
            assert!(writes > u64::from(kills), "{writes} writes are no load");
        }
    }
}

/// Kills both and restarts them. Meanwhile nodes fall to raw; an installed floor keeps a value that a user restores,
/// and raises none by itself.
async fn install_floor(stand: &Stand, replicas: &mut Replicas) {
    for replica in &mut replicas.running {
        replica.process.signal(Signal::KILL).expect("kill a replica");
    }
    let status = json!({"allocatable": {"cpu": "4"}, "conditions": [ready(0)]});
    let written = async || {
        let written = stand.patch_as_kubelet(SCRIPTED[0], &status).await;
        allocatable(&written.expect("a write passes"), "cpu")
    };
    assert_eq!(
        written().await,
        "4",
        "neither replica nor policies keep the ratio"
    );
    policies::install(&stand.client)
        .await
        .expect("install the policies");
    let back = Patch::Merge(json!({"status": {"allocatable": {"cpu": "6"}}}));
    until("the floor holds", async || {
        let put = stand
            .nodes()
            .patch_status(SCRIPTED[0], &PatchParams::default(), &back)
            .await;
        put.expect("a write passes");
        written().await == "6"
    })
    .await;
    for (index, replica) in replicas.running.iter_mut().enumerate() {
        *replica = stand.webhook(&format!("webhook-{index}"), "{}").await;
    }
    let [_, agents] = &replicas.running;
    replicas.lives.send_replace((agents.hints, agents.ca.clone()));
    replicas.serve();
}

/// Milli-cores of a node before they are amplified.
fn raw(name: &str) -> u64 {
    if KUBELETS.contains(&name) { 3800 } else { 4000 }
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_are_killed_under_load_fail_no_write_and_store_no_wrong_value() {
    let mut stand = Stand::start().await;
    let mut replicas = Replicas::start(&stand).await;
    let detours = nodes(&mut stand).await;
    let (stop_tx, stop) = watch::channel(false);
    let mut agent = report_for(&stand, AUTOMATIC, replicas.lives.subscribe(), stop).await;
    amplified(&stand).await;
    install_floor(&stand, &mut replicas).await;
    amplified(&stand).await;

    let mut history = History::follow(&stand.cluster).await;
    let is_soak = env::var_os("HEADROOM_SOAK").is_some();
    let kills = if is_soak { LONG_KILLS } else { KILLS };
    replicas.kill(&stand, kills).await;
    stop_tx.send_replace(true);
    while let Some(ended) = agent.join_next().await {
        ended.expect("the agent");
    }

    no_write_failed(&detours);
    // With the floor in place not even raw: an outage is no cliff.
    for name in KUBELETS.into_iter().chain(SCRIPTED) {
        assert_only(
            &history.new_revisions_of(name).await,
            Cpu,
            &[raw(name) * CENTS / 100],
        );
    }
}
