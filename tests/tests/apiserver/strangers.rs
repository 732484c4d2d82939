//! A stranger that holds thousands of connections to each port keeps no probe, review or agent out.
//!
//! With `HEADROOM_SOAK` set in the environment the test runs for a minute.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "tests panic: a returned error has no stack; figures are for people"
)]

use std::{env, net::SocketAddr, time::Duration};

use e2e::{
    admission::{Admission, review},
    scripted_agent::{ScriptedAgent, hint},
    stand::{AUTO, Stand},
    stranger,
};
use headroom_proto::v1alpha1::Verdict;
use headroom_testbed::{programs::get, webhook::Webhook};
use http::StatusCode;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

/// Duration of the held connections.
const FOR: Duration = Duration::from_secs(10);
const SOAK_FOR: Duration = Duration::from_secs(60);
/// Pause of the stranger before it opens a closed connection again.
const AGAIN_AFTER: Duration = Duration::from_secs(3);
/// Maximum time of each request on a machine that also runs the stranger.
const PASSES_WITHIN: Duration = Duration::from_secs(3);
/// Pause between two of each.
const EVERY: Duration = Duration::from_millis(250);

/// Keeps this number of connections to a port; each sends some bytes and then waits until it is closed.
fn besiege(siege: &mut JoinSet<()>, port: SocketAddr, connections: usize, says: &'static [u8]) {
    for _ in 0..connections {
        siege.spawn(async move {
            loop {
                if let Ok(mut stream) = stranger::connect(port).await
                    && stream.write_all(says).await.is_ok()
                {
                    let mut sink = [0; 512];
                    while stream.read(&mut sink).await.is_ok_and(|count| count > 0) {}
                }
                sleep(AGAIN_AFTER).await;
            }
        });
    }
}

/// Completed requests, and the longest time of one.
#[derive(Debug, Default)]
struct Passed {
    count: u32,
    longest: Duration,
}

impl Passed {
    async fn within<T>(&mut self, what: &str, passes: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let Ok(passed) = timeout(PASSES_WITHIN, passes).await else {
            panic!("{what} did not pass within {PASSES_WITHIN:?}, after {self:?}");
        };
        self.count += 1;
        self.longest = self.longest.max(begun.elapsed());
        passed
    }
}

async fn probe(webhook: &Webhook, until: Instant) -> Passed {
    let mut passed = Passed::default();
    while Instant::now() < until {
        for path in ["/livez", "/readyz", "/metrics"] {
            let answer = async {
                match get(webhook.admin, path).await {
                    Ok(answer) => answer,
                    // After a second; a kubelet, too, asks again before it acts.
                    Err(_) => get(webhook.admin, path).await.expect(path),
                }
            };
            let (status, _) = passed.within(path, answer).await;
            assert_eq!(status, StatusCode::OK, "{path}");
        }
        sleep(EVERY).await;
    }
    passed
}

async fn review_writes(webhook: &Webhook, node: &Node, until: Instant) -> Passed {
    let object = serde_json::to_value(node).expect("a Node");
    let body = review(&object, &object);
    let mut kept = Admission::connect(webhook).await;
    let mut passed = Passed::default();
    while Instant::now() < until {
        let on_kept = kept.post("/mutate-node-status", &body);
        let (status, answer) = passed.within("a review", on_kept).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        let on_new = async {
            let mut new = Admission::connect(webhook).await;
            new.post("/mutate-node-status", &body).await
        };
        let (status, answer) = passed.within("a review on a new connection", on_new).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        sleep(EVERY).await;
    }
    passed
}

async fn reconnect(stand: &Stand, webhook: &Webhook, node: &Node, until: Instant) -> Passed {
    let mut passed = Passed::default();
    let uid = node.uid().expect("a UID");
    let mut seq = 0;
    let mut kept: Option<ScriptedAgent> = None;
    while Instant::now() < until {
        if let Some(agent) = &mut kept {
            // The stream lives on through the reconnections of others.
            for _ in 0..3 {
                seq += 1;
                let hint = hint("n1", &uid, seq, 120);
                let reported = agent.report(&hint);
                let ack = passed.within("a report", reported).await.expect("an answer");
                assert_eq!(ack.verdict(), Verdict::Accepted, "{}", ack.reason);
                sleep(EVERY).await;
            }
        }
        let token = stand.agent_token(node).await;
        let open = ScriptedAgent::open(webhook.hints, &webhook.ca, Some(&token));
        kept = Some(passed.within("an agent's stream", open).await.expect("a stream"));
    }
    passed
}

#[tokio::test(flavor = "multi_thread")]
async fn unauthenticated_client_with_every_source_port_blocks_no_other_client() {
    let stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", AUTO).await;
    let node = stand.create_node("n1", "4", "8Gi").await;
    let mut siege = JoinSet::new();
    let ask_once = b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n";
    besiege(&mut siege, webhook.admin, 1000, ask_once);
    // The beginning of a TLS handshake.
    besiege(&mut siege, webhook.admission, 5000, b"\x16\x03\x01");
    besiege(&mut siege, webhook.hints, 2000, b"");
    // All have had the time to connect.
    sleep(AGAIN_AFTER).await;
    let lasts = env::var_os("HEADROOM_SOAK").map_or(FOR, |_set| SOAK_FOR);
    let until = Instant::now() + lasts;
    let (probes, reviews, agents) = tokio::join!(
        probe(&webhook, until),
        review_writes(&webhook, &node, until),
        reconnect(&stand, &webhook, &node, until),
    );
    println!("in {lasts:?} passed: probes {probes:?}, reviews {reviews:?}, agents {agents:?}");
    assert_eq!(siege.len(), 8000, "a stranger gave up");
}
