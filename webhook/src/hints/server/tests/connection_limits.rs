//! Tests of a full hint port, and of calls without a credential: silent connections are closed, streams of agents stay
//! open, and messages, heads and time are bounded.

use futures::FutureExt as _;
use tokio::{io::AsyncReadExt as _, net::TcpStream};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use super::*;

async fn crowded(connections: usize) -> Site {
    let limits = Limits {
        connections,
        per_source: Some(2),
        settle: Duration::ZERO,
        ..LIMITS
    };
    Site::within(limits, vec![Profile::Production], ClientAuth::None).await
}

#[tokio::test]
async fn silent_connections_do_not_use_up_agent_connections() {
    let site = crowded(4).await;
    let mut first = site.open("agent-n1").await.unwrap();
    first.pods().await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(site.address).await.unwrap());
    }
    let mut second = site.open("agent-n2").await.unwrap();
    assert_eq!(first.report(report(1, 120)).await.verdict(), Verdict::Accepted);
    let of_second = HintReport {
        node: "n2".to_owned(),
        ..report(1, 120)
    };
    assert_eq!(second.report(of_second).await.verdict(), Verdict::Rejected);
}

#[tokio::test]
async fn connections_without_an_identity_are_limited_in_all() {
    let limits = Limits {
        unproven: 3,
        per_source: None,
        settle: Duration::ZERO,
        ..LIMITS
    };
    let site = Site::within(limits, vec![Profile::Production], ClientAuth::None).await;
    let mut agents = Vec::new();
    for node in 1..=5_u64 {
        agents.push((node, site.open(&format!("agent-n{node}")).await.unwrap()));
    }
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(site.address).await.unwrap());
    }
    for stream in silent.iter_mut().take(17) {
        assert!(timeout(SOON, stream.read_u8()).await.unwrap().is_err());
    }
    for stream in silent.iter_mut().skip(17) {
        assert!(
            stream.read_u8().now_or_never().is_none(),
            "one of the three is closed"
        );
    }
    for (node, agent) in &mut agents {
        let report = HintReport {
            node: format!("n{node}"),
            ..report(1, 120)
        };
        // Only one of these nodes exists.
        let verdict = agent.report(report).await.verdict();
        assert_eq!(verdict == Verdict::Accepted, *node == 1);
    }
}

#[tokio::test]
async fn health_calls_are_bounded_in_size_and_time() {
    let site = Site::new().await;
    let mut health = HealthClient::new(site.channel(None).await);
    let long = HealthCheckRequest {
        service: "x".repeat(5_000),
    };
    let refused = health.check(long).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange, "{refused}");
    let begun = Instant::now();
    let mut watch = health
        .watch(HealthCheckRequest::default())
        .await
        .unwrap()
        .into_inner();
    watch.message().await.unwrap().unwrap();
    let end = timeout(SOON, watch.message()).await.unwrap().unwrap_err();
    assert_eq!(end.code(), Code::DeadlineExceeded, "{end}");
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn agents_that_share_an_address_are_not_counted_against_it() {
    let site = crowded(8).await;
    let mut agents = Vec::new();
    for node in 1..=6_u64 {
        agents.push((node, site.open(&format!("agent-n{node}")).await.unwrap()));
    }
    for seq in 1..=2 {
        for (node, agent) in &mut agents {
            let report = HintReport {
                node: format!("n{node}"),
                ..report(seq, 120)
            };
            // An answer is all that matters; only one of these nodes exists.
            let verdict = agent.report(report).await.verdict();
            assert_eq!(verdict == Verdict::Accepted, *node == 1);
        }
    }
}
