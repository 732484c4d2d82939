//! Tests of nudges: which changes are worth one, how soon it is written, and how failed or ineffective writes are
//! repeated.

use std::{
    pin::Pin,
    sync::{Mutex, atomic::AtomicU64},
    task::{Context, Poll},
};

use futures::future::{self, BoxFuture};
use headroom_domain::{
    estimate::Profile,
    hint::{Brake, NodeHint, Note, Origin},
    names,
};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::{task::yield_now, time::advance};
use tokio_util::task::AbortOnDropHandle;

use super::{
    retry::{FIRST_PAUSE, LONGEST_PAUSE},
    *,
};
use crate::store::{
    changes::Urgency,
    cluster::tests::{amplified, cluster, node, pod, published},
    informer::Store as _,
};

fn offer(cluster: &Cluster, hint: NodeHint) {
    let hint = NodeHint {
        pods_generation: u64::MAX,
        ..hint
    };
    cluster.hints.offer(hint, cluster.now());
    cluster.changes.notify("n1", Urgency::Usual);
}

fn braked(seq: u64, cents: u32, brake: Brake) -> NodeHint {
    let mut hint = published(seq, cents);
    hint.resources.cpu.brake = brake;
    hint
}

fn direction(cluster: &Cluster) -> Option<Direction> {
    let due = due(cluster, &cluster.nodes.get("n1").unwrap());
    due.nudge.map(|nudge| nudge.direction)
}

#[rstest]
#[case::nothing_new(published(2, 120), None)]
#[case::more_room(published(2, 121), Some(Direction::Rise))]
#[case::less_room(published(2, 119), Some(Direction::Lower))]
#[case::brake_fires(braked(2, 120, Brake::Hold), Some(Direction::Note))]
#[case::brake_takes_room(braked(2, 110, Brake::Shed), Some(Direction::Lower))]
#[tokio::test(start_paused = true)]
async fn a_nudge_is_due_when_a_hint_changes_something(
    #[case] hint: NodeHint,
    #[case] expected: Option<Direction>,
) {
    let cluster = cluster([amplified(3, "4800m", 120)], [pod("a", 2, "1")]);
    advance(Duration::from_secs(300)).await;
    assert_eq!(direction(&cluster), None, "no hint, no nudge");
    offer(&cluster, hint);
    assert_eq!(direction(&cluster), expected);
}

#[test]
fn what_a_pod_holds_is_a_reason_and_what_it_asks_for_is_none() {
    let cluster = cluster([node(3, "4", &json!({}))], []);
    offer(&cluster, published(1, 100));
    assert_eq!(direction(&cluster), None);
    let mut big = pod("big", 9, "4500m");
    big["status"] = json!({"phase": "Pending"});
    cluster.pods.apply(serde_json::from_value(big.clone()).unwrap());
    assert_eq!(direction(&cluster), None);
    big["metadata"]["resourceVersion"] = json!("10");
    big["status"] = json!({"phase": "Running", "containerStatuses": [
        {"name": "a", "allocatedResources": {"cpu": "4500m"}},
    ]});
    cluster.pods.apply(serde_json::from_value(big).unwrap());
    assert_eq!(direction(&cluster), Some(Direction::Rise));
}

#[test]
fn what_only_the_annotation_says_is_nudged_by_nobody() {
    let mut object = amplified(3, "4800m", 120);
    // The stored value has risen since, so a write is due.
    object["status"]["allocatable"]["cpu"] = json!("4900m");
    let cluster = cluster([object], []);
    let node = cluster.nodes.get("n1").unwrap();
    let (decision, found) = cluster.preview(&node, cluster.now());
    assert_eq!(found.map(|found| found.origin), Some(Origin::Annotation));
    assert!(decision.allocatable.cpu.is_some(), "a sweep would mend it");
    assert_eq!(due(&cluster, &node).nudge, None);
}

#[rstest]
#[case::forged("8")]
#[case::held("4800m")]
fn what_only_the_marker_says_is_nudged_by_nobody(#[case] marked: &str) {
    let mut object = amplified(3, "4800m", 120);
    let annotations = object["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.insert(names::HINT.to_owned(), json!(r#"{"v":2}"#));
    let marker = annotations[names::MARKER].as_str().unwrap();
    let marker = marker.replace(r#""cpu":"4800m""#, &format!(r#""cpu":"{marked}""#));
    annotations.insert(names::MARKER.to_owned(), json!(marker));
    // The stored value has risen since, so a write is due.
    object["status"]["allocatable"]["cpu"] = json!("4900m");
    let cluster = cluster([object], []);
    let node = cluster.nodes.get("n1").unwrap();
    let (_, found) = cluster.preview(&node, cluster.now());
    assert_eq!(found.map(|found| found.origin), Some(Origin::Marker));
    assert_eq!(due(&cluster, &node).nudge, None);
}

#[test]
fn a_mode_that_records_no_hint_is_not_nudged_for_a_brake() {
    let cluster = cluster([node(3, "4", &json!({names::MODE: "static"}))], []);
    offer(&cluster, braked(1, 128, Brake::Stop));
    assert_eq!(direction(&cluster), None);
}

/// Another replica may not know the mode yet, and counts the hint as fresh. In `static` the recorded ratio is 1.18,
/// which was never measured.
#[rstest]
#[case::fresh(60, 130, 120)]
#[case::fresh_and_less_than_is_applied(60, 105, 105)]
#[case::that_may_only_stay(61, 130, 120)]
#[case::that_holds_nothing(301, 130, 100)]
#[tokio::test(start_paused = true)]
async fn a_nudge_says_no_more_than_its_hint_counts_for(
    #[values("off", "static")] mode: &str,
    #[case] age: u64,
    #[case] cents: u32,
    #[case] expected: u32,
) {
    let mut object = amplified(3, "4800m", 120);
    object["metadata"]["annotations"][names::MODE] = json!(mode);
    object["metadata"]["annotations"][names::STATIC_RATIO] = json!(r#"{"cpu":1.18}"#);
    let cluster = cluster([object], []);
    advance(Duration::from_secs(3_600)).await;
    offer(&cluster, published(2, cents));
    advance(Duration::from_secs(age)).await;
    let nudge = due(&cluster, &cluster.nodes.get("n1").unwrap()).nudge.unwrap();
    assert_eq!(nudge.direction, Direction::Lower);
    let note: Value = serde_json::from_str(&nudge.note).unwrap();
    assert_eq!(note["cpu"]["pub"], expected);
}

#[test]
fn lowering_one_resource_counts_as_lowering() {
    let cluster = cluster([amplified(3, "4800m", 120)], []);
    let mut hint = published(2, 110);
    hint.resources.memory.published = headroom_domain::ratio::Cents(120);
    offer(&cluster, hint);
    assert_eq!(direction(&cluster), Some(Direction::Lower));
}

/// Applies the endpoint's change to the stored Node, or nothing, or fails.
struct FakeWriter {
    cluster: Arc<Cluster>,
    version: AtomicU64,
    mood: Mutex<WriterMood>,
    written: Mutex<Vec<(Instant, Nudge)>>,
}

#[derive(Clone, Copy, PartialEq)]
enum WriterMood {
    Applies,
    Ignores,
    Fails,
    Hangs,
    /// Has a newer version of the Node than was seen so far.
    IsAhead,
}

impl FakeWriter {
    fn new(cluster: &Arc<Cluster>, mood: WriterMood) -> Arc<Self> {
        Arc::new(Self {
            cluster: Arc::clone(cluster),
            version: AtomicU64::new(4),
            mood: Mutex::new(mood),
            written: Mutex::default(),
        })
    }

    fn store(&self, name: &str, cpu: &str, note: &Note) -> u64 {
        let version = self.version.fetch_add(1, Ordering::Relaxed);
        let mut stored: Value = amplified(version, cpu, note.cpu.published);
        stored["metadata"]["name"] = name.into();
        stored["metadata"]["annotations"][names::HINT] = note.to_string().into();
        self.cluster.nodes.apply(serde_json::from_value(stored).unwrap());
        version
    }
}

impl StatusWriter for FakeWriter {
    fn write_hint<'a>(&'a self, name: &'a str, nudge: &'a Nudge) -> BoxFuture<'a, Result<u64, NudgeError>> {
        Box::pin(async move {
            let mood = *self.mood.lock().unwrap();
            let entry = (Instant::now(), nudge.clone());
            self.written.lock().unwrap().push(entry);
            match mood {
                WriterMood::Hangs => future::pending().await,
                WriterMood::Fails => return Err(NudgeError::Slow),
                WriterMood::Ignores => return Ok(0),
                WriterMood::IsAhead if nudge.version.is_some() => return Err(NudgeError::Overtaken),
                WriterMood::Applies | WriterMood::IsAhead => {}
            }
            let node = self.cluster.nodes.get(name).unwrap();
            let (decision, _) = self.cluster.preview(&node, self.cluster.now());
            let cpu = decision.allocatable.cpu.or(node.state.allocatable.cpu);
            let note: Note = nudge.note.parse().unwrap();
            Ok(self.store(name, &cpu.unwrap().to_string(), &note))
        })
    }
}

struct FollowedNode {
    cluster: Arc<Cluster>,
    writer: Arc<FakeWriter>,
    _task: AbortOnDropHandle<()>,
}

impl FollowedNode {
    fn new(mood: WriterMood) -> Self {
        let cluster = Arc::new(cluster([amplified(3, "4800m", 120)], []));
        let writer = FakeWriter::new(&cluster, mood);
        let nudger = Arc::new(Nudger::new(
            Arc::clone(&cluster),
            Arc::clone(&writer) as _,
            Rates::DEFAULT,
        ));
        let task = AbortOnDropHandle::new(tokio::spawn(nudger.follow("n1".to_owned())));
        Self {
            cluster,
            writer,
            _task: task,
        }
    }

    fn writes(&self) -> usize {
        self.writer.written.lock().unwrap().len()
    }

    /// Lets paused time run until this number of writes; returns their times, counted from now.
    async fn until(&self, writes: usize) -> Vec<Duration> {
        let start = Instant::now();
        timeout(Duration::from_secs(600), async {
            while self.writes() < writes {
                sleep(Duration::from_millis(1)).await;
            }
        })
        .await
        .expect("writes within ten minutes");
        let written = self.writer.written.lock().unwrap();
        written
            .iter()
            .map(|(at, _)| at.saturating_duration_since(start))
            .collect()
    }

    /// Lets everything that is ready run.
    async fn settle() {
        for _ in 0..100 {
            yield_now().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lowering_is_written_at_once_and_once() {
    let followed = FollowedNode::new(WriterMood::Applies);
    FollowedNode::settle().await;
    assert_eq!(followed.writes(), 0);
    offer(&followed.cluster, published(2, 110));
    FollowedNode::settle().await;
    offer(&followed.cluster, published(3, 105));
    FollowedNode::settle().await;
    assert_eq!(followed.writes(), 2, "both without any time passing");
    let node = followed.cluster.nodes.get("n1").unwrap();
    assert_eq!(node.state.allocatable.cpu.unwrap().to_string(), "4200m");
    sleep(Duration::from_secs(300)).await;
    assert_eq!(followed.writes(), 2);
}

/// A hint of an agent whose frames take a second.
fn quick(seq: u64, cents: u32) -> NodeHint {
    NodeHint {
        timing: Profile::Demo,
        ..published(seq, cents)
    }
}

impl FollowedNode {
    fn cpu(&self) -> String {
        let node = self.cluster.nodes.get("n1").unwrap();
        node.state.allocatable.cpu.unwrap().to_string()
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_rises_step_by_step_a_frame_apart() {
    let followed = FollowedNode::new(WriterMood::Applies);
    sleep(Duration::from_secs(1)).await;
    offer(&followed.cluster, quick(2, 134));
    let times = followed.until(3).await;
    let apart = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    assert!(apart.min().unwrap() >= Duration::from_secs(1), "{times:?}");
    assert!(times[2] < Duration::from_secs(4), "{times:?}");
    let written = followed.writer.written.lock().unwrap().clone();
    let ratios = written
        .iter()
        .map(|(_, nudge)| nudge.note.parse::<Note>().unwrap().cpu.published);
    assert_eq!(ratios.collect::<Vec<_>>(), [125, 130, 134]);
}

/// A running pod holds 4,800m of 4,000m: allocatable cannot fall below 1.20.
fn with_pod_at_the_floor() -> FollowedNode {
    let followed = FollowedNode::new(WriterMood::Applies);
    let pod = serde_json::from_value(pod("a", 2, "4800m")).unwrap();
    followed.cluster.pods.apply(pod);
    followed
}

impl FollowedNode {
    /// Ratios in the written annotations.
    fn ratios(&self) -> Vec<u32> {
        let written = self.writer.written.lock().unwrap();
        written
            .iter()
            .map(|(_, nudge)| nudge.note.parse::<Note>().unwrap().cpu.published)
            .collect()
    }
}

#[tokio::test(start_paused = true)]
async fn recorded_ratio_below_the_floor_rises_a_step_per_frame_without_heartbeats() {
    let followed = with_pod_at_the_floor();
    followed
        .writer
        .store("n1", "4800m", &Note::from_hint(&quick(2, 100)));
    sleep(Duration::from_secs(2)).await;
    offer(&followed.cluster, quick(3, 134));
    let times = followed.until(7).await;
    assert_eq!(followed.ratios(), [105, 110, 115, 120, 125, 130, 134]);
    let apart = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    assert!(apart.min().unwrap() >= Duration::from_secs(1), "{times:?}");
    assert!(times[6] < Duration::from_secs(8), "{times:?}");
    assert_eq!(followed.cpu(), "5360m");
    sleep(Duration::from_secs(30)).await;
    assert_eq!(followed.writes(), 7, "nothing is left to raise");
}

#[tokio::test(start_paused = true)]
async fn heartbeats_and_nudges_together_raise_the_recorded_ratio_a_step_per_frame() {
    let followed = with_pod_at_the_floor();
    let FollowedNode { cluster, writer, .. } = &followed;
    writer.store("n1", "4800m", &Note::from_hint(&quick(2, 100)));
    sleep(Duration::from_secs(2)).await;
    offer(cluster, quick(3, 134));
    let mut steps = vec![(100, Instant::now())];
    while followed.cpu() != "5360m" {
        let node = cluster.nodes.get("n1").unwrap();
        let (decision, _) = cluster.preview(&node, cluster.now());
        let recorded = decision.annotations.iter().find(|(key, _)| *key == names::HINT);
        let note: Note = recorded.unwrap().1.as_ref().unwrap().parse().unwrap();
        let cpu = decision.allocatable.cpu.or(node.state.allocatable.cpu).unwrap();
        writer.store("n1", &cpu.to_string(), &note);
        if note.cpu.published > steps.last().unwrap().0 {
            steps.push((note.cpu.published, Instant::now()));
        }
        sleep(Duration::from_millis(300)).await;
    }
    let took = steps.last().unwrap().1 - steps[0].1;
    assert!(took < Duration::from_secs(9), "{steps:?}");
    let ratios: Vec<u32> = steps.iter().map(|(ratio, _)| *ratio).collect();
    assert_eq!(ratios, [100, 105, 110, 115, 120, 125, 130, 134]);
    for pair in steps.windows(2).skip(1) {
        // A heartbeat observes a nudge's step up to 300 ms late.
        assert!(pair[1].1 - pair[0].1 >= Duration::from_millis(700), "{steps:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn limit_of_a_guarded_node_above_its_own_ratio_is_not_nudged() {
    let mut object = amplified(3, "4800m", 120);
    let annotations = object["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.insert(names::MODE.to_owned(), json!("guard"));
    annotations.insert(names::STATIC_RATIO.to_owned(), json!(r#"{"cpu":1.2}"#));
    let cluster = cluster([object], []);
    advance(Duration::from_secs(300)).await;
    offer(&cluster, published(2, 140));
    assert_eq!(direction(&cluster), None);
}

#[tokio::test(start_paused = true)]
async fn a_fall_does_not_wait_for_a_rise() {
    let followed = FollowedNode::new(WriterMood::Applies);
    sleep(Duration::from_secs(1)).await;
    offer(&followed.cluster, quick(2, 125));
    followed.until(1).await;
    offer(&followed.cluster, quick(3, 130));
    FollowedNode::settle().await;
    offer(&followed.cluster, quick(4, 100));
    FollowedNode::settle().await;
    assert_eq!((followed.writes(), followed.cpu().as_str()), (2, "4"));
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_agent_fell_silent_is_lowered_without_anybody_writing() {
    let followed = FollowedNode::new(WriterMood::Applies);
    offer(&followed.cluster, published(2, 120));
    sleep(Duration::from_secs(299)).await;
    assert_eq!((followed.writes(), followed.cpu().as_str()), (0, "4800m"));
    sleep(Duration::from_secs(2)).await;
    assert_eq!((followed.writes(), followed.cpu().as_str()), (1, "4"));
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_nobody_renews_is_renewed() {
    let followed = FollowedNode::new(WriterMood::Applies);
    for seq in 2..35 {
        offer(&followed.cluster, published(seq, 120));
        sleep(Duration::from_secs(15)).await;
    }
    let written = followed.writer.written.lock().unwrap().clone();
    assert_eq!(written.len(), 1, "{written:?}");
    assert_eq!(followed.cpu(), "4800m");
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_is_tried_again_ever_more_slowly() {
    let followed = FollowedNode::new(WriterMood::Fails);
    offer(&followed.cluster, published(2, 110));
    let times = followed.until(10).await;
    let gaps: Vec<_> = times
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]))
        .collect();
    assert!(gaps[0] >= FIRST_PAUSE && gaps[0] < FIRST_PAUSE * 2, "{gaps:?}");
    assert!(gaps.is_sorted() && gaps[8] >= LONGEST_PAUSE, "{gaps:?}");
    *followed.writer.mood.lock().unwrap() = WriterMood::Applies;
    followed.until(11).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(followed.writes(), 11);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_is_not_repeated_in_a_hurry() {
    let followed = FollowedNode::new(WriterMood::Ignores);
    offer(&followed.cluster, published(2, 110));
    sleep(Duration::from_secs(290)).await;
    let writes = followed.writes();
    assert!((8..=12).contains(&writes), "{writes} writes in five minutes");
    offer(&followed.cluster, published(3, 105));
    FollowedNode::settle().await;
    assert_eq!(followed.writes(), writes + 1, "another change does not wait");
}

#[tokio::test(start_paused = true)]
async fn an_echo_that_does_not_come_is_not_waited_for() {
    let followed = FollowedNode::new(WriterMood::Ignores);
    followed.writer.version.store(1_000_000, Ordering::Relaxed);
    offer(&followed.cluster, published(2, 110));
    followed.until(1).await;
    *followed.writer.mood.lock().unwrap() = WriterMood::Applies;
    offer(&followed.cluster, published(3, 100));
    let times = followed.until(2).await;
    assert!(times[1] <= ECHO_LIMIT + Duration::from_millis(10), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn reports_that_keep_coming_do_not_hurry_a_write_that_changes_nothing() {
    let followed = FollowedNode::new(WriterMood::Ignores);
    for seq in 2..42 {
        let mut hint = published(seq, 110);
        hint.resources.cpu.usage = seq;
        offer(&followed.cluster, hint);
        sleep(Duration::from_secs(15)).await;
    }
    let times: Vec<Instant> = followed
        .writer
        .written
        .lock()
        .unwrap()
        .iter()
        .map(|(at, _)| *at)
        .collect();
    // 1 s, 2 s ... 32 s apart, and a minute from then on.
    assert!((14..=16).contains(&times.len()), "{}", times.len());
    let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        gaps[6..].iter().all(|gap| *gap >= Duration::from_secs(60)),
        "{gaps:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_brake_does_not_wait_for_a_rise_that_hangs() {
    let followed = FollowedNode::new(WriterMood::Hangs);
    sleep(Duration::from_secs(1)).await;
    offer(&followed.cluster, quick(2, 125));
    FollowedNode::settle().await;
    assert_eq!(followed.writes(), 1);
    *followed.writer.mood.lock().unwrap() = WriterMood::Applies;
    offer(&followed.cluster, quick(3, 110));
    FollowedNode::settle().await;
    assert_eq!((followed.writes(), followed.cpu().as_str()), (2, "4400m"));
}

#[tokio::test(start_paused = true)]
async fn what_raises_counts_for_the_node_that_was_looked_at_and_what_lowers_for_any() {
    let followed = FollowedNode::new(WriterMood::IsAhead);
    sleep(Duration::from_secs(1)).await;
    offer(&followed.cluster, quick(2, 125));
    FollowedNode::settle().await;
    // The changed field is not known yet, so the write is not retried.
    assert_eq!((followed.writes(), followed.cpu().as_str()), (1, "4800m"));
    // Another replica's brake.
    let note: Note = Note::from_hint(&quick(3, 105));
    offer(&followed.cluster, quick(3, 105));
    followed.writer.store("n1", "4200m", &note);
    FollowedNode::settle().await;
    assert_eq!((followed.writes(), followed.cpu().as_str()), (1, "4200m"));
    offer(&followed.cluster, quick(4, 100));
    FollowedNode::settle().await;
    assert_eq!((followed.writes(), followed.cpu().as_str()), (2, "4"));
    let written = followed.writer.written.lock().unwrap().clone();
    assert_eq!((written[0].1.version, written[1].1.version), (Some(3), None));
}

/// Counts the polls of a future.
struct Polled<F> {
    future: Pin<Box<F>>,
    polls: Arc<AtomicUsize>,
}

impl<F: Future> Future for Polled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        self.future.as_mut().poll(context)
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_that_wait_for_their_turn_cost_nothing() {
    const NODES: usize = 300;
    let named = |number: usize| format!("n{number}");
    let nodes = (0..NODES).map(|number| {
        let mut node = amplified(3, "4800m", 120);
        node["metadata"]["name"] = named(number).into();
        node
    });
    let cluster = Arc::new(cluster(nodes, []));
    let writer = FakeWriter::new(&cluster, WriterMood::Applies);
    // 15 nodes a second.
    let rates = Rates {
        rise_percent: 5,
        ..Rates::DEFAULT
    };
    let nudger = Arc::new(Nudger::new(Arc::clone(&cluster), Arc::clone(&writer) as _, rates));
    advance(Duration::from_secs(300)).await;
    for number in 0..NODES {
        let hint = NodeHint {
            node: named(number),
            pods_generation: u64::MAX,
            ..published(2, 125)
        };
        cluster.hints.offer(hint, cluster.now());
    }
    let polls = Arc::new(AtomicUsize::new(0));
    let _tasks: Vec<_> = (0..NODES)
        .map(|number| {
            let followed = Polled {
                future: Box::pin(Arc::clone(&nudger).follow(named(number))),
                polls: Arc::clone(&polls),
            };
            AbortOnDropHandle::new(tokio::spawn(followed))
        })
        .collect();
    let began = Instant::now();
    sleep(Duration::from_secs(30)).await;
    let written = writer.written.lock().unwrap().clone();
    let last = written.last().unwrap().0 - began;
    assert_eq!(written.len(), NODES);
    assert!(
        last > Duration::from_secs(19) && last < Duration::from_secs(21),
        "{last:?}"
    );
    let polls = polls.load(Ordering::Relaxed);
    assert!(polls <= 8 * NODES, "{polls} looks at {NODES} nodes");
}

#[tokio::test(start_paused = true)]
async fn the_share_of_nodes_that_rise_follows_the_number_followed() {
    let cluster = Arc::new(cluster([], []));
    let writer = FakeWriter::new(&cluster, WriterMood::Fails);
    let nudger = Nudger::new(cluster, writer, Rates::DEFAULT);
    nudger.followed.store(500, Ordering::Relaxed);
    let began = Instant::now();
    for _ in 0..11 {
        nudger
            .rising
            .acquire(|| nudger.every(NudgeLine::Rising))
            .await
            .consume();
    }
    let took = began.elapsed();
    assert!(
        took >= Duration::from_secs(2) && took < Duration::from_millis(2_100),
        "{took:?}"
    );
    for _ in 0..500 {
        nudger
            .lowering
            .acquire(|| nudger.every(NudgeLine::Lowering))
            .await
            .consume();
    }
    assert_eq!(began.elapsed(), took, "a burst of a second's worth");
}

/// A replica has one for each node of the fleet.
#[tokio::test]
async fn a_node_that_is_followed_takes_little_while_nothing_is_written() {
    let cluster = Arc::new(cluster([], []));
    let writer = FakeWriter::new(&cluster, WriterMood::Fails);
    let follow = Arc::new(Nudger::new(cluster, writer, Rates::DEFAULT)).follow("n1".to_owned());
    let size = size_of_val(&follow);
    assert!(size <= 1_024, "{size} bytes");
}
