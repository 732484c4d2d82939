//! Tests of the publisher: one Event for each object and note, by the leader alone, at a bounded rate under any
//! number of faults.

use std::sync::Mutex;

use futures::future::BoxFuture;
use headroom_domain::selector::Labels;
use headroom_rules::profile::{KnownProfile, PriorityClass};
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::{
    control::events::{EventObject, EventType, ROWS, writer::EventError},
    store::{by_name::Listing, cluster::tests as nodes, lookup::ProfileLookup},
};

const INVALID: &str = r#"{"selector": {"matchExpressions": [{"key": "a", "operator": "Unequal"}]}}"#;

/// Profiles that a test sets, and an API server that takes Events or does not.
#[derive(Default)]
struct FakeCluster {
    profiles: Mutex<Listing<KnownProfile>>,
    /// The object's name, and the note.
    events: Mutex<Vec<(String, String)>>,
    is_down: Mutex<bool>,
    /// Objects of these names have no Event.
    refused: Mutex<Vec<String>>,
}

impl FakeCluster {
    fn set(&self, name: &str, uid: &str, spec: &str) {
        let mut known = KnownProfile::read(spec, None);
        known.uid = uid.to_owned();
        self.profiles.lock().unwrap().insert(name.into(), Arc::new(known));
    }

    fn events(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *self.events.lock().unwrap())
    }
}

impl ProfileLookup for FakeCluster {
    fn profiles(&self) -> Arc<Listing<KnownProfile>> {
        Arc::new(self.profiles.lock().unwrap().clone())
    }

    fn namespace(&self, _name: &str) -> Option<Arc<Labels>> {
        None
    }

    fn priority_class(&self, _name: &str) -> Option<Arc<PriorityClass>> {
        None
    }
}

struct FakeEventWriter(Arc<FakeCluster>);

impl EventWriter for FakeEventWriter {
    fn create<'a>(
        &'a self,
        _row: &'static EventRow,
        fact: &'a EventFact,
    ) -> BoxFuture<'a, Result<EventResult, EventError>> {
        Box::pin(async {
            let event = (fact.regarding.name.clone(), fact.note.clone());
            self.0.events.lock().unwrap().push(event);
            let is_refused = self.0.refused.lock().unwrap().contains(&fact.regarding.name);
            if is_refused || *self.0.is_down.lock().unwrap() {
                return Err(EventError::Slow);
            }
            Ok(EventResult::Created)
        })
    }
}

/// Stores with these profiles and no nodes.
fn stores(cluster: &Arc<FakeCluster>) -> EventStores {
    EventStores {
        certificates: Arc::default(),
        profiles: Arc::clone(cluster) as _,
        overshoots: Arc::default(),
        cluster: Arc::new(nodes::cluster([], [])),
        modes: Arc::default(),
    }
}

/// A publisher that runs, and whether it leads.
fn start(cluster: &Arc<FakeCluster>) -> (watch::Sender<bool>, AbortOnDropHandle<()>) {
    let (leads_tx, leads) = watch::channel(true);
    let stores = stores(cluster);
    let writer = Arc::new(FakeEventWriter(Arc::clone(cluster)));
    let publisher = Publisher::new(ROWS, stores, writer);
    let task = tokio::spawn(publisher.publish(leads, CancellationToken::new()));
    (leads_tx, AbortOnDropHandle::new(task))
}

async fn wait_for_round() {
    sleep(LOOK_EVERY * 2).await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_profile_is_one_event_that_names_field_and_value() {
    let cluster = Arc::new(FakeCluster::default());
    cluster.set("good", "u0", "{}");
    cluster.set("bad", "u1", INVALID);
    let (_leads, _task) = start(&cluster);
    wait_for_round().await;
    let note = "The profile is applied to no pod: spec.selector is invalid: \"Unequal\" is not a valid label selector operator";
    assert_eq!(cluster.events(), [("bad".to_owned(), note.to_owned())]);
    // The same fault again and again is no news; another one is, and so is another object of the name.
    for _ in 0..100 {
        cluster.set("bad", "u1", INVALID);
        wait_for_round().await;
    }
    assert_eq!(cluster.events(), []);
    cluster.set("bad", "u1", r#"{"probability": "30"}"#);
    wait_for_round().await;
    let [(_, note)] = cluster.events().try_into().unwrap();
    assert!(note.contains("spec.probability: invalid value"), "{note}");
    cluster.set("bad", "u2", r#"{"probability": "30"}"#);
    wait_for_round().await;
    assert_eq!(cluster.events().len(), 1);
    // API servers forget it, and it is still so.
    sleep(AGAIN_AFTER).await;
    wait_for_round().await;
    assert_eq!(cluster.events().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_invalid_profiles_makes_few_events() {
    let cluster = Arc::new(FakeCluster::default());
    for profile in 0..5_000 {
        cluster.set(&format!("p{profile}"), &format!("u{profile}"), INVALID);
    }
    let (_leads, _task) = start(&cluster);
    wait_for_round().await;
    let first = cluster.events().len();
    assert!((20..=22).contains(&first), "{first}");
    // Profiles that come and go with new faults all the time, for an hour.
    let mut most = 0;
    for round in 0..360 {
        for profile in 0..20 {
            cluster.set(
                &format!("p{profile}"),
                &format!("u{profile}"),
                &format!(r#"{{"koordinatorPriority": -{}}}"#, round + 1),
            );
        }
        wait_for_round().await;
        most += cluster.events().len();
    }
    assert!((500..=602).contains(&most), "{most} in an hour");
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_publishes_and_what_fails_is_tried_again() {
    let cluster = Arc::new(FakeCluster::default());
    cluster.set("bad", "u1", INVALID);
    let (leads, _task) = start(&cluster);
    leads.send_replace(false);
    wait_for_round().await;
    assert_eq!(cluster.events(), []);
    *cluster.is_down.lock().unwrap() = true;
    leads.send_replace(true);
    for _ in 0..100 {
        wait_for_round().await;
    }
    let tried = cluster.events().len();
    assert!((100..=190).contains(&tried), "{tried} in 1,000 s");
    *cluster.is_down.lock().unwrap() = false;
    wait_for_round().await;
    assert_eq!(cluster.events().len(), 1);
    wait_for_round().await;
    assert_eq!(cluster.events(), []);
}

#[tokio::test(start_paused = true)]
async fn what_is_so_no_longer_is_forgotten() {
    let cluster = Arc::new(FakeCluster::default());
    let (_leads_tx, leads) = watch::channel(true);
    let mut publisher = Publisher::new(
        ROWS,
        stores(&cluster),
        Arc::new(FakeEventWriter(Arc::clone(&cluster))),
    );
    for profile in 0..50 {
        cluster.set("bad", &format!("u{profile}"), INVALID);
        publisher.publish_due(&leads).await;
        sleep(PUBLISH_EVERY).await;
    }
    assert_eq!(publisher.published.len(), 1);
    cluster.set("bad", "u49", "{}");
    publisher.publish_due(&leads).await;
    assert!(publisher.published.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_always_refused_keeps_no_other_back() {
    let cluster = Arc::new(FakeCluster::default());
    for profile in 0..30 {
        cluster.set(&format!("a{profile}"), &format!("a{profile}"), INVALID);
        cluster.refused.lock().unwrap().push(format!("a{profile}"));
    }
    cluster.set("z", "z", INVALID);
    let (_leads, _task) = start(&cluster);
    sleep(PUBLISH_EVERY * 40).await;
    let tried = cluster.events();
    let place = tried.iter().position(|(name, _)| name == "z");
    assert!(
        place.is_some_and(|place| place <= 30),
        "{place:?} of {}",
        tried.len()
    );
}

/// The brake of a node whose profile has this fault, as a row that may have one Event of an object in a minute.
static BRAKE: EventRow = EventRow {
    reason: "Braked",
    action: "LimitAllocatable",
    event_type: EventType::Warning,
    about: "",
    every: Duration::from_secs(60),
    list: list_brakes,
};

/// The quarantine of the same node.
static QUARANTINE: EventRow = EventRow {
    reason: "Quarantined",
    action: "IgnoreReports",
    event_type: EventType::Warning,
    about: "",
    every: Duration::from_secs(60),
    list: list_brakes,
};

static BRAKES: &[&EventRow] = &[&BRAKE];
static BRAKES_AND_QUARANTINES: &[&EventRow] = &[&QUARANTINE, &BRAKE];

fn list_brakes(stores: &EventStores, _now: Timestamp) -> Vec<EventFact> {
    let profiles = stores.profiles.profiles();
    let braked = profiles.iter().filter(|(_, known)| known.fault().is_some());
    let facts = braked.map(|(name, known)| EventFact {
        regarding: EventObject::node(name),
        note: "cpu is not amplified".to_owned(),
        occurrence: known.uid.clone(),
    });
    facts.collect()
}

#[tokio::test(start_paused = true)]
async fn a_brake_that_fires_again_and_again_is_one_event_in_a_minute() {
    let cluster = Arc::new(FakeCluster::default());
    let (_leads_tx, leads) = watch::channel(true);
    let writer = Arc::new(FakeEventWriter(Arc::clone(&cluster)));
    let mut publisher = Publisher::new(BRAKES, stores(&cluster), writer);
    let mut published = 0;
    for occurrence in 0..60 {
        cluster.set("n1", &occurrence.to_string(), INVALID);
        publisher.publish_due(&leads).await;
        // It has let go in between, and that is no way around the minute.
        cluster.set("n1", &occurrence.to_string(), "{}");
        publisher.publish_due(&leads).await;
        published += cluster.events().len();
        sleep(LOOK_EVERY * 2).await;
    }
    assert_eq!(published, 10, "in ten minutes");
    sleep(BRAKE.every).await;
    publisher.publish_due(&leads).await;
    assert!(publisher.published.is_empty(), "what is over is forgotten");
}

/// Seconds that the node waits for an Event while ten others change their conditions each minute.
async fn wait_of(node: &str, cluster: &FakeCluster, publisher: &mut Publisher, second: &mut u64) -> u64 {
    let (_leads_tx, leads) = watch::channel(true);
    let from = *second;
    loop {
        for attacker in 0..10 {
            let occurrence = format!("{attacker} in minute {}", *second / 60);
            cluster.set(&format!("a{attacker}"), &occurrence, INVALID);
        }
        publisher.publish_due(&leads).await;
        if cluster.events().iter().any(|(name, _)| name == node) {
            return *second - from;
        }
        assert!(*second - from < 3_600, "{node} has no Event in an hour");
        sleep(LOOK_EVERY).await;
        *second += LOOK_EVERY.as_secs();
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_that_change_all_the_time_hold_no_other_back() {
    let cluster = Arc::new(FakeCluster::default());
    let writer = Arc::new(FakeEventWriter(Arc::clone(&cluster)));
    let mut publisher = Publisher::new(BRAKES_AND_QUARANTINES, stores(&cluster), writer);
    let mut second = 0;
    // They use the burst after a quiet time, and then the whole rate.
    for _ in 0..200 {
        wait_of("a9", &cluster, &mut publisher, &mut second).await;
        sleep(LOOK_EVERY).await;
        second += LOOK_EVERY.as_secs();
    }
    assert!(second > 3_000, "they have filled the rate for {second} s only");
    // One that had no Event before has the next one.
    cluster.set("z", "first", INVALID);
    let waited = wait_of("z", &cluster, &mut publisher, &mut second).await;
    assert!(waited <= 10, "{waited} s");
    // Later it waits for one Event of each of the others at most.
    for occurrence in 0..5 {
        sleep(BRAKE.every * 2).await;
        second += 2 * BRAKE.every.as_secs();
        cluster.set("z", &occurrence.to_string(), INVALID);
        let waited = wait_of("z", &cluster, &mut publisher, &mut second).await;
        assert!(waited <= 11 * PUBLISH_EVERY.as_secs() + 10, "{waited} s");
    }
    assert!(publisher.last_turns.len() <= 11);
}
