//! The API server, the machine, the kubelet and the scheduler, with an agent and two replicas between them.
//!
//! What holds at every moment:
//! - a pod is bound only where it fits into what is published, and what is published covers all that is bound as soon as
//!   whoever decides has heard of it;
//! - nothing outside the bounds is published, but for what is bound.
//!
//! And when everybody has heard of everything and the agent reports:
//! - no more is published than the agent says;
//! - what is published and free was measured: T - P - (R - Rw), with the agent's last numbers and without trust in pods that
//!   are leaving (agent.md, section 2.7, I1);
//! - nothing is left to do.

use std::{collections::BTreeMap, time::Duration};

use headroom_domain::{
    capacity::{Decision, State, Writer, amount},
    estimate::PodUse,
    hint::NodeHint,
    names,
    quantity::{Format, Quantity},
    resource::{PerResource, Resource},
};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};
use tokio::{
    runtime::{self, Runtime},
    time,
};

use super::{
    Run, Step, Trouble,
    agent::Agent,
    replica::{Missed, Replica},
};
use crate::{node, pods};

pub(super) const NAME: &str = "n1";
pub(super) const UID: &str = "u1";
/// Seconds in a frame, in a brake period, and between two writes of a kubelet that has nothing to say.
const FRAME: u64 = 300;
const PERIOD: u64 = 10;
/// theta, in ppm.
const THETA: u64 = 900_000;
/// The most pods on the node.
const MOST_PODS: usize = 16;
/// Rounds of nudges and sweeps after which nothing may be due any more.
const ROUNDS: usize = 12;

type Checked = Result<(), String>;

/// The Node as it is stored.
pub(super) struct Stored {
    pub(super) version: u64,
    pub(super) state: State,
    has_memory_pressure: bool,
}

/// A pod that is bound and has not ended.
#[derive(Clone)]
struct Pod {
    requests: PerResource<u64>,
    /// Of what it asks for, in percent.
    used: u64,
    /// How much higher its peaks are than its mean, in percent of that.
    burst: u64,
    /// The frame in which it is gone, if it is being deleted.
    gone_at: Option<u64>,
}

/// Everything.
pub(super) struct World {
    runtime: Runtime,
    run: Run,
    now: u64,
    frame: u64,
    raw: PerResource<u64>,
    capacity: PerResource<u64>,
    stored: Stored,
    /// By UID: their order is that of their arrival.
    pods: BTreeMap<String, Pod>,
    arrived: usize,
    agent: Agent,
    replicas: [Replica; 2],
    streams: [bool; 2],
    route: usize,
    /// The last report, and when it came.
    reported: Option<(NodeHint, u64)>,
}

impl Stored {
    /// The Node as informers are told of it.
    pub(super) fn object(&self) -> node::object::Object {
        let texts = |quantities: &PerResource<Option<Quantity>>| {
            Resource::ALL
                .into_iter()
                .filter_map(|resource| {
                    let quantity = quantities.get(resource).as_ref()?;
                    Some((resource.name().to_owned(), quantity.to_string()))
                })
                .collect()
        };
        let annotations = &self.state.annotations;
        let annotations = [
            (names::RATIO, &annotations.ratio),
            (names::RAW_ALLOCATABLE, &annotations.raw),
            (names::MARKER, &annotations.marker),
            (names::HINT, &annotations.hint),
            (names::STATIC_RATIO, &annotations.static_ratio),
            (names::KUBELET_RAW, &annotations.kubelet_raw),
        ];
        let annotations = annotations
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)));
        let condition = |kind: &str, status: bool| node::object::Condition {
            r#type: kind.to_owned(),
            status: if status { "True" } else { "False" }.to_owned(),
            last_heartbeat_time: self.state.ready_heartbeat.clone(),
        };
        node::object::Object {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                uid: Some(UID.to_owned()),
                resource_version: Some(self.version.to_string()),
                annotations: Some(annotations.collect()),
                ..ObjectMeta::default()
            },
            status: node::object::Status {
                allocatable: texts(&self.state.allocatable),
                capacity: texts(&self.state.capacity),
                conditions: vec![
                    condition("MemoryPressure", self.has_memory_pressure),
                    condition("Ready", true),
                ],
            },
        }
    }

    fn allocatable(&self, resource: Resource) -> u64 {
        let quantity = self.state.allocatable.get(resource).as_ref();
        amount(resource, quantity.expect("a value")).expect("an amount")
    }
}

impl Pod {
    fn object(&self, uid: &str, version: u64) -> pods::object::Object {
        let metadata = ObjectMeta {
            name: Some(uid.to_owned()),
            uid: Some(uid.to_owned()),
            resource_version: Some(version.to_string()),
            deletion_timestamp: self.gone_at.map(|_| Time(Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        };
        let container = pods::object::Container {
            name: "a".to_owned(),
            resources: pods::object::Resources {
                requests: pods::object::List(self.requests.map(|_, request| Some(*request))),
            },
            restart_policy: None,
        };
        pods::object::Object {
            metadata,
            spec: pods::object::Spec {
                node_name: Some(NAME.to_owned()),
                containers: vec![container],
                ..pods::object::Spec::default()
            },
            status: pods::object::Status {
                phase: Some("Running".to_owned()),
                qos_class: Some("Burstable".to_owned()),
                ..pods::object::Status::default()
            },
        }
    }
}

fn quantities(amounts: PerResource<u64>) -> PerResource<Option<Quantity>> {
    PerResource {
        cpu: Some(Quantity::from_milli(amounts.cpu)),
        memory: Some(Quantity::from_units(amounts.memory, Format::BinarySi)),
    }
}

impl World {
    /// A raw node without pods, two replicas that have heard of it, and an agent that reports to both.
    pub(super) fn new(run: &Run) -> Self {
        let runtime = runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let handle = runtime.handle().clone();
        let _entered = handle.enter();
        let raw = PerResource {
            cpu: run.raw.0,
            memory: run.raw.1 << 20,
        };
        // Whole CPUs, as machines have them.
        let capacity = PerResource {
            cpu: (raw.cpu * (100 + run.reserved) / 100).next_multiple_of(1000),
            memory: raw.memory * (100 + run.reserved) / 100,
        };
        let stored = Stored {
            version: 1,
            state: State {
                allocatable: quantities(raw),
                capacity: quantities(capacity),
                ready_heartbeat: Some("0".to_owned()),
                ..State::default()
            },
            has_memory_pressure: false,
        };
        let replica = || Replica::new(&run.bounds, &stored, Vec::new());
        Self {
            replicas: [replica(), replica()],
            runtime,
            run: run.clone(),
            now: 0,
            frame: 0,
            raw,
            capacity,
            stored,
            pods: BTreeMap::new(),
            arrived: 0,
            agent: Agent::new(capacity),
            streams: [true, true],
            route: 0,
            reported: None,
        }
    }

    /// Lets a step happen, and what follows from it: reports, nudges, new pods.
    pub(super) fn take(&mut self, step: Step) -> Checked {
        let handle = self.runtime.handle().clone();
        let _entered = handle.enter();
        match step {
            Step::Frames(frames) => {
                for _ in 0..frames {
                    self.pass_frame()?;
                }
            }
            Step::Use { pod, percent, burst } => {
                self.change(pod, |pod| (pod.used, pod.burst) = (percent, burst));
            }
            Step::Delete { pod, frames } => {
                let gone_at = self.frame + frames;
                self.change(pod, |pod| pod.gone_at = pod.gone_at.or(Some(gone_at)));
            }
            Step::End(pod) => self.end(pod),
            Step::Resize { pod, percent } => self.change(pod, |pod| {
                pod.requests = pod.requests.map(|_, request| request * percent / 100);
            }),
            Step::Trouble { trouble, periods } => return self.trouble(trouble, periods),
            Step::MemoryPressure(is_there) => {
                self.stored.has_memory_pressure = is_there;
                return self.sync();
            }
            Step::Stream { replica, is_open } => {
                if self.streams[replica] && !is_open {
                    self.replicas[replica].leave();
                }
                self.streams[replica] = is_open;
            }
            Step::StartAgain {
                is_known,
                is_other_boot,
            } => {
                let now = self.time();
                // The frame under way is lost.
                self.frame += 1;
                self.agent.start_again(is_known, is_other_boot, self.frame, now);
            }
            Step::Freeze(frames) => {
                self.wait(frames * FRAME);
                self.frame += frames;
            }
            Step::Route(replica) => self.route = replica,
            Step::StartAnew(replica) => self.start_anew(replica),
            Step::Deaf {
                replica,
                is_deaf: true,
            } => {
                self.replicas[replica].missed.get_or_insert(Missed::default());
            }
            Step::Deaf {
                replica,
                is_deaf: false,
            } => self.replicas[replica].catch_up(),
            Step::Sync => return self.sync(),
        }
        self.follow_up()
    }

    /// Everybody hears of everything, and nothing happens any more.
    pub(super) fn settle(&mut self) -> Checked {
        let handle = self.runtime.handle().clone();
        let _entered = handle.enter();
        for replica in &mut self.replicas {
            replica.catch_up();
        }
        self.follow_up()?;
        self.sync()
    }

    fn time(&self) -> Duration {
        Duration::from_secs(self.now)
    }

    fn wait(&mut self, seconds: u64) {
        self.now += seconds;
        self.runtime.block_on(time::advance(Duration::from_secs(seconds)));
    }

    fn bound(&self) -> PerResource<u64> {
        let sum = |resource| self.pods.values().map(|pod| *pod.requests.get(resource)).sum();
        PerResource::from_fn(sum)
    }

    fn uid(&self, pod: usize) -> Option<String> {
        let at = pod.checked_rem(self.pods.len())?;
        self.pods.keys().nth(at).cloned()
    }

    // Pods.

    /// Changes a pod that is there, and tells of it.
    fn change(&mut self, pod: usize, change: impl FnOnce(&mut Pod)) {
        if let Some(uid) = self.uid(pod) {
            change(self.pods.get_mut(&uid).expect("it is there"));
            self.tell_of(&uid, false);
        }
    }

    /// A pod ends by itself.
    fn end(&mut self, pod: usize) {
        if let Some(uid) = self.uid(pod) {
            self.tell_of(&uid, true);
            self.pods.remove(&uid);
        }
    }

    fn tell_of(&mut self, uid: &str, is_gone: bool) {
        self.stored.version += 1;
        let object = self.pods[uid].object(uid, self.stored.version);
        for replica in &mut self.replicas {
            replica.hear_of(object.clone(), is_gone);
        }
    }

    /// The scheduler binds what waits, in its order, as long as it fits into what is published.
    fn schedule(&mut self) -> Checked {
        while self.pods.len() < MOST_PODS {
            let (cpu, mib) = self.run.waiting[self.arrived % self.run.waiting.len()];
            let requests = PerResource {
                cpu,
                memory: mib << 20,
            };
            let bound = self.bound();
            let fits = |resource| {
                let free = self
                    .stored
                    .allocatable(resource)
                    .saturating_sub(*bound.get(resource));
                *requests.get(resource) <= free
            };
            if !Resource::ALL.into_iter().all(fits) {
                return Ok(());
            }
            let uid = format!("pod-{:04}", self.arrived);
            let pod = Pod {
                requests,
                used: u64::try_from(self.arrived * 37 % 100).expect("a percentage"),
                burst: 0,
                gone_at: None,
            };
            self.arrived += 1;
            self.pods.insert(uid.clone(), pod);
            self.tell_of(&uid, false);
            let bound = self.bound();
            for resource in Resource::ALL {
                let (bound, published) = (*bound.get(resource), self.stored.allocatable(resource));
                if bound > published {
                    return Err(format!("{resource}: {bound} are bound, {published} published"));
                }
            }
        }
        Ok(())
    }

    // The machine and its agent.

    /// A frame goes by: pods use what they use, one that is due is gone, and the kubelet writes at its end.
    fn pass_frame(&mut self) -> Checked {
        self.wait(FRAME);
        self.frame += 1;
        let due: Vec<String> = self
            .pods
            .iter()
            .filter(|(_, pod)| pod.gone_at.is_some_and(|gone_at| gone_at < self.frame))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in due {
            self.tell_of(&uid, true);
            self.pods.remove(&uid);
        }
        let uses = self.pods.iter().map(|(uid, pod)| {
            let mean = pod.requests.map(|_, request| request * pod.used / 100);
            (
                uid.clone(),
                PodUse {
                    low: mean,
                    high: mean,
                },
            )
        });
        let uses: BTreeMap<String, PodUse> = uses.collect();
        let peaks = |resource: Resource| {
            let peak = |pod: &Pod| *pod.requests.get(resource) * pod.used / 100 * (100 + pod.burst) / 100;
            self.pods.values().map(peak).sum::<u64>() + self.raw.get(resource) / 50
        };
        let now = self.time();
        self.agent
            .end_frame(self.frame, PerResource::from_fn(peaks), uses, now);
        self.agent.end_period(None, now);
        self.sync()
    }

    fn trouble(&mut self, trouble: Trouble, periods: u64) -> Checked {
        for _ in 0..periods {
            self.wait(PERIOD);
            let now = self.time();
            self.agent.end_period(Some(trouble), now);
            self.follow_up()?;
        }
        Ok(())
    }

    /// What agent and replicas tell each other.
    fn talk(&mut self) {
        let open = [0, 1].map(|replica| self.streams[replica]);
        for replica in (0..2).filter(|replica| open[*replica]) {
            if let Some((pods, policy)) = self.replicas[replica].directives() {
                self.agent.direct(pods, &policy);
            }
        }
        let primary = open.iter().position(|is_open| *is_open);
        let Some(hint) = self.agent.report(false) else {
            return;
        };
        for replica in (0..2).filter(|replica| open[*replica]) {
            self.replicas[replica].report(NodeHint {
                is_primary: primary == Some(replica),
                ..hint.clone()
            });
        }
        self.reported = primary.map(|_| (hint, self.now));
    }

    // Replicas and what they write.

    fn start_anew(&mut self, replica: usize) {
        let version = self.stored.version;
        let bound = self
            .pods
            .iter()
            .map(|(uid, pod)| pod.object(uid, version))
            .collect();
        self.replicas[replica] = Replica::new(&self.run.bounds, &self.stored, bound);
    }

    /// First what a replica does that the agent has told nothing new, then what follows from its next report, and then
    /// pods come.
    fn follow_up(&mut self) -> Checked {
        self.act()?;
        self.talk();
        self.act()?;
        self.schedule()?;
        self.talk();
        self.act()
    }

    /// Nudges by the primary's replica and sweeps by a leader until nothing is due.
    fn act(&mut self) -> Checked {
        for _ in 0..ROUNDS {
            let primary = self.streams.iter().position(|is_open| *is_open);
            let nudge = primary.and_then(|replica| self.replicas[replica].nudge());
            // A deaf leader's touch is bound to a version that is not stored any more.
            let is_swept = !self.replicas[0].is_deaf() && self.replicas[0].finds_fault();
            if nudge.is_none() && !is_swept {
                return self.check_all();
            }
            let version = self.stored.version;
            let new = self.stored.state.clone();
            if let Some(note) = nudge {
                let mut new = new.clone();
                new.annotations.hint = Some(note.clone());
                self.write(Writer::Other, new, Some(&note))?;
            }
            if is_swept {
                self.write(Writer::Other, self.stored.state.clone(), None)?;
            }
            let is_deaf = self.replicas.iter().any(Replica::is_deaf);
            if version == self.stored.version && is_deaf {
                return Ok(());
            }
        }
        if self.replicas.iter().any(Replica::is_deaf) {
            return Ok(());
        }
        Err(format!(
            "after {ROUNDS} rounds something is still due: {:#?}",
            self.stored.state
        ))
    }

    /// The kubelet writes what it finds.
    fn sync(&mut self) -> Checked {
        self.wait(PERIOD);
        let new = State {
            allocatable: quantities(self.raw),
            capacity: quantities(self.capacity),
            ready_heartbeat: Some(self.now.to_string()),
            ..self.stored.state.clone()
        };
        self.write(Writer::Kubelet, new, None)?;
        self.follow_up()
    }

    /// A write of the status goes through admission and is stored.
    fn write(&mut self, writer: Writer, mut new: State, nudged: Option<&str>) -> Checked {
        let replica = &self.replicas[self.route];
        let decision = replica.decide(&self.stored, (writer, &new), nudged);
        let known = replica.bound();
        let is_deaf = replica.is_deaf();
        store(&mut new, &decision);
        let again = replica.decide(&self.stored, (writer, &new), nudged);
        let mut twice = new.clone();
        store(&mut twice, &again);
        if twice != new {
            return Err(format!("decided again, {new:?} becomes {twice:?}"));
        }
        let before = PerResource::from_fn(|resource| self.stored.allocatable(resource));
        if new != self.stored.state {
            self.stored.version += 1;
            self.stored.state = new;
        }
        for replica in &mut self.replicas {
            replica.hear(&self.stored);
        }
        let bound = if is_deaf { known } else { self.bound() };
        for resource in Resource::ALL {
            self.check_written(resource, *bound.get(resource), *before.get(resource))?;
        }
        Ok(())
    }

    // What must hold.

    /// What is published covers what is bound, and is otherwise within bounds.
    fn check_written(&self, resource: Resource, bound: u64, before: u64) -> Checked {
        let published = self.stored.allocatable(resource);
        let raw = *self.raw.get(resource);
        let bounds = self.run.bounds.get(resource);
        let least = raw * u64::from(bounds.min.0) / 100;
        let most = (raw * u64::from(bounds.max.0) / 100).max(covering(bound, raw));
        if published < bound {
            return Err(format!(
                "{resource}: {published} published from {before}, {bound} are bound"
            ));
        }
        if !(least..=most).contains(&published) {
            return Err(format!(
                "{resource}: {published} published, outside {least}..{most}"
            ));
        }
        Ok(())
    }

    /// Where everybody has heard of everything and the agent reports, nothing is published that it has not measured.
    fn check_all(&self) -> Checked {
        let Some((hint, at)) = &self.reported else {
            return Ok(());
        };
        let is_fresh = self.now - at <= 60;
        let all_hear = self
            .replicas
            .iter()
            .zip(self.streams)
            .all(|(replica, is_open)| !replica.is_deaf() && is_open);
        if !is_fresh || !all_hear {
            return Ok(());
        }
        let bound = self.bound();
        for resource in Resource::ALL {
            let (bound, raw) = (*bound.get(resource), *self.raw.get(resource));
            let published = self.stored.allocatable(resource);
            let part = hint.resources.get(resource);
            let most = (raw * u64::from(part.published.0) / 100).max(covering(bound, raw));
            if published < bound || published > most {
                return Err(format!(
                    "{resource}: {published} published, outside {bound}..{most} by {part:?}"
                ));
            }
            let free = i128::from(published) - i128::from(bound);
            let room = self.room(resource, hint);
            if published > raw.max(covering(bound, raw)) && free > room {
                return Err(format!("{resource}: {free} free, {room} measured; {part:?}"));
            }
        }
        Ok(())
    }

    /// T - P - (R - Rw) by the agent's numbers, without trust in pods that are leaving or gone. Trust comes in ppm, rounded
    /// down: up to one more.
    fn room(&self, resource: Resource, hint: &NodeHint) -> i128 {
        let part = hint.resources.get(resource);
        let raw = *self.raw.get(resource);
        let safe = match resource {
            Resource::Cpu => (self.capacity.cpu * THETA / 1_000_000).min(raw),
            Resource::Memory => raw * (THETA / 1_000) / 1_000,
        };
        let warm: u64 = hint
            .trust
            .iter()
            .filter_map(|trust| {
                let pod = self.pods.get(&trust.uid).filter(|pod| pod.gone_at.is_none())?;
                let ppm = match resource {
                    Resource::Cpu => trust.cpu_ppm,
                    Resource::Memory => trust.memory_ppm,
                };
                let request = *pod.requests.get(resource);
                let trusted = u128::from(request) * (u128::from(ppm) + 1) / 1_000_000 + 1;
                Some(u64::try_from(trusted).expect("small").min(request))
            })
            .sum();
        let warm = warm.min(part.warm_requests);
        i128::from(safe) - i128::from(part.predicted_peak) + i128::from(warm)
            - i128::from(*self.bound().get(resource))
    }
}

/// The least whole cents of `raw` that cover what is bound.
fn covering(bound: u64, raw: u64) -> u64 {
    (raw * (bound * 100).div_ceil(raw) / 100).max(bound)
}

/// Stores a decision in the object that is being written.
fn store(new: &mut State, decision: &Decision) {
    for resource in Resource::ALL {
        if let Some(quantity) = decision.allocatable.get(resource) {
            *new.allocatable.get_mut(resource) = Some(*quantity);
        }
    }
    let annotations = &mut new.annotations;
    for (key, value) in &decision.annotations {
        let place = match *key {
            names::RATIO => &mut annotations.ratio,
            names::RAW_ALLOCATABLE => &mut annotations.raw,
            names::MARKER => &mut annotations.marker,
            names::HINT => &mut annotations.hint,
            names::STATIC_RATIO => &mut annotations.static_ratio,
            names::KUBELET_RAW => &mut annotations.kubelet_raw,
            other => panic!("an annotation {other} that the model does not have"),
        };
        place.clone_from(value);
    }
}
