//! A node's allocatable is the same whichever of two replicas answers a write, although the agent reports to only one.
//! The tests watch every revision of the Node.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use std::sync::{Arc, Mutex};

use e2e::{
    balancer::Balancer,
    policy_install,
    scripted_agent::{ScriptedAgent, hint},
    stand::{AUTO, Stand, allocatable, annotation, count, ready, until},
};
use futures::{StreamExt as _, TryStreamExt as _};
use headroom_domain::{
    hint::{Brake, Note},
    names,
    quantity::Quantity,
};
use headroom_proto::v1alpha1::Verdict;
use headroom_testbed::webhook::{self, Webhook};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt as _,
    api::{WatchEvent, WatchParams},
};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Admission calls that a replica has answered.
const REVIEWS: &str = "headroom_webhook_reviews_total{";
/// 5 cents of 4 CPUs, in milli-cores.
const STEP: u64 = 200;

/// The allocatable CPU of every revision of a Node, in milli-cores.
struct Revisions {
    seen: Arc<Mutex<Vec<u64>>>,
    task: JoinHandle<()>,
}

impl Revisions {
    async fn follow(stand: &Stand, node: &Node) -> Self {
        let nodes: Api<Node> = Api::all(stand.client.clone());
        let version = node.resource_version().expect("a version");
        let params = WatchParams::default().fields("metadata.name=n1");
        let mut events = nodes.watch(&params, &version).await.expect("a watch").boxed();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Some(event) = events.try_next().await.expect("the watch goes on") {
                if let WatchEvent::Modified(node) = event {
                    told.lock().expect("lock").push(milli(&node));
                }
            }
        });
        Self { seen, task }
    }

    fn so_far(&self) -> Vec<u64> {
        assert!(!self.task.is_finished(), "nobody watches any more");
        self.seen.lock().expect("lock").clone()
    }
}

fn milli(node: &Node) -> u64 {
    let quantity: Quantity = allocatable(node, "cpu").parse().expect("a quantity");
    quantity.milli().expect("an amount")
}

/// Writes as a kubelet does that has something new to say each time, each write by the other replica.
struct Kubelet<'s> {
    stand: &'s Stand,
    way: &'s Balancer,
    writes: u32,
}

impl Kubelet<'_> {
    async fn write(&mut self, times: u32) -> Node {
        let mut written = None;
        for _ in 0..times {
            until("the last call has ended", async || self.way.is_idle()).await;
            self.writes += 1;
            let mut condition = ready(self.writes);
            condition["message"] = Value::from(format!("write {}", self.writes));
            let status = json!({"allocatable": {"cpu": "4", "memory": "8Gi"}, "conditions": [condition]});
            written = Some(
                self.stand
                    .kubelet_writes("n1", &status)
                    .await
                    .expect("a write passes"),
            );
        }
        written.expect("a write")
    }
}

async fn register(stand: &Stand, way: &Balancer, replica: &Webhook) {
    webhook::register(&stand.client, &way.url(), &replica.ca, &replica.served)
        .await
        .expect("register both");
}

async fn report(agent: &mut ScriptedAgent, node: &Node, seq: u64, cents: u32) {
    let uid = node.uid().expect("a UID");
    let ack = agent
        .report(&hint("n1", &uid, seq, cents))
        .await
        .expect("an answer");
    assert_eq!(ack.verdict(), Verdict::Accepted, "{}", ack.reason);
}

/// The places at which values fall.
fn falls(values: &[u64]) -> Vec<(u64, u64)> {
    let pairs = values.windows(2).map(|pair| (pair[0], pair[1]));
    pairs.filter(|(before, after)| after < before).collect()
}

/// Status, reason and time of a condition.
fn condition(node: &Node, kind: &str) -> Option<(String, String, String)> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|condition| condition.type_ == kind)?;
    let time = condition.last_transition_time.as_ref()?.0.to_string();
    Some((condition.status.clone(), condition.reason.clone()?, time))
}

fn expected_condition(status: &str, reason: &str, second: u32) -> Option<(String, String, String)> {
    let time = ready(second)["lastHeartbeatTime"].as_str()?.to_owned();
    Some((status.to_owned(), reason.to_owned(), time))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_brake_is_said_on_the_node_when_it_fires_and_when_it_lets_go() {
    let stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", AUTO).await;
    stand.register(&webhook).await;
    let node = stand.create_node("n1", "4", "8Gi").await;
    let mut agent = stand.agent(&node, &webhook).await;
    report(&mut agent, &node, 1, 105).await;
    let risen = stand
        .node_until("n1", "risen to 1.05", |node| milli(node) == 4200)
        .await;
    assert_eq!(condition(&risen, names::BRAKED), None);

    let uid = node.uid().expect("a UID");
    let mut braked = hint("n1", &uid, 2, 100);
    braked.resources.cpu.brake = Brake::Stop;
    agent.report(&braked).await.expect("an answer");
    let lowered = stand
        .node_until("n1", "lowered to 1.00", |node| milli(node) == 4000)
        .await;
    let fired = expected_condition("True", "CpuStop", 0);
    assert_eq!(condition(&lowered, names::BRAKED), fired);

    // Said once: neither heartbeats nor further reports say it again.
    for second in 1..=5 {
        let mut heartbeat = ready(second);
        heartbeat["message"] = Value::from(format!("write {second}"));
        let status = json!({"allocatable": {"cpu": "4"}, "conditions": [heartbeat]});
        let written = stand.kubelet_writes("n1", &status).await.expect("a write passes");
        assert_eq!(condition(&written, names::BRAKED), fired);
        braked.seq += 1;
        agent.report(&braked).await.expect("an answer");
    }
    report(&mut agent, &node, 20, 100).await;
    let status = json!({"allocatable": {"cpu": "4"}, "conditions": [ready(7)]});
    let written = stand.kubelet_writes("n1", &status).await.expect("a write passes");
    assert_eq!(
        condition(&written, names::BRAKED),
        expected_condition("False", "NotBraked", 7)
    );
    assert_eq!(condition(&written, names::CLAMPED), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_does_not_flap_between_a_replica_with_its_agent_and_one_without() {
    let stand = Stand::start().await;
    // A call that the API server gives up must not look like a replica that says something else.
    policy_install::install(&stand).await;
    let mut with = stand.webhook("webhook-0", AUTO).await;
    let without = stand.webhook("webhook-1", AUTO).await;
    let way = Balancer::taking_turns().await;
    way.replace([with.admission, without.admission]);
    let node = stand.create_node("n1", "4", "8Gi").await;
    register(&stand, &way, &with).await;
    until("both are called", async || {
        let status = json!({"conditions": [ready(0)]});
        stand.kubelet_writes("n1", &status).await.expect("a write passes");
        count(&with, REVIEWS).await > 0 && count(&without, REVIEWS).await > 0
    })
    .await;
    let revisions = Revisions::follow(&stand, &node).await;
    let mut kubelet = Kubelet {
        stand: &stand,
        way: &way,
        writes: 0,
    };
    let mut agent = stand.agent(&node, &with).await;

    // Up by a step a frame, whoever writes.
    report(&mut agent, &node, 1, 120).await;
    until("risen to 1.20", async || milli(&kubelet.write(1).await) == 4800).await;
    assert!(kubelet.writes >= 4, "{} writes", kubelet.writes);
    let risen = revisions.so_far();
    assert_eq!(falls(&risen), [], "{risen:?}");
    let steps = risen.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(steps.max() <= Some(STEP), "{risen:?}");

    // Down at once, by a nudge or by the write of whoever hears of it first; and never up again by who has not.
    report(&mut agent, &node, 2, 110).await;
    until("lowered to 1.10", async || milli(&kubelet.write(1).await) == 4400).await;
    kubelet.write(10).await;
    let lowered = revisions.so_far();
    assert_eq!(falls(&lowered), [(4800, 4400)], "{lowered:?}");

    // The agent goes, the replica that heard it is killed and comes back: what was applied stays.
    drop(agent);
    kubelet.write(6).await;
    let left = revisions.so_far();
    assert_eq!(falls(&left), [(4800, 4400)], "{left:?}");
    with.process.signal(Signal::KILL).expect("kill the replica");
    with = stand.webhook("webhook-0", AUTO).await;
    way.replace([with.admission, without.admission]);
    let last = kubelet.write(10).await;
    assert!(count(&with, REVIEWS).await >= 5, "the new replica is called");
    let held = revisions.so_far();
    assert_eq!(falls(&held), [(4800, 4400)], "{held:?}");
    assert!(held.len() > left.len() + 8, "{held:?}");
    let note: Note = annotation(&last, names::HINT)
        .expect("a hint")
        .parse()
        .expect("a note");
    assert_eq!((milli(&last), note.cpu.published, note.seq), (4400, 110, 2));
}
