//! Tests of the debug service: access, node status, pages and watches; also of health and reflection.

use headroom_domain::{
    hint::PodTrust,
    policy::{InForce, Mode, Source},
};
use headroom_proto::v1alpha1::{Amounts, ListNodesRequest, NodeStatus, Rule};
use rstest::rstest;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use super::*;

fn all() -> ListNodesRequest {
    ListNodesRequest::default()
}

#[rstest]
#[case::nobody(None, Code::Unauthenticated)]
#[case::unknown(Some("garbage"), Code::Unauthenticated)]
#[case::agent(Some("agent-n1"), Code::PermissionDenied)]
#[case::not_allowed(Some("nosy"), Code::PermissionDenied)]
#[case::not_to_be_checked(Some("down"), Code::Unavailable)]
#[tokio::test]
async fn looking_on_takes_the_right_to(#[case] token: Option<&str>, #[case] code: Code) {
    let site = Site::new().await;
    let mut debug = DebugClient::new(site.channel(None).await);
    assert_eq!(
        debug.list_nodes(asked_by(all(), token)).await.unwrap_err().code(),
        code
    );
    assert_eq!(
        debug
            .watch_nodes(asked_by(all(), token))
            .await
            .unwrap_err()
            .code(),
        code
    );
}

#[tokio::test]
async fn a_node_is_shown_with_its_hint_and_reasons() {
    let site = Site::new().await;
    let mut agent = site.open("agent-n1").await.unwrap();
    agent.report(report(3, 128)).await;
    let mut debug = DebugClient::new(site.channel(None).await);
    let answer = debug
        .list_nodes(asked_by(all(), Some("person")))
        .await
        .unwrap()
        .into_inner();
    let [node] = <[_; 1]>::try_from(answer.nodes).unwrap();
    assert_eq!(
        (
            node.name.as_str(),
            node.uid.as_str(),
            node.policy_refused.as_str()
        ),
        ("n1", "u1", "")
    );
    let in_force = InForce::try_from(node.policy.unwrap()).unwrap();
    assert_eq!(
        (in_force.policy.mode, in_force.mode_from),
        (Mode::Auto, Source::File)
    );
    assert_eq!(
        (node.hint.unwrap().seq, node.hint_standing.as_str()),
        (3, "fresh")
    );
    assert_eq!(
        node.raw,
        Some(Amounts {
            cpu_milli: 4000,
            memory_bytes: 8 << 30
        })
    );
    assert_eq!(node.allocatable.unwrap().cpu_milli, 4800);
    assert_eq!((node.bound.unwrap().cpu_milli, node.pods), (1000, 1));
    let why = |rules: Vec<Rule>| -> Vec<String> { rules.into_iter().flat_map(|rule| rule.why).collect() };
    assert_eq!(
        [why(node.rules_cpu), why(node.rules_memory)],
        [
            vec!["hint".to_owned(), "slewed".to_owned()],
            vec!["hint".to_owned()]
        ]
    );
    let other = ListNodesRequest {
        node: "n9".to_owned(),
        ..all()
    };
    assert!(
        debug
            .list_nodes(asked_by(other, Some("person")))
            .await
            .unwrap()
            .into_inner()
            .nodes
            .is_empty()
    );
}

/// A cluster of 5,000 nodes, each with the report of an agent that knows of 110 pods.
fn fleet(site: &Site) -> Vec<String> {
    let mut names: Vec<String> = (0..5000).map(|i| format!("node-{i:04}")).collect();
    for name in &names {
        let mut node = amplified(3, "4800m", 120);
        node["metadata"]["name"] = name.as_str().into();
        site.cluster.nodes.apply(serde_json::from_value(node).unwrap());
        let mut hint = published(1, 120);
        name.clone_into(&mut hint.node);
        hint.trust = (0..110)
            .map(|pod| PodTrust {
                uid: format!("00000000-0000-4000-8000-{pod:012}"),
                cpu_ppm: 1_000_000,
                memory_ppm: 1_000_000,
                exclusive_cpus_milli: 0,
            })
            .collect();
        site.cluster.hints.offer(hint, site.cluster.now());
    }
    names.insert(0, "n1".to_owned());
    names
}

#[tokio::test]
async fn five_thousand_nodes_are_listed_page_by_page_without_their_pods() {
    let site = Site::new().await;
    let names = fleet(&site);
    let mut debug = DebugClient::new(site.channel(None).await);
    let (mut listed, mut asked) = (Vec::new(), all());
    loop {
        let page = debug
            .list_nodes(asked_by(asked.clone(), Some("person")))
            .await
            .unwrap()
            .into_inner();
        let bytes: usize = page.nodes.iter().map(NodeStatus::bytes).sum();
        assert!(bytes < 2 << 20, "{bytes}");
        let last = page.nodes.last().unwrap().name.clone();
        listed.extend(page.nodes);
        if page.next.is_empty() {
            break;
        }
        assert_eq!(page.next, last);
        asked.after = page.next;
    }
    assert!(listed.iter().map(|node| &node.name).eq(&names));
    assert!(
        listed[1..]
            .iter()
            .all(|node| node.hint.as_ref().unwrap().trust.is_empty())
    );
}

#[tokio::test]
async fn a_watch_sends_all_pages_each_time() {
    let site = Site::new().await;
    let names = fleet(&site);
    let mut debug = DebugClient::new(site.channel(None).await);
    let watch = debug.watch_nodes(asked_by(all(), Some("person"))).await;
    let mut pages = watch.unwrap().into_inner();
    for round in 0..2 {
        let mut watched = Vec::new();
        loop {
            let page = timeout(SOON, pages.message()).await.unwrap().unwrap().unwrap();
            watched.extend(page.nodes.into_iter().map(|node| node.name));
            if page.next.is_empty() {
                break;
            }
        }
        assert_eq!(watched, names, "round {round}");
        site.apply_pod(pod("b", 6, "2"));
    }
}

#[tokio::test]
async fn a_watch_goes_on_when_something_changes() {
    let site = Site::new().await;
    let mut debug = DebugClient::new(site.channel(None).await);
    let watch = debug.watch_nodes(asked_by(all(), Some("person"))).await;
    let mut answers = watch.unwrap().into_inner();
    let first = timeout(SOON, answers.message()).await.unwrap().unwrap().unwrap();
    assert_eq!(first.nodes[0].pods, 1);
    site.apply_pod(pod("b", 6, "2"));
    let second = timeout(SOON, answers.message()).await.unwrap().unwrap().unwrap();
    assert_eq!(second.nodes[0].pods, 2);
    site.shutdown.drain();
    let end = timeout(SOON, answers.message()).await.unwrap().unwrap_err();
    assert_eq!(end.code(), Code::Unavailable);
}

#[tokio::test]
async fn health_and_reflection_are_there_for_everybody() {
    let site = Site::new().await;
    let channel = site.channel(None).await;
    let mut health = HealthClient::new(channel.clone());
    let service = || HealthCheckRequest {
        service: "headroom.v1alpha1.Hints".to_owned(),
    };
    let answer = health.check(service()).await.unwrap().into_inner();
    assert_eq!(answer.status(), ServingStatus::Serving);

    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut reflection = ServerReflectionClient::new(channel);
    let answers = reflection
        .server_reflection_info(tokio_stream::once(request))
        .await;
    let answer = answers.unwrap().into_inner().message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}")
    };
    let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    for name in [
        "headroom.v1alpha1.Debug",
        "headroom.v1alpha1.Hints",
        "grpc.health.v1.Health",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }

    site.shutdown.drain();
    let deadline = Instant::now() + SOON;
    while health.check(service()).await.unwrap().into_inner().status() != ServingStatus::NotServing {
        assert!(Instant::now() < deadline, "still serving");
    }
}
