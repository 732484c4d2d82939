//! Tests of pods bound to a node on a real API server: their requests hold its allocatable up, step by step as they go.
//!
//! A pod's trust ends when its deletion is announced; exclusive CPUs are not amplified. The tests check every state in
//! etcd.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use e2e::{
    etcd::{History, course},
    scripted_agent::{ScriptedAgent, hint},
    stand::{AUTO, HAPPENS_WITHIN, Stand, allocatable, ready},
};
use futures::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use headroom_domain::{
    hint::{Brake, NodeHint, PodTrust},
    names,
    ratio::Cents,
    resource::Resource::Cpu,
};
use headroom_proto::v1alpha1::Verdict;
use headroom_testbed::webhook::Webhook;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

/// A node of 4 CPUs, amplified to 6 by the hint of its agent.
struct Amplified {
    stand: Stand,
    _webhook: Webhook,
    node: Node,
    agent: ScriptedAgent,
}

impl Amplified {
    async fn start() -> Self {
        let stand = Stand::start().await;
        let webhook = stand.webhook("webhook-0", AUTO).await;
        stand.register(&webhook).await;
        let node = stand.create_node("n1", "4", "8Gi").await;
        let agent = stand.agent(&node, &webhook).await;
        let mut amplified = Self {
            stand,
            _webhook: webhook,
            node,
            agent,
        };
        amplified.report(1, 0, |_| {}).await;
        amplified.until("6").await;
        amplified
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.stand.client.clone(), names::AGENT_NAMESPACE)
    }

    /// Creates a pod that is bound to the node already; its UID.
    async fn bind(&self, name: &str, resources: &Value) -> String {
        let pod = json!({
            "metadata": {"name": name},
            "spec": {
                "serviceAccountName": names::AGENT_SERVICE_ACCOUNT,
                "nodeName": "n1",
                "containers": [{"name": "a", "image": "a", "resources": resources}],
            },
        });
        let pod = serde_json::from_value(pod).expect("a Pod");
        let created = self.pods().create(&PostParams::default(), &pod).await;
        created.expect("create the pod").uid().expect("a UID")
    }

    async fn delete(&self, name: &str, grace_s: u32) {
        let params = DeleteParams::default().grace_period(grace_s);
        self.pods().delete(name, &params).await.expect("delete the pod");
    }

    /// Reports a ratio of 1.50 with a change, after the replica has listed `pods` pods.
    async fn report(&mut self, seq: u64, pods: usize, change: impl FnOnce(&mut NodeHint)) {
        let listed = self.agent.pods_until(|listed| listed.pods.len() == pods).await;
        let mut hint = hint("n1", &self.node.uid().expect("a UID"), seq, 150);
        hint.pods_generation = listed.expect("pods").generation;
        change(&mut hint);
        let ack = self.agent.report(&hint).await.expect("an answer");
        assert_eq!(ack.verdict(), Verdict::Accepted, "{}", ack.reason);
    }

    async fn until(&self, cpu: &str) -> Node {
        let is_so = |node: &Node| allocatable(node, "cpu") == cpu;
        self.stand.node_until("n1", cpu, is_so).await
    }

    /// The node's states after this one, from a watch.
    async fn watch(&self, after: &Node) -> BoxStream<'static, kube::Result<WatchEvent<Node>>> {
        let params = WatchParams::default().fields("metadata.name=n1");
        let version = after.resource_version().expect("a version");
        let events = self.stand.nodes().watch(&params, &version).await;
        events.expect("a watch").boxed()
    }
}

/// Waits until a watch delivers this allocatable CPU.
async fn until_allocatable(cpu: &str, events: &mut BoxStream<'static, kube::Result<WatchEvent<Node>>>) {
    loop {
        let event = events.try_next().await.expect("an event");
        let event = event.expect("the watch stays open");
        if matches!(event, WatchEvent::Modified(node) if allocatable(&node, "cpu") == cpu) {
            return;
        }
    }
}

/// Status, reason and message of the condition for brakes.
fn braked(node: &Node) -> Option<[String; 3]> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions
        .iter()
        .find(|condition| condition.type_ == names::BRAKED)?;
    let NodeCondition {
        status,
        reason,
        message,
        ..
    } = condition.clone();
    Some([status, reason?, message?])
}

fn stop(hint: &mut NodeHint) {
    hint.resources.cpu.published = Cents(100);
    hint.resources.cpu.brake = Brake::Stop;
}

#[tokio::test(flavor = "multi_thread")]
async fn braked_node_is_lowered_step_by_step_as_its_pods_end() {
    let mut full = Amplified::start().await;
    for (name, cpu) in [("a", "2500m"), ("b", "2"), ("c", "1")] {
        full.bind(name, &json!({"requests": {"cpu": cpu}})).await;
    }
    let mut history = History::follow(&full.stand.cluster).await;

    // Of 4 CPUs, 1.38 is the first ratio of two decimals that covers 5500m; 1.13 covers 4500m.
    full.report(2, 3, stop).await;
    let node = full.until("5520m").await;
    let expected = [
        "True",
        "CpuStop",
        "cpu is not amplified; requests of its admitted pods stay covered",
    ];
    assert_eq!(braked(&node), Some(expected.map(str::to_owned)));

    // A pod that is being deleted still runs: its requests count until it has ended.
    full.delete("c", 600).await;
    full.report(3, 3, stop).await;
    let status = json!({"allocatable": {"cpu": "4"}, "conditions": [ready(1)]});
    let written = full
        .stand
        .patch_as_kubelet("n1", &status)
        .await
        .expect("a write passes");
    assert_eq!(allocatable(&written, "cpu"), "5520m");
    full.delete("c", 0).await;
    full.until("4520m").await;

    // Below raw nothing holds it up, and nothing pulls it down.
    full.delete("b", 0).await;
    full.until("4").await;
    full.delete("a", 0).await;
    full.report(4, 0, stop).await;
    let states = history.new_revisions_of("n1").await;
    assert_eq!(course(&states, Cpu), [6000, 5520, 4520, 4000], "{states:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_pods_trusted_capacity_is_released_without_an_agent() {
    let mut node = Amplified::start().await;
    let mut trust = Vec::new();
    for (name, cpu) in [("a", "2"), ("b", "1")] {
        trust.push(PodTrust {
            uid: node.bind(name, &json!({"requests": {"cpu": cpu}})).await,
            cpu_ppm: 1_000_000,
            memory_ppm: 0,
            exclusive_cpus_milli: 0,
        });
    }
    // Of 4 CPUs: 0.9 × 4 - 1.48 + 3 = 1.28 × 4, and without the CPU of the pod that leaves 1.03 × 4.
    node.report(2, 2, |hint| {
        hint.trust = trust;
        let cpu = &mut hint.resources.cpu;
        (cpu.published, cpu.target) = (Cents(128), Cents(128));
        (cpu.capacity, cpu.predicted_peak, cpu.warm_requests) = (4000, 1480, 3000);
        cpu.coverage_ppm = 1_000_000;
    })
    .await;
    let amplified = node.until("5120m").await;
    let mut history = History::follow(&node.stand.cluster).await;
    let mut events = node.watch(&amplified).await;

    // From here on the agent is silent. Its report would count as 1.00 five minutes later, long after the deadline.
    let announced = Instant::now();
    node.delete("b", 600).await;
    let lowered = timeout(HAPPENS_WITHIN, until_allocatable("4120m", &mut events)).await;
    println!("lowered {:?} after the deletion was sent", announced.elapsed());
    lowered.expect("lowered in time");

    let leaving = node.pods().get("b").await.expect("it is still there");
    assert!(leaving.metadata.deletion_timestamp.is_some(), "{leaving:#?}");
    let states = history.new_revisions_of("n1").await;
    assert_eq!(course(&states, Cpu), [5120, 4120], "{states:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cpus_that_a_pod_holds_for_itself_are_not_amplified() {
    let mut node = Amplified::start().await;
    let amounts = json!({"cpu": "2", "memory": "1Gi"});
    let guaranteed = node
        .bind("a", &json!({"requests": amounts, "limits": amounts}))
        .await;
    let burstable = node.bind("b", &json!({"requests": {"cpu": "1"}})).await;
    let mut history = History::follow(&node.stand.cluster).await;
    let holds = |uid: &str| PodTrust {
        uid: uid.to_owned(),
        cpu_ppm: 0,
        memory_ppm: 0,
        exclusive_cpus_milli: 2000,
    };
    // No other pod can have CPUs that the kubelet gives only to Guaranteed pods.
    node.report(2, 2, |hint| {
        hint.trust = vec![holds(&guaranteed), holds(&burstable)];
    })
    .await;
    node.until("5").await;
    node.report(3, 2, |hint| hint.trust.push(holds(&burstable))).await;
    node.until("6").await;
    let states = history.new_revisions_of("n1").await;
    assert_eq!(course(&states, Cpu), [6000, 5000, 6000], "{states:#?}");
}
