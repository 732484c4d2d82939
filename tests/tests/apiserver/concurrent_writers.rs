//! Concurrent writers of one node amplify it once: a nudging replica, a leader or two, the kubelet, and a controller
//! with another ratio. Each write is decided as any other, so allocatable follows the rules, once, and not back.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::time::Duration;

use e2e::{
    balancer::Balancer,
    etcd::{History, assert_only, course, unexpected_amounts},
    foreign_webhook::{BEFORE, Foreign, naive, unregister},
    scripted_agent::hint,
    stand::{AUTO, Stand, allocatable, annotation, count, ready, until},
};
use headroom_domain::{names, resource::Resource::Cpu};
use headroom_testbed::webhook::Webhook;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, NodeCondition},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use rustix::process::Signal;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

/// Of the nodes here, in milli-cores.
const RAW: u64 = 4000;
/// Duration of all writers.
const STORM: Duration = Duration::from_secs(8);
/// Metric that is 1 while a replica leads.
const LEADS: &str = "headroom_webhook_leader";

fn nodes(client: &Client) -> Api<Node> {
    Api::all(client.clone())
}

/// The writes of a nudging replica, of a leader and of a kubelet whose copy of the Node may lag, each as fast as it
/// can. Those of leaders and nudges carry nothing that counts, those of the kubelet its own CPUs or none.
async fn storm(stand: &Stand) {
    let account = format!(
        "system:serviceaccount:{}:{}",
        names::NAMESPACE,
        names::WEBHOOK_SERVICE_ACCOUNT
    );
    let ours = stand
        .cluster
        .client_for(&account, None)
        .await
        .expect("our client");
    let kubelets = stand
        .cluster
        .client_for_node("n1")
        .await
        .expect("the node's client");
    let until = Instant::now() + STORM;
    let mut writers = JoinSet::new();
    let api = nodes(&ours);
    writers.spawn(async move {
        while Instant::now() < until {
            let node = api.get("n1").await.expect("read the node");
            let patch = json!({"metadata": {"resourceVersion": node.resource_version()}});
            // Another writer may have been faster; the resource version detects that.
            let answer = api
                .patch_status("n1", &PatchParams::default(), &Patch::Merge(patch))
                .await;
            assert!(matches!(&answer, Ok(_) | Err(kube::Error::Api(_))), "{answer:?}");
        }
    });
    let api = nodes(&ours);
    writers.spawn(async move {
        while Instant::now() < until {
            let patch = json!({"metadata": {"annotations": {}}});
            let answer = api
                .patch_status("n1", &PatchParams::default(), &Patch::Merge(patch))
                .await;
            answer.expect("a nudge passes");
        }
    });
    let api = nodes(&kubelets);
    writers.spawn(async move {
        let mut turn = 0;
        while Instant::now() < until {
            turn += 1;
            let status = if turn % 3 == 0 {
                json!({"allocatable": {"cpu": "4"}, "conditions": [ready(turn)]})
            } else {
                json!({"conditions": [ready(turn)]})
            };
            let patch = Patch::Strategic(json!({"status": status}));
            let answer = api.patch_status("n1", &PatchParams::default(), &patch).await;
            answer.expect("a kubelet's write passes");
        }
    });
    while let Some(ended) = writers.join_next().await {
        ended.expect("a writer");
    }
}

/// Amounts that hints of 1.50, 1.20, 1.50, 1.30 and 1.50 give on 4 CPUs: down at once, up by 5 cents a frame.
fn nudged() -> Vec<u64> {
    let rises = (4800..=6000).step_by(200).chain((5200..=6000).step_by(200));
    [6000].into_iter().chain(rises).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nudging_replica_the_leader_and_the_kubelet_at_once_amplify_once() {
    let stand = Stand::start().await;
    let leader = stand.webhook("webhook-0", AUTO).await;
    until("it leads", async || count(&leader, LEADS).await == 1).await;
    let nudger = stand.webhook("webhook-1", AUTO).await;
    let service = Balancer::start().await;
    service.replace([leader.admission, nudger.admission]);
    headroom_testbed::webhook::register(&stand.client, &service.url(), &leader.ca, &leader.served)
        .await
        .expect("register");
    let node = stand.create_node("n1", "4", "8Gi").await;
    let mut agent = stand.agent(&node, &nudger).await;
    let pods = agent
        .pods_until(|_| true)
        .await
        .expect("the server's list of pods");
    let mut report = hint("n1", &node.uid().expect("a UID"), 1, 150);
    report.pods_generation = pods.generation;
    agent.report(&report).await.expect("an acknowledgement");
    stand
        .node_until("n1", "amplified", |node| allocatable(node, "cpu") == "6")
        .await;

    let mut history = History::follow(&stand.cluster).await;
    history.new_revisions_of("n1").await;
    let reports = async {
        for (seq, cents) in (2..).zip([120, 150, 130, 150]) {
            report = hint("n1", &report.node_uid, seq, cents);
            report.pods_generation = pods.generation;
            agent.report(&report).await.expect("an acknowledgement");
            let expected = format!("{}m", RAW * u64::from(cents) / 100).replace("6000m", "6");
            stand
                .node_until("n1", "nudged", |node| allocatable(node, "cpu") == expected)
                .await;
        }
    };
    tokio::join!(storm(&stand), reports);
    let states = history.new_revisions_of("n1").await;
    // The values move from one ratio to the next and never back, for every writer; except after a call that the API
    // server gave up, which lets the kubelet's value pass.
    let values = [6000].into_iter().chain(course(&states, Cpu));
    let mut values: Vec<u64> = values.filter(|&value| value != RAW).collect();
    values.dedup();
    assert_eq!(values, nudged(), "{states:#?}");

    // The naive rule, in the same storm.
    unregister(&stand.client, names::WEBHOOK_CONFIGURATION).await;
    let other = Foreign::start(stand.cluster.dir(), naive).await;
    other.register(&stand.client, BEFORE).await;
    until("it is called", async || {
        stand
            .patch_as_kubelet("n1", &json!({}))
            .await
            .expect("a kubelet's write passes");
        other.calls() > 0
    })
    .await;
    storm(&stand).await;
    let states = history.new_revisions_of("n1").await;
    let stray = unexpected_amounts(&states, Cpu, &[4000, 4800, 5200, 6000]);
    assert!(
        stray.iter().any(|&amount| amount > 8000),
        "the naive rule stands the test: {stray:?}"
    );
}

fn leases(stand: &Stand) -> Api<Lease> {
    Api::namespaced(stand.client.clone(), names::NAMESPACE)
}

async fn holder(stand: &Stand) -> Option<String> {
    let lease = leases(stand)
        .get_opt(names::LEASE)
        .await
        .expect("read the lease")?;
    lease.spec?.holder_identity.filter(|holder| !holder.is_empty())
}

/// Assigns the lease to the other of two replicas after each renewal, so that both always read themselves as the
/// holder. The identities are learned from the lease: a replica that finds no holder acquires it.
async fn forge(stand: &Stand) {
    let mut known: Vec<String> = Vec::new();
    loop {
        let lease = leases(stand).get(names::LEASE).await.expect("read the lease");
        let version = lease.resource_version();
        let holder = lease
            .spec
            .and_then(|spec| spec.holder_identity)
            .unwrap_or_default();
        if !holder.is_empty() && !known.contains(&holder) {
            known.push(holder.clone());
        }
        let next = known
            .iter()
            .find(|other| **other != holder)
            .cloned()
            .unwrap_or_default();
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": next}});
        leases(stand)
            .patch(names::LEASE, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .ok();
        // Until one of them has renewed it.
        let forged = leases(stand).get(names::LEASE).await.expect("read the lease");
        until("the lease is renewed", async || {
            let lease = leases(stand).get(names::LEASE).await.expect("read the lease");
            lease.resource_version() != forged.resource_version()
        })
        .await;
    }
}

async fn both_lead(replicas: &[Webhook; 2]) -> bool {
    count(&replicas[0], LEADS).await == 1 && count(&replicas[1], LEADS).await == 1
}

/// Changes the ratio of all nodes and waits until it is stored everywhere. No other value may be stored meanwhile.
async fn swept_once(stand: &Stand, history: &mut History, cents: u64) {
    const NODES: [&str; 3] = ["n1", "n2", "n3"];
    for node in NODES {
        stand.annotate_ratio(node, cents).await;
    }
    let expected = RAW * cents / 100;
    let deadline = Instant::now() + Duration::from_secs(60);
    for node in NODES {
        let mut states = Vec::new();
        while course(&states, Cpu).last() != Some(&expected) {
            states.extend(history.new_revisions_of(node).await);
            assert!(Instant::now() < deadline, "{node} was not swept: {states:#?}");
            sleep(Duration::from_millis(100)).await;
        }
        let values = course(&states, Cpu);
        assert!(
            values.len() <= 2 && values.last() == Some(&expected),
            "{node}: {values:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_leaders_at_once_move_each_node_once() {
    let stand = Stand::start().await;
    let mut replicas = [
        stand.webhook("webhook-0", "{}").await,
        stand.webhook("webhook-1", "{}").await,
    ];
    let service = Balancer::start().await;
    service.replace(replicas.iter().map(|replica| replica.admission));
    let Webhook { ca, served, .. } = &replicas[0];
    let url = service.url();
    let registered = headroom_testbed::webhook::register(&stand.client, &url, ca, served);
    registered.await.expect("register");
    for node in ["n1", "n2", "n3"] {
        stand.create_node(node, "4", "8Gi").await;
        stand.set_ratio(node, 110).await;
    }
    until("there is a leader", async || holder(&stand).await.is_some()).await;
    let mut history = History::follow(&stand.cluster).await;

    // A lease that names each of the two replicas as its holder when that replica reads it.
    let sweeps = async {
        until("both lead", async || both_lead(&replicas).await).await;
        for cents in [150, 120, 200, 130] {
            swept_once(&stand, &mut history, cents).await;
        }
        assert!(both_lead(&replicas).await, "one of them gave up");
    };
    tokio::select! {
        () = sweeps => {}
        () = forge(&stand) => {}
    }

    // A leader that was frozen while another took over, and then resumes.
    until("one of them leads", async || {
        count(&replicas[0], LEADS).await + count(&replicas[1], LEADS).await == 1
    })
    .await;
    let frozen = usize::from(count(&replicas[0], LEADS).await == 0);
    service.replace([replicas[1 - frozen].admission]);
    replicas[frozen]
        .process
        .signal(Signal::STOP)
        .expect("freeze the leader");
    until("the other leads", async || {
        count(&replicas[1 - frozen], LEADS).await == 1
    })
    .await;
    swept_once(&stand, &mut history, 150).await;
    for node in ["n1", "n2", "n3"] {
        stand.annotate_ratio(node, 180).await;
    }
    replicas[frozen]
        .process
        .signal(Signal::CONT)
        .expect("thaw the leader");
    swept_once(&stand, &mut history, 180).await;
    until("the one that was frozen no longer leads", async || {
        count(&replicas[frozen], LEADS).await == 0
    })
    .await;
    for node in ["n1", "n2", "n3"] {
        assert_only(&history.new_revisions_of(node).await, Cpu, &[7200]);
    }
}

/// Status and reason of the condition for another owner of the ratio.
fn conflict(node: &Node) -> Option<(String, String)> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ours = |condition: &&NodeCondition| condition.type_ == names::RATIO_OWNER_CONFLICT;
    let condition = conditions.iter().find(ours)?;
    Some((condition.status.clone(), condition.reason.clone()?))
}

/// Behaves like Koordinator's slo-controller: it restores its own ratio whenever it finds another.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_ratio_writer_is_reported_on_the_node_and_ignored() {
    let stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", AUTO).await;
    stand.register(&webhook).await;
    let node = stand.create_node("n1", "4", "8Gi").await;
    let mut agent = stand.agent(&node, &webhook).await;
    agent.pods_until(|_| true).await.expect("pods");
    stand.set_ratio("n1", 300).await;
    agent
        .report(&hint("n1", &node.uid().expect("a UID"), 1, 120))
        .await
        .expect("an acknowledgement");
    let is_ours = |node: &Node| annotation(node, names::RATIO).is_some_and(|ratio| ratio.contains("1.20"));
    let ours = stand.node_until("n1", "our ratio", is_ours).await;
    assert_eq!(conflict(&ours), None);

    let mut history = History::follow(&stand.cluster).await;
    let write = async |second: u32| {
        let status = json!({"allocatable": {"cpu": "4"}, "conditions": [ready(second)]});
        let written = stand.patch_as_kubelet("n1", &status).await;
        written.expect("a write passes")
    };
    for second in 1..=3 {
        stand.annotate_ratio("n1", 300).await;
        let written = write(second).await;
        assert!(is_ours(&written), "{written:#?}");
    }
    // Replicas learn of it from their watch.
    let mut second = 3;
    until("the node has the condition", async || {
        second += 1;
        conflict(&write(second).await).is_some()
    })
    .await;
    let reported = stand
        .node_until("n1", "the conflict", |node| conflict(node).is_some())
        .await;
    assert_eq!(
        conflict(&reported),
        Some(("True".to_owned(), "RatioRewritten".to_owned()))
    );
    assert_only(&history.new_revisions_of("n1").await, Cpu, &[4800]);
}
