//! Tests of the sweep: which Nodes it touches or nudges, in which order and how often.

use std::sync::{
    Mutex,
    atomic::{AtomicU32, Ordering},
};

use futures::future::BoxFuture;
use headroom_domain::{hint::Note, names};
use rstest::rstest;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::store::{
    cluster::tests::{amplified, cluster, node, published, switched_off},
    informer::Store as _,
};

/// A Node of another name.
fn named(mut node: Value, name: &str) -> Value {
    node["metadata"]["name"] = json!(name);
    node
}

/// A Node that is raw in the store although we had amplified it.
fn fallen(mut node: Value, cpu: &str) -> Value {
    node["status"]["allocatable"]["cpu"] = json!(cpu);
    node
}

/// Node in `static`, where only the annotation gives the ratio.
fn fallen_by_annotation(cpu: &str) -> Value {
    let mut node = fallen(amplified(3, "4800m", 120), cpu);
    let annotations = node["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.retain(|key, _| key == names::MARKER || key == names::RAW_ALLOCATABLE);
    annotations.insert(names::MODE.to_owned(), json!("static"));
    annotations.insert(names::RATIO.to_owned(), json!(r#"{"cpu":1.2}"#));
    node
}

fn of_ratio(cpu: &str, ratio: &str) -> Value {
    node(3, cpu, &json!({names::MODE: "static", names::RATIO: ratio}))
}

fn off(mut node: Value) -> Value {
    node["metadata"]["annotations"][names::MODE] = json!("off");
    node
}

#[rstest]
#[case::as_it_should_be(amplified(3, "4800m", 120), None)]
#[case::nobody_asks_for_anything(node(3, "4", &json!({names::MODE: "static"})), None)]
#[case::fell_to_raw_while_we_were_away(fallen_by_annotation("4"), Some(SweepDirection::Repair))]
#[case::fell_to_raw_and_its_agent_has_not_reported_yet(fallen(amplified(3, "4800m", 120), "4"), None)]
#[case::ratio_is_new(of_ratio("4", r#"{"cpu":1.5}"#), Some(SweepDirection::Rise))]
#[case::switched_off(off(amplified(3, "4800m", 120)), Some(SweepDirection::Lower))]
#[case::switched_off_and_raw_already(
    off(fallen(amplified(3, "4800m", 120), "4")),
    Some(SweepDirection::Lower)
)]
fn a_node_is_amiss_when_its_allocatable_is_not_what_the_rules_say(
    #[case] node: Value,
    #[case] expected: Option<SweepDirection>,
) {
    let cluster = cluster([node], []);
    let node = cluster.nodes.get("n1").unwrap();
    assert_eq!(fault(&cluster, &node).map(|fault| fault.direction), expected);
}

#[test]
fn a_node_whose_agent_talks_to_us_is_left_to_nudges() {
    let cluster = cluster([fallen(amplified(3, "4800m", 120), "4")], []);
    cluster.hints.offer(published(2, 130), cluster.now());
    assert_eq!(fault(&cluster, &cluster.nodes.get("n1").unwrap()), None);
}

#[test]
fn what_is_left_over_is_nobodys_to_nudge() {
    let cluster = cluster([off(fallen(amplified(3, "4800m", 120), "4"))], []);
    cluster.hints.offer(published(2, 130), cluster.now());
    let fault = fault(&cluster, &cluster.nodes.get("n1").unwrap());
    assert_eq!(fault.map(|fault| fault.direction), Some(SweepDirection::Lower));
}

#[rstest]
#[case::ours_and_amplified(amplified(3, "4800m", 120), Some(SweepDirection::Lower))]
#[case::ours_and_raw_already(fallen(amplified(3, "4800m", 120), "4"), Some(SweepDirection::Lower))]
#[case::amplified_by_koordinators_webhook(
    node(3, "8", &json!({names::RATIO: r#"{"cpu":2}"#, names::RAW_ALLOCATABLE: r#"{"cpu":"4"}"#})),
    None
)]
#[case::asks_to_be_amplified(of_ratio("4", r#"{"cpu":1.5}"#), None)]
fn with_the_gate_off_nodes_with_our_marker_are_restored_and_no_others(
    #[case] node: Value,
    #[case] expected: Option<SweepDirection>,
) {
    let cluster = switched_off(cluster([node], []));
    cluster.hints.offer(published(2, 130), cluster.now());
    let fault = fault(&cluster, &cluster.nodes.get("n1").unwrap());
    assert_eq!(fault.map(|fault| fault.direction), expected);
}

/// Fault of a Node, if it has one.
fn fault(cluster: &Cluster, node: &Node) -> Option<Fault> {
    let (decision, hint) = cluster.preview(node, cluster.now());
    remedy::fault_of(cluster, node, &decision, hint.as_ref())
}

#[derive(Default)]
struct Notebook(Mutex<Vec<(String, u64, Instant)>>);

impl StatusPatcher for Notebook {
    fn trigger_admission<'a>(&'a self, node: &'a Node) -> BoxFuture<'a, Result<(), NudgeError>> {
        Box::pin(async move {
            let entry = (node.name.clone(), node.version, Instant::now());
            self.0.lock().unwrap().push(entry);
            Ok(())
        })
    }
}

impl StatusWriter for Notebook {
    fn write_hint<'a>(&'a self, node: &'a str, nudge: &'a Nudge) -> BoxFuture<'a, Result<u64, NudgeError>> {
        Box::pin(async move {
            let note: Note = nudge.note.parse().unwrap();
            let entry = (node.to_owned(), note.seq, Instant::now());
            self.0.lock().unwrap().push(entry);
            Ok(0)
        })
    }
}

fn sweeper(cluster: Arc<Cluster>, notebook: &Arc<Notebook>) -> Sweeper {
    let (toucher, writer) = (Arc::clone(notebook), Arc::clone(notebook));
    Sweeper::new(cluster, toucher, writer, Rates::DEFAULT)
}

/// Nodes that the sweep patches while the replica leads for this time.
async fn swept(nodes: Vec<Value>, lead: Duration) -> Vec<(String, u64, Duration)> {
    let notebook = Arc::new(Notebook::default());
    let sweeper = sweeper(Arc::new(cluster(nodes, [])), &notebook);
    let (leads_tx, leads) = watch::channel(false);
    let stop = CancellationToken::new();
    let task = tokio::spawn(sweeper.sweep(leads, stop.clone()));
    sleep(Duration::from_secs(30)).await;
    assert!(notebook.0.lock().unwrap().is_empty(), "only the leader sweeps");
    let start = Instant::now();
    leads_tx.send(true).unwrap();
    sleep(lead).await;
    leads_tx.send(false).unwrap();
    sleep(Duration::from_secs(30)).await;
    stop.cancel();
    task.await.unwrap();
    let touched = notebook.0.lock().unwrap();
    touched
        .iter()
        .map(|(name, version, at)| (name.clone(), *version, *at - start))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_amiss_twice_is_touched_and_then_ever_more_rarely() {
    let touched = swept(vec![fallen_by_annotation("4")], Duration::from_secs(40)).await;
    let at: Vec<u64> = touched.iter().map(|(_, _, at)| at.as_secs()).collect();
    assert_eq!(at, [0, 4, 12, 28]);
    assert_eq!((touched[0].0.as_str(), touched[0].1), ("n1", 3));
}

#[tokio::test(start_paused = true)]
async fn what_lowers_goes_first_and_rises_go_slowly() {
    let mut nodes: Vec<Value> = (0..5)
        .map(|i| named(of_ratio("4", r#"{"cpu":1.5}"#), &format!("a{i}")))
        .collect();
    nodes.extend((0..40).map(|i| named(fallen_by_annotation("4"), &format!("b{i:02}"))));
    nodes.push(named(off(amplified(3, "4800m", 120)), "c"));
    let touched = swept(nodes, Duration::from_millis(4_200)).await;
    let names: Vec<&str> = touched.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names[0], "c");
    assert!(names[1..41].iter().all(|name| name.starts_with('b')), "{names:?}");
    assert!(
        touched[40].2 < Duration::from_secs(3),
        "50 a second: {:?}",
        touched[40]
    );
    let rises: Vec<Duration> = touched[41..].iter().map(|(_, _, at)| *at).collect();
    assert!(rises.len() >= 2, "{names:?}");
    let apart = rises.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    assert!(apart.min() >= Some(Duration::from_secs(1)), "{rises:?}");
}

#[tokio::test]
async fn a_look_at_five_thousand_nodes_lets_others_have_their_turn() {
    let nodes = (0..5000).map(|i| named(amplified(3, "4800m", 120), &format!("n{i:04}")));
    let mut sweeper = sweeper(Arc::new(cluster(nodes, [])), &Arc::default());
    let turns = Arc::new(AtomicU32::new(0));
    let _other = AbortOnDropHandle::new(tokio::spawn({
        let turns = Arc::clone(&turns);
        async move {
            loop {
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        }
    }));
    let due = sweeper.due_nodes(Instant::now()).await;
    assert!(due.is_empty(), "{due:?}");
    let turns = turns.load(Ordering::Relaxed);
    assert!(turns >= 20, "a look at so many takes many slices: {turns}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_changes_is_touched_within_a_second() {
    let notebook = Arc::new(Notebook::default());
    let cluster = Arc::new(cluster([of_ratio("4", "{}")], []));
    let sweeper = sweeper(Arc::clone(&cluster), &notebook);
    let (leads_tx, leads) = watch::channel(true);
    let stop = CancellationToken::new();
    let task = tokio::spawn(sweeper.sweep(leads, stop.clone()));
    for (version, ratio) in [(4, r#"{"cpu":1.5}"#), (5, r#"{"cpu":2}"#), (6, r#"{"cpu":3}"#)] {
        // Rises and checks of all Nodes have their own rates.
        sleep(Duration::from_millis(5_100)).await;
        let changed = Instant::now();
        let mut node = of_ratio("4", ratio);
        node["metadata"]["resourceVersion"] = json!(version.to_string());
        cluster.nodes.apply(serde_json::from_value(node).unwrap());
        sleep(Duration::from_secs(1)).await;
        let touched = notebook.0.lock().unwrap().last().cloned();
        let (_, touched_version, at) = touched.expect("a touch");
        assert_eq!(touched_version, version);
        assert!(at - changed < Duration::from_secs(1), "{:?}", at - changed);
    }
    stop.cancel();
    task.await.unwrap();
    drop(leads_tx);
}

/// A cluster whose node is amplified to 1.20 by the report `seq` of 1.20, and the report that asks for `cents`.
fn reported(seq: u64, cents: u32) -> Arc<Cluster> {
    let cluster = Arc::new(cluster([amplified(3, "4800m", 120)], []));
    report(&cluster, seq, cents);
    cluster
}

fn report(cluster: &Cluster, seq: u64, cents: u32) {
    let mut hint = published(seq, cents);
    hint.pods_generation = u64::MAX;
    cluster.hints.offer(hint, cluster.now());
}

/// Writes of a leader for a node whose agent is connected to it, within this number of seconds; `each` runs once a
/// second.
async fn led(cluster: &Arc<Cluster>, seconds: u64, mut each: impl FnMut(u64)) -> Vec<(u64, u64)> {
    let notebook = Arc::new(Notebook::default());
    let sweeper = sweeper(Arc::clone(cluster), &notebook);
    let (leads_tx, leads) = watch::channel(true);
    let stop = CancellationToken::new();
    let began = Instant::now();
    let task = tokio::spawn(sweeper.sweep(leads, stop.clone()));
    for second in 0..seconds {
        each(second);
        sleep(Duration::from_secs(1)).await;
    }
    stop.cancel();
    task.await.unwrap();
    drop(leads_tx);
    let written = notebook.0.lock().unwrap();
    written
        .iter()
        .map(|(_, seq, at)| (*seq, (*at - began).as_secs()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn leader_retries_a_lowering_without_a_primary_every_five_seconds() {
    let cluster = reported(2, 105);
    assert_eq!(led(&cluster, 17, |_| ()).await, [(2, 5), (2, 10), (2, 15)]);
}

#[tokio::test(start_paused = true)]
async fn reports_that_ask_for_ever_less_do_not_put_the_leader_off() {
    let cluster = reported(2, 118);
    let each = |second: u64| report(&cluster, second + 3, u32::try_from(118 - second).unwrap());
    let written = led(&cluster, 8, each).await;
    assert_eq!(written.len(), 1, "{written:?}");
    assert!((5..=6).contains(&written[0].1), "{written:?}");
}

#[tokio::test(start_paused = true)]
async fn a_primary_that_lowers_is_left_to_it() {
    let cluster = reported(2, 118);
    let each = |second: u64| {
        let cents = u32::try_from(117 - second).unwrap();
        let cpu = format!("{}m", (cents + 1) * 40);
        let stored = amplified(4 + second, &cpu, cents + 1);
        cluster.nodes.apply(serde_json::from_value(stored).unwrap());
        report(&cluster, second + 3, cents);
    };
    assert_eq!(led(&cluster, 12, each).await, []);
}

#[tokio::test(start_paused = true)]
async fn what_the_last_report_of_an_ended_stream_asked_for_goes_with_its_hint() {
    let cluster = reported(2, 105);
    cluster.hints.leave("n1");
    let written = led(&cluster, 3, |_| ()).await;
    assert_eq!(written, [(2, 0)], "sequence number 2, not a touch of version 3");
}

#[tokio::test(start_paused = true)]
async fn what_is_to_rise_is_left_to_its_primary() {
    let cluster = reported(2, 135);
    assert_eq!(led(&cluster, 12, |_| ()).await, []);
}
