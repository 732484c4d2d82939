//! Tests of a full hint port: silent connections are closed, streams of agents stay open.

use tokio::net::TcpStream;

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
