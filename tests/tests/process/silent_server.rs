//! An agent has another primary within five seconds when its hint server is stopped. The machine goes on: connections
//! stay open without answers.

use std::time::Duration;

use e2e::{
    agent::{ANY_PORT, AgentNode},
    pace::as_long,
};
use headroom_agent::local::status::Status;
use tokio::time::Instant;

/// How soon another server is the primary one.
const FOUND_WITHIN: Duration = Duration::from_secs(5);
/// What a busy machine may add to that: pings, answers and the status each wait for a turn.
const SLACK: Duration = Duration::from_millis(1_500);

/// The port of the server that the agent holds for the primary one, with streams to so many.
fn primary(status: &Status, open: usize) -> Option<u16> {
    let is_open = |port: &&headroom_agent::local::status::StreamStatus| port.state.name() == "open";
    if status.streams.iter().filter(is_open).count() < open {
        return None;
    }
    let primary = status.streams.iter().find(|stream| stream.is_primary)?;
    Some(primary.peer.port())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_is_stopped_is_found_within_five_seconds_and_another_is_told() {
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
    heir.report_until("it is the primary now", |heard| heard.report.primary)
        .await;
    let took = began.elapsed();
    println!("the other server was told after {took:?}");
    assert!(took <= FOUND_WITHIN + SLACK, "{took:?}");
    agent
        .status_until("it says so", |status| {
            primary(status, 1).is_some_and(|port| port != stopped)
        })
        .await;
}
