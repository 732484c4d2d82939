//! Random order of all events between a client, this replica and the API server: stored pods never exceed the limit,
//! and once all events are delivered, exactly the stored pods count.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::*;

const LIMIT: i64 = 10;

/// Maximum time from the answer of an admitted request until it is stored: a pending admission lasts for this and for
/// the watch.
const LONGEST_WAY: Duration = Duration::from_secs(2);
/// Maximum time from a write until the watch delivers it.
const WATCH_DELAY: Duration = Duration::from_secs(2);

/// Fate of a Pod that the replica has admitted.
#[derive(Debug, Clone, Copy)]
enum PodFate {
    Stored,
    /// Others may be asked about before it is stored.
    StoredLater,
    /// Another webhook or a quota of Kubernetes' own refuses it.
    RefusedLater,
    /// The answer is late: the API server has given up. The replica learns that at once, or later.
    AnswerLost,
    AnswerLostLater,
    DryRun,
}

#[derive(Debug, Clone, Copy)]
enum QuotaPodStep {
    Create(u8, i64, PodFate),
    Resize(u8, i64, PodFate),
    /// One of the requests on their way arrives.
    Arrive(u8),
    Delete(u8),
    End(u8),
    Touch(u8),
    See(u8),
    Relist,
    Wait(u8),
}

fn step() -> impl Strategy<Value = QuotaPodStep> {
    let fate = prop_oneof![
        3 => Just(PodFate::Stored), 4 => Just(PodFate::StoredLater), 1 => Just(PodFate::RefusedLater),
        1 => Just(PodFate::AnswerLost), 1 => Just(PodFate::AnswerLostLater), 1 => Just(PodFate::DryRun),
    ];
    prop_oneof![
        5 => (0..6_u8, 1..9_i64, fate.clone()).prop_map(|(pod, cpu, fate)| QuotaPodStep::Create(pod, cpu, fate)),
        2 => (0..6_u8, 1..8_i64, fate).prop_map(|(pod, cpu, fate)| QuotaPodStep::Resize(pod, cpu, fate)),
        4 => any::<u8>().prop_map(QuotaPodStep::Arrive),
        2 => (0..6_u8).prop_map(QuotaPodStep::Delete),
        1 => (0..6_u8).prop_map(QuotaPodStep::End),
        1 => (0..6_u8).prop_map(QuotaPodStep::Touch),
        4 => (1..4_u8).prop_map(QuotaPodStep::See),
        1 => Just(QuotaPodStep::Relist),
        2 => (1..20_u8).prop_map(QuotaPodStep::Wait),
    ]
}

#[derive(Debug, Clone, Copy)]
struct StoredPod {
    uid: u32,
    version: u64,
    cpu: i64,
    has_ended: bool,
}

enum PodEvent {
    Applied(u8, StoredPod),
    Deleted(u8, StoredPod),
}

/// A request that was admitted, on its way.
struct AdmittedRequest {
    at: Instant,
    name: u8,
    pod: StoredPod,
    /// There while its answer may still go out, which it does not.
    lost: Option<Box<dyn PendingAdmission>>,
}

struct World {
    replica: Arc<QuotaPods>,
    admitted: Vec<AdmittedRequest>,
    now: Instant,
    stored: BTreeMap<u8, StoredPod>,
    events: VecDeque<(Instant, PodEvent)>,
    last_uid: u32,
    last_version: u64,
}

impl World {
    fn new() -> Self {
        Self {
            replica: known(),
            admitted: Vec::new(),
            now: Instant::now(),
            stored: BTreeMap::new(),
            events: VecDeque::new(),
            last_uid: 0,
            last_version: 0,
        }
    }

    fn object(name: u8, pod: StoredPod) -> WatchedQuotaPod {
        let StoredPod {
            uid,
            version,
            cpu,
            has_ended,
        } = pod;
        let requests = json!({"cpu": cpu});
        let mut object = versioned(&name.to_string(), &uid.to_string(), Some("q"), &requests, version);
        object.status.phase = has_ended.then(|| "Failed".to_owned());
        object
    }

    /// Delivers a stored object through the watch.
    fn applied(&mut self, name: u8) {
        self.last_version += 1;
        if let Some(pod) = self.stored.get_mut(&name) {
            pod.version = self.last_version;
            self.events.push_back((self.now, PodEvent::Applied(name, *pod)));
        }
    }

    /// Sends a request to the replica, and starts the way of an admitted one.
    fn write(&mut self, name: u8, pod: StoredPod, fate: PodFate) {
        let request = QuotaRequest {
            replaced: pod.version,
            ..request(&name.to_string(), &pod.uid.to_string(), json!({"cpu": pod.cpu}))
        };
        let mut fits = |usage: &[Usage]| {
            let used = usage[0].stored.plus(&usage[0].pending);
            let limit = amounts(json!({"cpu": LIMIT}));
            used.plus(&amounts(json!({"cpu": pod.cpu}))).fits(&limit)
        };
        if let PodFate::DryRun = fate {
            self.replica.usage(&request, self.now);
            return;
        }
        let Some(entry) = self.replica.admit(request, self.now, &mut fits).unwrap() else {
            return;
        };
        let at = self.now;
        let admitted = |lost| AdmittedRequest { at, name, pod, lost };
        match fate {
            PodFate::AnswerLost | PodFate::DryRun => drop(entry),
            PodFate::AnswerLostLater => self.admitted.push(admitted(Some(entry))),
            PodFate::RefusedLater => entry.keep(),
            PodFate::Stored => {
                entry.keep();
                self.store(name, pod);
            }
            PodFate::StoredLater => {
                entry.keep();
                self.admitted.push(admitted(None));
            }
        }
    }

    /// Stores a Pod as the API server does: one that is not there, or in the place of the version that was read.
    fn store(&mut self, name: u8, pod: StoredPod) {
        let is_next = match self.stored.get(&name) {
            None => pod.version == 0,
            Some(there) => (there.uid, there.version) == (pod.uid, pod.version),
        };
        if is_next {
            self.stored.insert(name, pod);
            self.applied(name);
        }
    }

    fn arrive(&mut self, at: u8) {
        if self.admitted.is_empty() {
            return;
        }
        let at = usize::from(at) % self.admitted.len();
        let AdmittedRequest { name, pod, lost, .. } = self.admitted.swap_remove(at);
        if lost.is_none() {
            self.store(name, pod);
        }
    }

    fn deliver(&mut self) {
        match self.events.pop_front() {
            Some((_, PodEvent::Applied(name, pod))) => self.replica.apply(Self::object(name, pod)),
            Some((_, PodEvent::Deleted(name, pod))) => self.replica.delete(Self::object(name, pod)),
            None => {}
        }
    }

    fn run(&mut self, step: QuotaPodStep) {
        match step {
            QuotaPodStep::Create(name, cpu, fate) => {
                self.last_uid += 1;
                let pod = StoredPod {
                    uid: self.last_uid,
                    version: 0,
                    cpu,
                    has_ended: false,
                };
                self.write(name, pod, fate);
            }
            QuotaPodStep::Resize(name, cpu, fate) => {
                let Some(pod) = self.stored.get(&name).copied().filter(|pod| !pod.has_ended) else {
                    return;
                };
                if cpu > pod.cpu {
                    self.write(name, StoredPod { cpu, ..pod }, fate);
                } else {
                    self.stored.insert(name, StoredPod { cpu, ..pod });
                    self.applied(name);
                }
            }
            QuotaPodStep::Delete(name) => {
                if let Some(pod) = self.stored.remove(&name) {
                    self.events.push_back((self.now, PodEvent::Deleted(name, pod)));
                }
            }
            QuotaPodStep::End(name) => {
                if let Some(pod) = self.stored.get_mut(&name) {
                    pod.has_ended = true;
                }
                self.applied(name);
            }
            QuotaPodStep::Touch(name) => self.applied(name),
            QuotaPodStep::See(count) => (0..count).for_each(|_| self.deliver()),
            QuotaPodStep::Relist => self.relist(),
            QuotaPodStep::Wait(seconds) => {
                self.now += Duration::from_secs(seconds.into());
                let now = self.now;
                self.admitted
                    .retain(|request| now.duration_since(request.at) < LONGEST_WAY);
                while let Some((at, _)) = self.events.front()
                    && self.now.duration_since(*at) > WATCH_DELAY
                {
                    self.deliver();
                }
            }
            QuotaPodStep::Arrive(at) => self.arrive(at),
        }
    }

    fn relist(&mut self) {
        self.events.clear();
        let mut listing = Ledger::default();
        for (name, pod) in &self.stored {
            QuotaPods::list(&mut listing, Self::object(*name, *pod));
        }
        self.replica.replace(listing);
    }

    fn sum(&self) -> i64 {
        let running = self.stored.values().filter(|pod| !pod.has_ended);
        running.map(|pod| pod.cpu).sum()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(2_000)))]
    #[test]
    fn what_is_stored_stays_within_the_limit(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        for step in steps {
            world.run(step);
            prop_assert!(world.sum() <= LIMIT, "{} after {step:?}", world.sum());
        }
        world.admitted.clear();
        while !world.events.is_empty() {
            world.deliver();
        }
        let settled = world.now + pending_limit::LASTS;
        let stored = match world.sum() {
            0 => String::new(),
            sum => format!("cpu={sum}"),
        };
        prop_assert_eq!(used(&world.replica, settled), (stored, String::new()));
        prop_assert_eq!(world.replica.counts(), (world.stored.len(), 0));
    }
}
