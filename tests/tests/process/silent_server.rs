//! Tests of an agent whose hint server is silent or sends nonsense: it measures on, and it has another primary within
//! five seconds when a server is stopped while its connections stay open.

use std::{fs, time::Duration};

use e2e::{
    agent::{ANY_PORT, AgentNode, Running},
    hint_server::this_machine,
    pace::as_long,
};
use headroom_agent::local::status::{Status, StreamState};
use headroom_proto::v1alpha1::{Amounts, Pods};
use tokio::time::Instant;

/// Maximum time until another server is primary.
const FOUND_WITHIN: Duration = Duration::from_secs(5);
/// Allowance for a busy machine: pings, answers and the status each wait for a CPU.
const SLACK: Duration = Duration::from_millis(1_500);

/// An agent on procfs with these flags, whose only hint server is the node's.
async fn agent(node: &AgentNode, flags: &[&str]) -> Running {
    node.agent_with(|options| {
        "procfs".clone_into(&mut options.source);
        options.servers = vec![node.server.address];
        options.flags = flags.iter().map(|&flag| flag.to_owned()).collect();
    })
    .await
}

/// The time up to which the agent has measured, in nanoseconds.
fn measured_until(status: &Status) -> u64 {
    status.measured.map_or(0, |measured| measured.until_ns)
}

/// Port of the agent's primary server, once it has this number of streams.
fn primary(status: &Status, open: usize) -> Option<u16> {
    let is_open = |port: &&headroom_agent::local::status::StreamStatus| port.state.name() == "open";
    if status.streams.iter().filter(is_open).count() < open {
        return None;
    }
    let primary = status.streams.iter().find(|stream| stream.is_primary)?;
    Some(primary.peer.port())
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_primary_is_detected_within_five_seconds_and_another_is_chosen() {
    let mut node = AgentNode::start().await;
    let mut other = node.another_server(ANY_PORT).await;
    let addresses = [node.server.address, other.address];
    let mut agent = node
        .agent_with(|options| options.servers = addresses.to_vec())
        .await;
    let status = agent
        .status_until("two streams", |status| primary(status, 2).is_some())
        .await;
    let stopped = primary(&status, 2).expect("a primary");
    let (silent, heir) = if node.server.address.port() == stopped {
        (&mut node.server, &mut other)
    } else {
        (&mut other, &mut node.server)
    };
    let began = Instant::now();
    silent.stall(as_long(Duration::from_secs(60)));
    heir.report_until("it is the primary now", |received| received.report.primary)
        .await;
    let took = began.elapsed();
    println!("the other server became the primary after {took:?}");
    assert!(took <= FOUND_WITHIN + SLACK, "{took:?}");
    agent
        .status_until("the status has the new primary", |status| {
            primary(status, 1).is_some_and(|port| port != stopped)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_server_does_not_delay_samples() {
    let mut node = AgentNode::start().await;
    let listener = std::net::TcpListener::bind(ANY_PORT).expect("bind");
    node.server.address = listener.local_addr().expect("its address");
    let mut agent = agent(&node, &["--log-filter=debug"]).await;
    agent
        .until("a measurement", async |_, status| measured_until(status) > 0)
        .await;
    let began = agent.status().await.expect("status");
    // Three seconds of measurements while the first attempt is still waiting for an answer.
    agent
        .until("it measures on", async |_, status| {
            measured_until(status) >= measured_until(&began) + 3_000_000_000
        })
        .await;
    agent
        .until("the attempt has ended", async |_, status| {
            status.streams.iter().any(|stream| stream.last_problem.is_some())
        })
        .await;
    let log = agent.log();
    assert!(!log.contains("dropped a sample"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_server_messages_are_counted_and_logged_once_while_sampling_continues() {
    // A negative number that is read as an unsigned one.
    let amounts = Some(Amounts {
        cpu_milli: u64::MAX - 999,
        memory_bytes: 1 << 30,
    });
    let pods = Pods {
        raw_allocatable: amounts,
        ..this_machine()
    };
    let node = AgentNode::with_pods(pods).await;
    let mut agent = agent(&node, &[]).await;
    let invalid = r#"headroom_agent_directives_total{kind="invalid"}"#;
    agent
        .until("it is counted", async |agent, _| {
            agent.counted(invalid).await == 1
        })
        .await;
    // A new token is used on a new stream, on which the server sends the same again.
    fs::write(node.folder.path().join("agent-n1.token"), "another\n").expect("rotate");
    agent
        .until("it is counted again", async |agent, _| {
            agent.counted(invalid).await == 2
        })
        .await;
    let text = agent.log();
    let logged = text.lines().filter(|line| line.contains("unusable directive"));
    let logged: Vec<_> = logged.collect();
    assert!(
        logged.len() == 1 && logged[0].contains("raw_allocatable.cpu"),
        "{logged:?}"
    );
    let before = measured_until(&agent.status().await.expect("status"));
    agent
        .until("it measures on", async |_, status| {
            status
                .streams
                .iter()
                .all(|stream| stream.state == StreamState::Open)
                && status.mode == "BLIND"
                && measured_until(status) > before
        })
        .await;
}
