//! A node's allocatable is the same whichever of two replicas answers a write, although the agent reports to only one.
//! The tests watch every revision of the Node.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "tests panic: a returned error has no stack; a story is read in one go"
)]

use std::{
    sync::{Arc, Mutex},
    time::{SystemTime, UNIX_EPOCH},
};

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
use k8s_openapi::{api::core::v1::Node, jiff::Timestamp};
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
        let recorded = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Some(event) = events.try_next().await.expect("the watch stays open") {
                if let WatchEvent::Modified(node) = event {
                    recorded.lock().expect("lock").push(milli(&node));
                }
            }
        });
        Self { seen, task }
    }

    fn so_far(&self) -> Vec<u64> {
        assert!(!self.task.is_finished(), "the watch task has ended");
        self.seen.lock().expect("lock").clone()
    }
}

fn milli(node: &Node) -> u64 {
    let quantity: Quantity = allocatable(node, "cpu").parse().expect("a quantity");
    quantity.milli().expect("an amount")
}

/// Writes like a kubelet with a change each time, alternating between the replicas.
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
                    .patch_as_kubelet("n1", &status)
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

/// Status, reason, transition and heartbeat of a condition, the times in seconds.
fn condition(node: &Node, kind: &str) -> Option<(String, String, i64, i64)> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|condition| condition.type_ == kind)?;
    Some((
        condition.status.clone(),
        condition.reason.clone()?,
        condition.last_transition_time.as_ref()?.0.as_second(),
        condition.last_heartbeat_time.as_ref()?.0.as_second(),
    ))
}

/// Checks the node's brake condition; returns its transition time, which must be later than `after`.
fn braked_since(node: &Node, status: &str, reason: &str, after: i64) -> i64 {
    let found = condition(node, names::BRAKED).expect("the condition and its times");
    assert_eq!((found.0.as_str(), found.1.as_str()), (status, reason));
    let (transition, heartbeat) = (found.2, found.3);
    assert!(heartbeat >= transition, "{found:?}");
    assert!(
        (after + 1..=now()).contains(&transition),
        "{found:?} after {after}"
    );
    transition
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    now.as_secs().try_into().expect("seconds")
}

#[tokio::test(flavor = "multi_thread")]
async fn brake_condition_is_written_when_a_brake_fires_and_when_it_is_released() {
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
    let begun = now();
    agent.report(&braked).await.expect("an answer");
    let lowered = stand
        .node_until("n1", "lowered to 1.00", |node| milli(node) == 4000)
        .await;
    let fired = braked_since(&lowered, "True", "CpuStop", begun - 1);

    // The condition is written once: neither heartbeats nor further reports write it again or change its time.
    let writes = async |heartbeat: Value, text: &str| {
        let mut heartbeat = heartbeat;
        heartbeat["message"] = Value::from(text);
        let status = json!({"allocatable": {"cpu": "4"}, "conditions": [heartbeat]});
        stand
            .patch_as_kubelet("n1", &status)
            .await
            .expect("a write passes")
    };
    for second in 1..=5 {
        let written = writes(ready(second), &format!("write {second}")).await;
        assert_eq!(braked_since(&written, "True", "CpuStop", begun - 1), fired);
        braked.seq += 1;
        agent.report(&braked).await.expect("an answer");
    }
    // A heartbeat that is later than the transition is taken over.
    let late = Timestamp::from_second(now() + 3_600).expect("a time").to_string();
    let mut heartbeat = ready(6);
    heartbeat["lastHeartbeatTime"] = Value::from(late);
    let written = writes(heartbeat.clone(), "late").await;
    let (_, _, transition, renewed) = condition(&written, names::BRAKED).expect("the condition");
    assert!(transition == fired && renewed > now() + 3_000, "{renewed}");

    // Each transition has a later time, although the heartbeat stays where it is.
    until("another second", async || now() > fired).await;
    report(&mut agent, &node, 20, 100).await;
    let written = writes(heartbeat.clone(), "released").await;
    let released = braked_since(&written, "False", "NotBraked", fired);
    assert_eq!(condition(&written, names::CLAMPED), None);
    until("another second", async || now() > released).await;
    braked.seq = 21;
    agent.report(&braked).await.expect("an answer");
    let written = writes(heartbeat, "braked again").await;
    braked_since(&written, "True", "CpuStop", released);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_does_not_flap_between_a_replica_with_its_agent_and_one_without() {
    let stand = Stand::start().await;
    // A call that the API server abandons must not look like a replica with another answer.
    policy_install::install(&stand).await;
    let mut with = stand.webhook("webhook-0", AUTO).await;
    let without = stand.webhook("webhook-1", AUTO).await;
    let way = Balancer::with_one_request_per_connection().await;
    way.replace([with.admission, without.admission]);
    let node = stand.create_node("n1", "4", "8Gi").await;
    register(&stand, &way, &with).await;
    until("both are called", async || {
        let status = json!({"conditions": [ready(0)]});
        stand
            .patch_as_kubelet("n1", &status)
            .await
            .expect("a write passes");
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

    // Up by a step a frame, for every writer.
    report(&mut agent, &node, 1, 120).await;
    until("risen to 1.20", async || milli(&kubelet.write(1).await) == 4800).await;
    assert!(kubelet.writes >= 4, "{} writes", kubelet.writes);
    let risen = revisions.so_far();
    assert_eq!(falls(&risen), [], "{risen:?}");
    let steps = risen.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(steps.max() <= Some(STEP), "{risen:?}");

    // Down at once, by a nudge or by the first write through an informed replica; and never up again through another.
    report(&mut agent, &node, 2, 110).await;
    until("lowered to 1.10", async || milli(&kubelet.write(1).await) == 4400).await;
    kubelet.write(10).await;
    let lowered = revisions.so_far();
    assert_eq!(falls(&lowered), [(4800, 4400)], "{lowered:?}");

    // The brake condition is on the Node, and no replica writes it again or changes its time.
    let uid = node.uid().expect("a UID");
    let mut braked = hint("n1", &uid, 3, 110);
    braked.resources.cpu.brake = Brake::Hold;
    agent.report(&braked).await.expect("an answer");
    let begun = now();
    until("the brake condition is written", async || {
        condition(&kubelet.write(1).await, names::BRAKED).is_some()
    })
    .await;
    let fired = braked_since(&kubelet.write(1).await, "True", "CpuHold", begun - 60);
    until("another second", async || now() > fired).await;
    for _ in 0..6 {
        let written = kubelet.write(1).await;
        assert_eq!(braked_since(&written, "True", "CpuHold", begun - 60), fired);
    }

    // The agent ends, the replica with its stream is killed and restarts: the applied ratio stays.
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
    assert_eq!((milli(&last), note.cpu.published, note.seq), (4400, 110, 3));
}
