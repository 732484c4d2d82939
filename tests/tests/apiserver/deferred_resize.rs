//! A resize that a real kubelet defers on a full node never raises allocatable, however often it is retried, and keeps
//! nothing from being lowered.
//!
//! The test asks for it again for half a minute. With `HEADROOM_SOAK` set in the environment it does so for ten
//! minutes, at first leaving the retries to the kubelet alone, which retries every three minutes.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{env, fs, time::Duration};

use e2e::{
    bound_pods::{all_run, bind_to_n1, delete, pending_resize, phases, resize},
    etcd::{History, assert_only, course},
    policy_install,
    stand::{AUTO, Stand, allocatable, kubelet, until},
    steady_agent::SteadyAgent,
};
use headroom_domain::{hint::Brake, resource::Resource::Cpu};
use headroom_testbed::{cluster::NodeOptions, webhook::Webhook};
use tokio::time::{Instant, sleep};

/// Pods of 1800 milli-cores each: two fit raw allocatable, three fit the amplified value.
const PODS: [&str; 3] = ["first", "second", "third"];
/// Requests of the third pod, one after the other: above the node's amplified value, below its maximum. A kubelet
/// checks a resize again after a user changes it.
const ASKED: [&str; 2] = ["3500m", LAST_ASKED];
const LAST_ASKED: &str = "3600m";
/// Interval between two requests.
const EVERY: Duration = Duration::from_secs(1);
const FOR: Duration = Duration::from_secs(30);
const SOAK_FOR: Duration = Duration::from_secs(600);
/// In the long form: how long the kubelet tries by itself, which is enough for two times.
const ALONE_FOR: Duration = Duration::from_secs(380);

/// A node of 4 CPUs whose agent has it amplified to 6, with 5.4 set aside for its pods.
struct Full {
    stand: Stand,
    history: History,
    agent: SteadyAgent,
    _webhook: Webhook,
}

impl Full {
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
        for name in PODS {
            bind_to_n1(&stand, name, "1800m").await;
            all_run(&stand, "the pods run").await;
        }
        let history = History::follow(&stand.cluster).await;
        Self {
            stand,
            history,
            agent,
            _webhook: webhook,
        }
    }

    /// Number of times the kubelet has refused the resize.
    fn refusals(&self) -> usize {
        let log = fs::read_to_string(self.stand.cluster.dir().join("n1.log")).expect("the kubelet's log");
        let is_refusal =
            |line: &&str| line.contains("Pod admission denied") && line.contains(r#"operation="resize""#);
        log.lines().filter(is_refusal).count()
    }

    /// Asks for a resize and waits until the kubelet has put it off.
    async fn ask(&self, cpu: &str) {
        let generation = resize(&self.stand, "third", cpu).await;
        until("the kubelet puts it off", async || {
            let pending = pending_resize(&self.stand, "third").await;
            pending.is_some_and(|pending| {
                pending.reason.as_deref() == Some("Deferred")
                    && pending.observed_generation.is_some_and(|seen| seen >= generation)
            })
        })
        .await;
    }

    /// Asks again and again until then; how often.
    async fn ask_until(&self, deadline: Instant) -> usize {
        let (mut asked, mut amounts) = (0, ASKED.iter().cycle());
        while let Some(cpu) = amounts.next().filter(|_| Instant::now() < deadline) {
            self.ask(cpu).await;
            asked += 1;
            sleep(EVERY).await;
        }
        asked
    }

    /// Waits until it publishes this amount.
    async fn until(&self, cpu: &str) {
        let is_so = |node: &_| allocatable(node, "cpu") == cpu;
        self.stand.node_until("n1", cpu, is_so).await;
    }
}

/// Number of PATCHes of node statuses that the API server has answered with 200.
async fn patches(stand: &Stand) -> f64 {
    let labels = [
        r#"code="200""#,
        r#"resource="nodes""#,
        r#"subresource="status""#,
        r#"verb="PATCH""#,
    ];
    stand.metrics().await.sum("apiserver_request_total", &labels)
}

#[tokio::test(flavor = "multi_thread")]
async fn deferred_resize_on_a_full_node_does_not_raise_allocatable() {
    let mut full = Full::start().await;
    let is_soak = env::var_os("HEADROOM_SOAK").is_some();
    let begun = Instant::now();
    full.ask(LAST_ASKED).await;
    if is_soak {
        let before = full.refusals();
        sleep(ALONE_FOR).await;
        let alone = full.refusals() - before;
        assert!(alone >= 2, "the kubelet tried {alone} times by itself");
        assert_only(&full.history.new_revisions_of("n1").await, Cpu, &[6000]);
    }
    let (before, patched) = (full.refusals(), patches(&full.stand).await);
    let asked = full.ask_until(begun + if is_soak { SOAK_FOR } else { FOR }).await;
    let refused = full.refusals() - before;
    println!(
        "asked {asked} times, refused {refused} times in {:?}",
        begun.elapsed()
    );
    assert!(
        asked >= 10 && refused >= asked,
        "asked {asked}, refused {refused}"
    );
    let states = full.history.new_revisions_of("n1").await;
    assert_only(&states, Cpu, &[6000]);
    // Each heartbeat was a chance, whether or not it had to be stored.
    let written = patches(&full.stand).await - patched;
    assert!(written >= 20.0, "{written} writes of the status");

    // A brake removes all but the capacity that is set aside; 1.35 is the first ratio of two decimals that covers it.
    full.agent.set_ratio(100, Brake::Stop);
    full.until("5400m").await;
    full.ask_until(Instant::now() + 5 * EVERY).await;
    full.ask(LAST_ASKED).await;
    // When a pod leaves, its capacity goes to the waiting pod or stays free.
    delete(&full.stand, "first").await;
    until("what waited is granted", async || {
        pending_resize(&full.stand, "third").await.is_none()
    })
    .await;
    full.until("5400m").await;
    delete(&full.stand, "third").await;
    full.until("4").await;
    let states = full.history.new_revisions_of("n1").await;
    assert_eq!(course(&states, Cpu).first(), Some(&5400), "{states:#?}");
    assert!(course(&states, Cpu).iter().all(|cpu| *cpu <= 5400), "{states:#?}");
    assert!(
        phases(&full.stand)
            .await
            .iter()
            .all(|(_, phase, _)| phase == "Running"),
        "no pod was rejected"
    );
}
