//! When a change is worth a nudge, how soon it is written, and what follows from a write that fails or changes nothing.

use std::sync::atomic::AtomicU64;

use futures::future::BoxFuture;
use headroom_domain::{estimate::Profile, hint::NodeHint};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::{task::yield_now, time::advance};
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::{
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
    cluster.changes.ring("n1", Urgency::Usual);
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
fn a_pod_that_needs_the_room_is_a_reason() {
    let cluster = cluster([node(3, "4", &json!({}))], []);
    offer(&cluster, published(1, 100));
    assert_eq!(direction(&cluster), None);
    cluster
        .pods
        .apply(serde_json::from_value(pod("big", 9, "4500m")).unwrap());
    assert_eq!(direction(&cluster), Some(Direction::Rise));
}

#[test]
fn a_mode_that_records_no_hint_is_not_nudged_for_a_brake() {
    let cluster = cluster([node(3, "4", &json!({names::MODE: "static"}))], []);
    offer(&cluster, braked(1, 128, Brake::Stop));
    assert_eq!(direction(&cluster), None);
}

#[test]
fn lowering_one_resource_counts_as_lowering() {
    let cluster = cluster([amplified(3, "4800m", 120)], []);
    let mut hint = published(2, 110);
    hint.resources.memory.published = headroom_domain::ratio::Cents(120);
    offer(&cluster, hint);
    assert_eq!(direction(&cluster), Some(Direction::Lower));
}

/// Does to the stored Node what the endpoint would do, or nothing, or fails.
struct FakeWriter {
    cluster: Arc<Cluster>,
    version: AtomicU64,
    mood: Mutex<Mood>,
    written: Mutex<Vec<(Instant, String)>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Applies,
    Ignores,
    Fails,
}

impl StatusWriter for FakeWriter {
    fn write_hint<'a>(&'a self, name: &'a str, note: &'a str) -> BoxFuture<'a, Result<u64, NudgeError>> {
        Box::pin(async move {
            let mood = *self.mood.lock().unwrap();
            self.written
                .lock()
                .unwrap()
                .push((Instant::now(), note.to_owned()));
            let version = self.version.fetch_add(1, Ordering::Relaxed);
            match mood {
                Mood::Fails => return Err(NudgeError::Slow),
                Mood::Ignores => return Ok(0),
                Mood::Applies => {}
            }
            let node = self.cluster.nodes.get(name).unwrap();
            let (decision, _) = self.cluster.preview(&node, self.cluster.now());
            let cpu = decision
                .allocatable
                .cpu
                .or(node.state.allocatable.cpu)
                .unwrap()
                .to_string();
            let note: Note = note.parse().unwrap();
            let mut stored: Value = amplified(version, &cpu, note.cpu.published);
            stored["metadata"]["annotations"][names::HINT] = note.to_string().into();
            self.cluster.nodes.apply(serde_json::from_value(stored).unwrap());
            Ok(version)
        })
    }
}

struct Followed {
    cluster: Arc<Cluster>,
    writer: Arc<FakeWriter>,
    _task: AbortOnDropHandle<()>,
}

impl Followed {
    fn new(mood: Mood) -> Self {
        let cluster = Arc::new(cluster([amplified(3, "4800m", 120)], []));
        let writer = Arc::new(FakeWriter {
            cluster: Arc::clone(&cluster),
            version: AtomicU64::new(4),
            mood: Mutex::new(mood),
            written: Mutex::default(),
        });
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

    /// Lets paused time run until there were so many writes; returns when they came, counted from now.
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
    let followed = Followed::new(Mood::Applies);
    Followed::settle().await;
    assert_eq!(followed.writes(), 0);
    offer(&followed.cluster, published(2, 110));
    Followed::settle().await;
    offer(&followed.cluster, published(3, 105));
    Followed::settle().await;
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

impl Followed {
    fn cpu(&self) -> String {
        let node = self.cluster.nodes.get("n1").unwrap();
        node.state.allocatable.cpu.unwrap().to_string()
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_rises_step_by_step_a_frame_apart() {
    let followed = Followed::new(Mood::Applies);
    sleep(Duration::from_secs(1)).await;
    offer(&followed.cluster, quick(2, 134));
    let times = followed.until(3).await;
    let apart = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    assert!(apart.min().unwrap() >= Duration::from_secs(1), "{times:?}");
    assert!(times[2] < Duration::from_secs(4), "{times:?}");
    let written = followed.writer.written.lock().unwrap().clone();
    let ratios = written
        .iter()
        .map(|(_, note)| note.parse::<Note>().unwrap().cpu.published);
    assert_eq!(ratios.collect::<Vec<_>>(), [125, 130, 134]);
}

#[tokio::test(start_paused = true)]
async fn a_fall_does_not_wait_for_a_rise() {
    let followed = Followed::new(Mood::Applies);
    sleep(Duration::from_secs(1)).await;
    offer(&followed.cluster, quick(2, 125));
    followed.until(1).await;
    offer(&followed.cluster, quick(3, 130));
    Followed::settle().await;
    offer(&followed.cluster, quick(4, 100));
    Followed::settle().await;
    assert_eq!((followed.writes(), followed.cpu().as_str()), (2, "4"));
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_agent_fell_silent_is_lowered_without_anybody_writing() {
    let followed = Followed::new(Mood::Applies);
    offer(&followed.cluster, published(2, 120));
    sleep(Duration::from_secs(299)).await;
    assert_eq!((followed.writes(), followed.cpu().as_str()), (0, "4800m"));
    sleep(Duration::from_secs(2)).await;
    assert_eq!((followed.writes(), followed.cpu().as_str()), (1, "4"));
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_nobody_renews_is_renewed() {
    let followed = Followed::new(Mood::Applies);
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
    let followed = Followed::new(Mood::Fails);
    offer(&followed.cluster, published(2, 110));
    let times = followed.until(10).await;
    let gaps: Vec<_> = times
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]))
        .collect();
    assert!(gaps[0] >= FIRST_PAUSE && gaps[0] < FIRST_PAUSE * 2, "{gaps:?}");
    assert!(gaps.is_sorted() && gaps[8] >= LONGEST_PAUSE, "{gaps:?}");
    *followed.writer.mood.lock().unwrap() = Mood::Applies;
    followed.until(11).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(followed.writes(), 11);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_is_not_repeated_in_a_hurry() {
    let followed = Followed::new(Mood::Ignores);
    offer(&followed.cluster, published(2, 110));
    sleep(Duration::from_secs(290)).await;
    let writes = followed.writes();
    assert!((8..=12).contains(&writes), "{writes} writes in five minutes");
    offer(&followed.cluster, published(3, 105));
    Followed::settle().await;
    assert_eq!(followed.writes(), writes + 1, "another change does not wait");
}

#[tokio::test(start_paused = true)]
async fn an_echo_that_does_not_come_is_not_waited_for() {
    let followed = Followed::new(Mood::Ignores);
    followed.writer.version.store(1_000_000, Ordering::Relaxed);
    offer(&followed.cluster, published(2, 110));
    followed.until(1).await;
    *followed.writer.mood.lock().unwrap() = Mood::Applies;
    offer(&followed.cluster, published(3, 100));
    let times = followed.until(2).await;
    assert!(times[1] <= ECHO_LIMIT + Duration::from_millis(10), "{times:?}");
}

#[test]
fn the_share_of_nodes_that_rise_follows_the_number_followed() {
    let cluster = Arc::new(cluster([], []));
    let writer = Arc::new(FakeWriter {
        cluster: Arc::clone(&cluster),
        version: AtomicU64::new(0),
        mood: Mutex::new(Mood::Fails),
        written: Mutex::default(),
    });
    let nudger = Nudger::new(cluster, writer, Rates::DEFAULT);
    nudger.followed.store(500, Ordering::Relaxed);
    assert_eq!(nudger.take(Direction::Rise), None);
    let wait = nudger.take(Direction::Rise).unwrap();
    assert!(wait <= RISE_EVERY / 5, "{wait:?}");
    let lowered = (0..1000)
        .filter(|_| nudger.take(Direction::Lower).is_none())
        .count();
    assert!(lowered >= 500, "{lowered}");
}
