//! Tests that users who may create pods or patch Nodes cannot make a node advertise more, on a real API server with
//! the floor policies in force.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use e2e::{
    etcd::{History, course},
    policy_install,
    scripted_agent::{ScriptedAgent, hint},
    stand::{AUTO, Stand, allocatable, annotation, ready, until},
};
use headroom_domain::{
    hint::{Brake, NodeHint},
    names,
    ratio::Cents,
    resource::Resource::Cpu,
};
use headroom_testbed::{policies, webhook::Webhook};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// On a mirror pod: the UID of its static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A node of 8 CPUs whose agent reports to the one replica.
struct AttackSite {
    stand: Stand,
    webhook: Webhook,
    node: Node,
    agent: ScriptedAgent,
    seq: u64,
}

impl AttackSite {
    async fn start() -> Self {
        let stand = Stand::start().await;
        policy_install::install(&stand).await;
        let webhook = stand.webhook("webhook-0", AUTO).await;
        stand.register(&webhook).await;
        let node = stand.create_node("n1", "8", "8Gi").await;
        let agent = stand.agent(&node, &webhook).await;
        Self {
            stand,
            webhook,
            node,
            agent,
            seq: 0,
        }
    }

    /// Reports a ratio after the replica has listed `pods` pods.
    async fn report(&mut self, cents: u32, pods: usize, brake: Brake) {
        self.seq += 1;
        let listed = self.agent.pods_until(|listed| listed.pods.len() == pods).await;
        let mut report = NodeHint {
            pods_generation: listed.expect("pods").generation,
            ..hint("n1", &self.node.uid().expect("a UID"), self.seq, cents)
        };
        report.resources.cpu.published = Cents(cents);
        report.resources.cpu.brake = brake;
        self.agent.report(&report).await.expect("an answer");
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.stand.client.clone(), names::AGENT_NAMESPACE)
    }

    /// Creates a pod with `spec.nodeName` set, as every user who may create pods can; returns its UID.
    async fn bind(&self, name: &str, cpu: Option<&str>, annotations: &Value) -> String {
        let requests = cpu.map_or_else(|| json!({}), |cpu| json!({"cpu": cpu}));
        // A pod with the mirror annotation may have no service account.
        let is_mirror = annotations.get(MIRROR).is_some();
        let account = (!is_mirror).then_some(names::AGENT_SERVICE_ACCOUNT);
        let pod = json!({
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "serviceAccountName": account,
                "nodeName": "n1",
                "containers": [{"name": "a", "image": "a", "resources": {"requests": requests}}],
            },
        });
        let pod = serde_json::from_value(pod).expect("a Pod");
        let created = self.pods().create(&PostParams::default(), &pod).await;
        created.expect("create the pod").uid().expect("a UID")
    }

    /// The kubelet admits a pod and reports the capacity that it has set aside.
    async fn admit(&self, name: &str, cpu: &str) {
        let status = json!({"status": {"phase": "Running", "containerStatuses": [{
            "name": "a", "image": "a", "imageID": "", "ready": true, "restartCount": 0,
            "allocatedResources": {"cpu": cpu}, "resources": {"requests": {"cpu": cpu}},
        }]}});
        self.pods()
            .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
            .await
            .expect("the kubelet's word");
    }

    async fn delete(&self, name: &str) {
        let at_once = DeleteParams::default().grace_period(0);
        self.pods().delete(name, &at_once).await.expect("delete the pod");
    }

    /// A write of the kubelet, which finds raw.
    async fn sync(&self, second: u32) -> Node {
        let status = json!({"allocatable": {"cpu": "8"}, "conditions": [ready(second)]});
        let written = self.stand.patch_as_kubelet("n1", &status).await;
        written.expect("a write passes")
    }

    async fn until(&self, cpu: &str) -> Node {
        let is_so = |node: &Node| allocatable(node, "cpu") == cpu;
        self.stand.node_until("n1", cpu, is_so).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_requesting_a_thousand_cpus_neither_raise_a_node_nor_block_brakes() {
    let mut site = AttackSite::start().await;
    let mut history = History::follow(&site.stand.cluster).await;
    site.bind("huge", Some("1000"), &json!({})).await;
    site.report(100, 1, Brake::Off).await;
    assert_eq!(allocatable(&site.sync(1).await, "cpu"), "8");
    site.report(150, 1, Brake::Off).await;
    site.until("12").await;
    // Ten of them, and a brake.
    for at in 0..10 {
        site.bind(&format!("huge-{at}"), Some("1000"), &json!({})).await;
    }
    site.report(100, 11, Brake::Stop).await;
    site.until("8").await;
    assert_eq!(allocatable(&site.sync(2).await, "cpu"), "8");
    let states = history.new_revisions_of("n1").await;
    let course = course(&states, Cpu);
    // Up by the hint's small steps to its 1.50, and down at once.
    assert!(course.iter().all(|cpu| *cpu <= 12_000), "{course:?}");
    assert_eq!(course.iter().rev().take(2).collect::<Vec<_>>(), [&8000, &12_000]);
}

/// Every client that may patch `pods/status` can write the values that a kubelet reports.
#[tokio::test(flavor = "multi_thread")]
async fn status_of_a_pod_written_by_another_client_does_not_raise_a_node() {
    let mut site = AttackSite::start().await;
    site.report(150, 0, Brake::Off).await;
    site.until("12").await;
    let mut history = History::follow(&site.stand.cluster).await;
    site.bind("small", Some("1"), &json!({})).await;
    site.admit("small", "1000").await;
    site.report(150, 1, Brake::Off).await;
    assert_eq!(allocatable(&site.sync(1).await, "cpu"), "12");
    let states = history.new_revisions_of("n1").await;
    let course = course(&states, Cpu);
    assert!(course.iter().all(|cpu| *cpu == 12_000), "{course:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_with_anothers_uid_does_not_reduce_its_floor() {
    let mut site = AttackSite::start().await;
    site.report(150, 0, Brake::Off).await;
    site.until("12").await;
    let victim = site.bind("victim", Some("10"), &json!({})).await;
    site.admit("victim", "10").await;
    site.report(100, 1, Brake::Stop).await;
    site.until("10").await;
    let mut history = History::follow(&site.stand.cluster).await;
    let claim = json!({MIRROR: victim});
    site.bind("thief-n1", None, &claim).await;
    site.report(100, 2, Brake::Stop).await;
    assert_eq!(allocatable(&site.sync(1).await, "cpu"), "10");
    site.delete("thief-n1").await;
    site.report(100, 1, Brake::Stop).await;
    assert_eq!(allocatable(&site.sync(2).await, "cpu"), "10");
    let states = history.new_revisions_of("n1").await;
    assert!(
        course(&states, Cpu).iter().all(|cpu| *cpu == 10_000),
        "{states:#?}"
    );
}

/// The attacker has the service account of a DaemonSet that may patch `nodes/status`.
#[tokio::test(flavor = "multi_thread")]
async fn status_writes_change_no_annotation_with_or_without_the_webhook() {
    let mut site = AttackSite::start().await;
    site.report(150, 0, Brake::Off).await;
    let before = site.until("12").await;
    let account = "system:serviceaccount:kube-system:node-agent";
    let client = site.stand.cluster.client_for(account, Some("system:masters"));
    let nodes: Api<Node> = Api::all(client.await.expect("a client"));
    let forged = json!({"metadata": {"annotations": {
        names::MODE: "static", names::RATIO: r#"{"cpu":5}"#, names::STATIC_RATIO: r#"{"cpu":5}"#,
        names::HINT: null, "headroom.sh/later": "x", "example.com/own": "kept",
    }}});
    let removal = json!({"metadata": {"annotations": null}});
    let forge = async |patch: &Value| {
        let params = PatchParams::default();
        let written = nodes.patch_status("n1", &params, &Patch::Merge(patch)).await;
        written.expect("a status write is never refused")
    };
    let check = |after: &Node| {
        for key in [
            names::MODE,
            names::RATIO,
            names::STATIC_RATIO,
            "headroom.sh/later",
        ] {
            assert_eq!(annotation(after, key), annotation(&before, key), "{key}");
        }
        assert!(annotation(after, names::HINT).is_some());
        assert_eq!(allocatable(after, "cpu"), "12");
    };
    let after = forge(&forged).await;
    check(&after);
    assert_eq!(annotation(&after, "example.com/own"), Some("kept"));
    check(&forge(&removal).await);

    // While no webhook answers, the policy restores them.
    let AttackSite {
        stand,
        webhook,
        agent,
        ..
    } = site;
    drop(agent);
    drop(webhook);
    until("the webhook has stopped", async || {
        let probe = json!({"metadata": {"annotations": {names::KUBELET_RAW: "{}"}}});
        let params = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let answer = stand.nodes().patch("n1", &params, &Patch::Merge(probe)).await;
        answer.is_ok_and(|node| annotation(&node, names::KUBELET_RAW) == Some("{}"))
    })
    .await;
    check(&forge(&forged).await);
    check(&forge(&removal).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_raw_annotation_is_refused_and_never_raises_allocatable() {
    let mut site = AttackSite::start().await;
    policies::put_checks(&site.stand.client)
        .await
        .expect("the checks");
    site.report(150, 0, Brake::Off).await;
    site.until("12").await;
    let nodes: Api<Node> = Api::all(site.stand.client.clone());
    let forged = json!({"cpu": "1000"}).to_string();
    let patch = json!({"metadata": {"annotations": {names::RAW_ALLOCATABLE: forged}}});
    let forge = async || {
        let params = PatchParams::default();
        nodes.patch("n1", &params, &Patch::Merge(&patch)).await
    };
    let refused = forge().await.expect_err("refused by the webhook").to_string();
    assert!(
        refused.contains(names::RAW_ALLOCATABLE)
            && refused.contains("cpu")
            && refused.contains(&format!("only {} writes it", names::WEBHOOK_USER)),
        "{refused}"
    );

    // While no webhook answers, the API server refuses it by itself.
    let AttackSite {
        stand,
        webhook,
        node,
        agent,
        seq: _,
    } = site;
    drop(agent);
    drop(webhook);
    until("the checks refuse it alone", async || {
        forge().await.is_err_and(|error| {
            let message = error.to_string();
            message.contains(names::CHECKS_POLICY) && message.contains("writes it")
        })
    })
    .await;

    // Without the check it still counts for nothing.
    policies::remove_checks(&stand.client).await.expect("no checks");
    until("it slips by", async || forge().await.is_ok()).await;
    let replica = stand.webhook("webhook-1", AUTO).await;
    stand.register(&replica).await;
    let agent = stand.agent(&node, &replica).await;
    let mut site = AttackSite {
        stand,
        webhook: replica,
        node,
        agent,
        seq: 100,
    };
    site.report(150, 0, Brake::Off).await;
    let written = site.sync(1).await;
    assert_eq!(allocatable(&written, "cpu"), "12");
    let raw = annotation(&written, names::RAW_ALLOCATABLE).expect("what raw is");
    assert!(raw.contains(r#""cpu":"8""#), "{raw}");
}
