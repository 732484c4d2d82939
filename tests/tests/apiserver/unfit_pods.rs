//! Pods that do not fit, bound again and again and rejected by a real kubelet, do not raise allocatable. They keep
//! neither a brake nor `off` from lowering it.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use e2e::{
    bound_pods::{all_run, bind_to_n1, pods},
    etcd::{History, assert_only, course},
    policy_install,
    stand::{AUTO, Stand, allocatable, kubelet, until},
    steady_agent::SteadyAgent,
};
use headroom_domain::{hint::Brake, names, resource::Resource::Cpu};
use headroom_testbed::{cluster::NodeOptions, webhook::Webhook};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

/// Number of pods at a time.
const LOOPS: usize = 10;
/// Requests of the pods: below the node's possible maximum, and far above it.
const ASKED: [&str; 2] = ["5500m", "1000"];
/// Number of rejected pods before the test continues.
const ENOUGH: usize = 20;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A node of 4 CPUs whose agent has it amplified to 6 of at most 8, with 1 set aside, and pods that do not fit.
struct Beset {
    stand: Stand,
    agent: SteadyAgent,
    history: History,
    turned_away: Arc<AtomicUsize>,
    _loops: JoinSet<()>,
    _webhook: Webhook,
}

impl Beset {
    async fn start() -> Self {
        let mut stand = Stand::start().await;
        policy_install::install(&stand).await;
        let webhook = stand.webhook("webhook-0", AUTO).await;
        stand.register(&webhook).await;
        let eager = NodeOptions {
            sync: Duration::from_secs(1),
            report: Duration::from_secs(1),
            ..kubelet("n1")
        };
        stand.cluster.start_node(eager).await.expect("a node");
        let agent = SteadyAgent::start(&stand, &webhook, "n1", 150).await;
        stand
            .node_until("n1", "amplified", |node| allocatable(node, "cpu") == "6")
            .await;
        bind_to_n1(&stand, "resident", "1").await;
        all_run(&stand, "the resident runs").await;
        let history = History::follow(&stand.cluster).await;
        let turned_away = Arc::new(AtomicUsize::new(0));
        let mut loops = JoinSet::new();
        for number in 0..LOOPS {
            let pods = pods(&stand, names::AGENT_NAMESPACE);
            loops.spawn(again_and_again(pods, number, Arc::clone(&turned_away)));
        }
        Self {
            stand,
            agent,
            history,
            turned_away,
            _loops: loops,
            _webhook: webhook,
        }
    }

    /// Waits for that number of further rejected pods.
    async fn more(&self) {
        let before = self.turned_away.load(Ordering::Relaxed);
        until("pods are rejected", async || {
            self.turned_away.load(Ordering::Relaxed) >= before + ENOUGH
        })
        .await;
    }

    /// It falls to raw, and stays there while more pods are rejected; how long that took.
    async fn falls(mut self) -> Duration {
        let begun = Instant::now();
        let is_so = |node: &_| allocatable(node, "cpu") == "4";
        self.stand.node_until("n1", "lowered", is_so).await;
        let took = begun.elapsed();
        self.more().await;
        let states = self.history.new_revisions_of("n1").await;
        assert_eq!(course(&states, Cpu).last(), Some(&4000), "{states:#?}");
        assert_only(&states, Cpu, &[6000, 4000]);
        took
    }
}

/// Makes a pod with the node's name in it, waits until the kubelet has failed it, removes it, and makes another.
async fn again_and_again(pods: Api<Pod>, number: usize, turned_away: Arc<AtomicUsize>) {
    for (round, cpu) in ASKED.iter().cycle().skip(number).enumerate() {
        let name = format!("unfit-{number}-{round}");
        let pod = json!({
            "metadata": {"name": name},
            "spec": {
                "nodeName": "n1",
                "serviceAccountName": names::AGENT_SERVICE_ACCOUNT,
                "automountServiceAccountToken": false,
                "containers": [{"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu}}}],
            },
        });
        let pod = serde_json::from_value(pod).expect("a Pod");
        pods.create(&PostParams::default(), &pod)
            .await
            .expect("create the pod");
        loop {
            let pod = pods.get(&name).await.expect("read the pod");
            let status = pod.status.unwrap_or_default();
            let phase = status.phase.unwrap_or_default();
            assert_ne!(phase, "Running", "{name} does not fit");
            if phase == "Failed" {
                break;
            }
            sleep(LOOK_EVERY).await;
        }
        turned_away.fetch_add(1, Ordering::Relaxed);
        let at_once = DeleteParams::default().grace_period(0);
        pods.delete(&name, &at_once).await.expect("delete the pod");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_do_not_fit_neither_raise_a_node_nor_block_brakes() {
    let mut beset = Beset::start().await;
    beset.more().await;
    assert_only(&beset.history.new_revisions_of("n1").await, Cpu, &[6000]);
    beset.agent.set_ratio(100, Brake::Stop);
    println!("lowered after {:?}", beset.falls().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_do_not_fit_do_not_block_mode_off() {
    let mut beset = Beset::start().await;
    beset.more().await;
    assert_only(&beset.history.new_revisions_of("n1").await, Cpu, &[6000]);
    beset.stand.annotate("n1", names::MODE, "off").await;
    println!("lowered after {:?}", beset.falls().await);
}
