//! Tests of reports and directives: which reports are accepted, which directives follow, and which replica nudges.

use headroom_domain::names;
use rstest::rstest;
use serde_json::json;

use super::*;

#[tokio::test]
async fn an_agent_is_told_policy_and_pods_first() {
    let site = Site::new().await;
    let mut agent = site.open("agent-n1").await.unwrap();
    let Some(Kind::Policy(policy)) = agent.next().await.unwrap() else {
        panic!("no policy")
    };
    assert_eq!(policy.cpu.unwrap().max_cents, 200);
    assert_eq!(policy.memory.unwrap().max_cents, 150);
    let Some(Kind::Pods(pods)) = agent.next().await.unwrap() else {
        panic!("no pods")
    };
    assert_eq!((pods.generation, pods.node_uid.as_str()), (5, "u1"));
    assert_eq!(
        pods.raw_allocatable.unwrap().cpu_milli,
        4000,
        "raw, not the amplified 4800"
    );
    assert_eq!(pods.capacity.unwrap().memory_bytes, 8 << 30);
    let [only] = <[_; 1]>::try_from(pods.pods).unwrap();
    assert_eq!(
        (only.uid.as_str(), only.cpu_milli, only.deleting),
        ("a", 1000, false)
    );
}

#[tokio::test]
async fn a_good_report_is_accepted_and_kept() {
    let site = Site::new().await;
    let mut agent = site.open("agent-n1").await.unwrap();
    let ack = agent.report(report(7, 133)).await;
    assert_eq!(
        (ack.seq, ack.verdict(), ack.reason.as_str()),
        (7, Verdict::Accepted, "")
    );
    let (hint, _) = site.cluster.hints.get("n1", site.cluster.now()).unwrap();
    assert_eq!(hint.resources.cpu.published.0, 133);
}

fn absurd(change: impl FnOnce(&mut HintReport)) -> HintReport {
    let mut report = report(9, 120);
    change(&mut report);
    report
}

#[rstest]
#[case::same_sequence(report(8, 120), Verdict::Stale, "sequence number 8 is not above 8")]
#[case::older_sequence(report(1, 120), Verdict::Stale, "sequence number 1 is not above 8")]
#[case::capacity(absurd(|r| r.resources[0].capacity = u64::MAX), Verdict::Rejected, "resources.cpu.capacity: ")]
#[case::ratio(absurd(|r| r.resources[0].published_cents = 10_001), Verdict::Rejected, "resources.cpu.published_cents: ")]
#[case::brake(absurd(|r| r.resources[1].brake = 4), Verdict::Rejected, "resources.memory.brake: ")]
#[case::no_memory(absurd(|r| r.resources.truncate(1)), Verdict::Rejected, "resources: memory is missing")]
#[case::mode(absurd(|r| r.mode = 0), Verdict::Rejected, "mode: is unspecified")]
#[case::boot_id(absurd(|r| r.boot_id.clear()), Verdict::Rejected, "boot_id: is empty")]
#[case::other_node_object(absurd(|r| r.node_uid = "u2".into()), Verdict::Rejected, "node_uid: the Node has UID u1")]
#[case::demo_timing(absurd(|r| r.timing = 2), Verdict::Rejected, "timing: demo is not allowed here")]
#[tokio::test]
async fn an_unfit_report_is_answered_and_the_stream_lives(
    #[case] unfit: HintReport,
    #[case] verdict: Verdict,
    #[case] reason: &str,
) {
    let site = Site::new().await;
    let mut agent = site.open("agent-n1").await.unwrap();
    assert_eq!(agent.report(report(8, 120)).await.verdict(), Verdict::Accepted);
    let ack = agent.report(unfit).await;
    assert_eq!(ack.verdict(), verdict);
    assert!(ack.reason.starts_with(reason), "{}", ack.reason);
    assert_eq!(agent.report(report(10, 121)).await.verdict(), Verdict::Accepted);
}

#[tokio::test]
async fn demo_timing_is_taken_where_it_is_allowed() {
    let site = Site::with(Profile::ALL.to_vec(), ClientAuth::None).await;
    let mut agent = site.open("agent-n1").await.unwrap();
    let ack = agent.report(absurd(|report| report.timing = 2)).await;
    assert_eq!(ack.verdict(), Verdict::Accepted, "{}", ack.reason);
}

#[tokio::test]
async fn a_report_of_a_node_that_does_not_exist_is_rejected() {
    let site = Site::new().await;
    let mut agent = site.open("agent-n2").await.unwrap();
    let ack = agent.report(absurd(|report| report.node = "n2".into())).await;
    assert_eq!(
        (ack.verdict(), ack.reason.as_str()),
        (Verdict::Rejected, "node: there is no such Node")
    );
}

#[tokio::test]
async fn a_flood_is_dropped_and_the_stream_lives() {
    let site = Site::new().await;
    let mut agent = site.open("agent-n1").await.unwrap();
    let mut flooded = 0;
    for seq in 1..=200 {
        let ack = agent.report(report(seq, 120)).await;
        flooded += u32::from(ack.reason.starts_with("more than one report in "));
    }
    assert!(
        flooded > 0,
        "200 reports in a row, 20 at once and 20 a second are taken"
    );
    let (hint, _) = site.cluster.hints.get("n1", site.cluster.now()).unwrap();
    assert!(hint.seq >= 20);
    let deadline = Instant::now() + SOON;
    while agent.report(report(hint.seq + 1000, 121)).await.verdict() != Verdict::Accepted {
        assert!(Instant::now() < deadline, "nothing is accepted after a flood");
    }
}

#[tokio::test]
async fn a_report_that_is_too_long_ends_the_stream() {
    let site = Site::new().await;
    let mut agent = site.open("agent-n1").await.unwrap();
    let boot_id = "b".repeat(LONGEST_REPORT);
    agent
        .reports
        .send(absurd(|report| report.boot_id = boot_id))
        .await
        .unwrap();
    assert_eq!(agent.end().await.code(), Code::OutOfRange);
}

#[tokio::test]
async fn pod_events_are_told_and_repetitions_are_not() {
    let site = Site::new().await;
    let mut agent = site.open("agent-n1").await.unwrap();
    assert_eq!(agent.pods().await.pods.len(), 1);
    site.apply_pod(pod("b", 6, "2"));
    let pods = agent.pods().await;
    assert_eq!((pods.generation, pods.pods.len()), (6, 2));
    // Another node's pod and a heartbeat change nothing here; only the deletion after them is sent.
    let mut elsewhere = pod("c", 7, "2");
    elsewhere["spec"]["nodeName"] = "n2".into();
    site.apply_pod(elsewhere);
    site.apply_pod(pod("b", 8, "2"));
    let mut leaving = pod("b", 9, "2");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-11-20T00:00:00Z");
    site.apply_pod(leaving);
    let pods = agent.pods().await;
    assert_eq!(
        (
            pods.generation,
            pods.pods.iter().filter(|pod| pod.deleting).count()
        ),
        (9, 1)
    );
    site.delete_pod(pod("b", 10, "2"));
    assert_eq!(agent.pods().await.pods.len(), 1);
}

#[tokio::test]
async fn a_pod_that_comes_and_goes_in_between_still_moves_the_generation() {
    let site = Site::new().await;
    let mut agent = site.open("agent-n1").await.unwrap();
    assert_eq!(agent.pods().await.generation, 5);
    site.apply_pod(pod("b", 6, "2"));
    site.delete_pod(pod("b", 7, "2"));
    let mut pods = agent.pods().await;
    if pods.generation == 6 {
        pods = agent.pods().await;
    }
    assert_eq!((pods.generation, pods.pods.len()), (7, 1));
}

#[tokio::test]
async fn a_change_of_the_node_is_told() {
    let site = Site::new().await;
    let mut agent = site.open("agent-n1").await.unwrap();
    assert_eq!(
        agent.policy().await.mode(),
        headroom_proto::v1alpha1::AmplificationMode::Auto
    );
    let mut node = amplified(4, "4800m", 120);
    node["metadata"]["annotations"]["headroom.sh/mode"] = "guard".into();
    node["status"]["capacity"]["cpu"] = "8".into();
    site.cluster.nodes.apply(serde_json::from_value(node).unwrap());
    assert_eq!(
        agent.policy().await.mode(),
        headroom_proto::v1alpha1::AmplificationMode::Guard
    );
    assert_eq!(agent.pods().await.capacity.unwrap().cpu_milli, 8000);
}

#[tokio::test]
async fn another_policy_in_the_configmap_is_told() {
    let site = Site::new().await;
    let mut agent = site.open("agent-n1").await.unwrap();
    assert_eq!(agent.policy().await.cpu.unwrap().max_cents, 200);
    let config_map = |version: &str, text: &str| {
        let metadata = json!({"name": names::SLO_CONFIG, "resourceVersion": version});
        let object = json!({"metadata": metadata, "data": {names::AMPLIFICATION_CONFIG: text}});
        serde_json::from_value(object).unwrap()
    };
    let policies = &site.cluster.policies;
    policies.apply(config_map("1", r#"{"bounds":{"cpu":{"max":1.4}}}"#));
    assert_eq!(agent.policy().await.cpu.unwrap().max_cents, 140);
    policies.apply(config_map("2", r#"{"bounds":{"cpu":{"max":0}}}"#));
    policies.delete(config_map("2", ""));
    assert_eq!(agent.policy().await.cpu.unwrap().max_cents, 200);
}

#[tokio::test]
async fn only_the_replica_with_the_primary_stream_nudges() {
    let mut site = Site::new().await;
    let mut agent = site.open("agent-n1").await.unwrap();
    agent.report(report(1, 110)).await;
    agent
        .report(HintReport {
            primary: true,
            ..report(2, 105)
        })
        .await;
    let (node, note) = timeout(SOON, site.writes.recv()).await.unwrap().unwrap();
    let note: headroom_domain::hint::Note = note.parse().unwrap();
    assert_eq!((node.as_str(), note.seq, note.cpu.published), ("n1", 2, 105));
}

#[tokio::test]
async fn a_replica_that_becomes_primary_nudges_at_once_and_one_that_was_no_longer_does() {
    let mut site = Site::new().await;
    let mut agent = site.open("agent-n1").await.unwrap();
    agent.report(report(3, 105)).await;
    for (seq, verdict) in [(2, Verdict::Stale), (3, Verdict::Stale)] {
        let announced = HintReport {
            primary: true,
            ..report(seq, 105)
        };
        assert_eq!(agent.report(announced).await.verdict(), verdict);
        if seq == 2 {
            let early = timeout(Duration::from_millis(200), site.writes.recv()).await;
            assert!(early.is_err(), "an older report announces nothing");
        }
    }
    let (node, note) = timeout(SOON, site.writes.recv()).await.unwrap().unwrap();
    let note: headroom_domain::hint::Note = note.parse().unwrap();
    assert_eq!((node.as_str(), note.seq, note.cpu.published), ("n1", 3, 105));
    agent.report(report(3, 105)).await;
    while timeout(Duration::from_millis(200), site.writes.recv())
        .await
        .is_ok()
    {}
    agent.report(report(4, 102)).await;
    let later = timeout(Duration::from_secs(1), site.writes.recv()).await;
    assert!(later.is_err(), "another replica is primary: {later:?}");
}

#[test]
fn reports_in_these_tests_are_good() {
    assert!(NodeHint::try_from(report(1, 120)).is_ok());
}
