//! The API server, the kubelet and all others who write a Node, and the replicas between them.

use std::{collections::BTreeMap, time::Duration};

use headroom_domain::{
    capacity::{Annotations, State, amount},
    estimate::Profile,
    hint::{NodeHint, PodTrust, ResourceHint, Sight},
    names,
    policy::{Floor, Mode, Policy},
    quantity::{Format, Quantity},
    ratio::Cents,
    resource::{PerResource, Resource},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::{
    runtime::{self, Runtime},
    time,
};

use super::{
    Annotation, Others, Quiet, Step, floor,
    oracle::{self, Oracle, beside, covering, times},
    pods::{Change, Pods},
    replica::Replica,
};
use crate::node::nudge::Nudge;

const NAME: &str = "n1";
const KUBELET: &str = "system:node:n1";
const PROBLEM_DETECTOR: &str = "system:serviceaccount:kube-system:node-problem-detector";
const CLOUD: &str = "system:serviceaccount:kube-system:cloud-controller-manager";
const HUMAN: &str = "jane";
/// The Ready heartbeat when time begins.
const NOON: &str = "2026-01-01T12:00:00Z";
/// Capacity and raw CPU in milli-cores, and the same of memory in MiB.
const MACHINES: [([u64; 2], [u64; 2]); 4] = [
    ([4_000, 3_920], [8_192, 7_168]),
    ([8_000, 7_910], [16_384, 15_104]),
    ([4_000, 3_710], [8_192, 6_912]),
    ([2_000, 1_930], [4_096, 3_328]),
];
/// What people write into allocatable, in milli-cores.
const EDITS: [u64; 3] = [3_337, 4_561, 1_009];
/// Ratios of annotations and of hints, in cents: primes, so that no product of two is a third.
const ANNOTATED: [u32; 4] = [113, 127, 151, 197];
const HINTED: [u32; 6] = [109, 131, 149, 173, 89, 211];
/// CPUs that a pod holds for itself, in milli-cores: no more than such a pod asks for.
const EXCLUSIVE: [u64; 3] = [0, 1_000, 2_000];
/// CPUs of the machine that a lie is about, in milli-cores: none has as many.
const OTHER_MACHINE: u64 = 64_000;
/// Reports of another machine, and seconds between them: more than a minute.
const LIES: usize = 8;
const LIE: u64 = 10;
/// Policies of the ConfigMap.
const POLICIES: [&str; 6] = [
    "{}",
    r#"{"mode":"auto"}"#,
    r#"{"mode":"guard"}"#,
    r#"{"mode":"off"}"#,
    r#"{"mode":"auto","bounds":{"cpu":{"min":0.83,"max":1.63},"memory":{"max":1.37}}}"#,
    r#"{"mode":"guard","bounds":{"cpu":{"max":1.39},"memory":{"max":1.57}},"floor":"none"}"#,
];
/// Revisions that an old copy can be of.
const KEPT: usize = 8;
/// Time between two syncs of a kubelet, in seconds.
const SYNC: u64 = 10;
/// Seconds after which no hint counts any more.
const FORGOTTEN: u64 = 2_000;
/// Rounds of reports, nudges and sweeps after which all that is due must be done: a ratio rises in small steps, each
/// after the one before has stood for a while.
const ROUNDS: usize = 200;
/// Seconds between two rounds, and rounds without anything due after which nothing will be.
const ROUND: u64 = 5;
const STILL: usize = 6;

pub(super) type Checked = Result<(), String>;

/// What an agent says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Says {
    cents: u32,
    /// In milli-cores.
    exclusive: u64,
    is_lie: bool,
}

/// Everything.
pub(super) struct World {
    /// Time stands still in it, but for [`Self::wait`].
    runtime: Runtime,
    /// Seconds since time began.
    now: u64,
    /// Copies of the Node of this life, the stored one last.
    revisions: Vec<Value>,
    version: u64,
    lives: u64,
    /// What the kubelet finds: capacity and raw, in milli-cores and bytes.
    pub(super) capacity: PerResource<u64>,
    pub(super) raw: PerResource<u64>,
    has_device: bool,
    has_floor: bool,
    pub(super) seq: u64,
    policies: [usize; 2],
    replicas: [Replica; 2],
    route: usize,
    /// What each replica has sent, and nobody has got.
    sent: [Option<Nudge>; 2],
    pods: Pods,
    pub(super) oracle: Oracle,
    /// The truths when the last write was done: a write that tells another is no matter of pods.
    told_before: PerResource<Vec<u64>>,
}

/// The UID of a Node.
pub(super) fn uid_of(node: &Value) -> &str {
    node["metadata"]["uid"].as_str().expect("a UID")
}

/// The Ready heartbeat of a Node.
pub(super) fn heartbeat_of(node: &Value) -> Timestamp {
    ready_of(node).parse().expect("a time")
}

fn ready_of(node: &Value) -> &str {
    let conditions = node["status"]["conditions"].as_array().expect("conditions");
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
    ready.expect("Ready")["lastHeartbeatTime"]
        .as_str()
        .expect("a time")
}

/// What the capacity rules read of a Node.
pub(super) fn state(node: &Value) -> State {
    let quantities = |list: &str| {
        PerResource::from_fn(|resource| node["status"][list][resource.name()].as_str()?.parse().ok())
    };
    let annotation = |key: &str| Some(node["metadata"]["annotations"].get(key)?.as_str()?.into());
    State {
        allocatable: quantities("allocatable"),
        capacity: quantities("capacity"),
        ready_heartbeat: Some(ready_of(node).to_owned()),
        annotations: Annotations {
            marker: annotation(names::MARKER),
            ..Annotations::default()
        },
    }
}

pub(super) fn text(resource: Resource, amount: u64) -> String {
    match resource {
        Resource::Cpu => Quantity::from_milli(amount),
        Resource::Memory => Quantity::from_units(amount, Format::BinarySi),
    }
    .to_string()
}

/// Allocatable of a Node in milli-cores or bytes.
pub(super) fn allocatable(node: &Value, resource: Resource) -> u64 {
    amount_in(node, "allocatable", resource)
}

/// An amount in one of the lists of a Node, in milli-cores or bytes.
pub(super) fn amount_in(node: &Value, list: &str, resource: Resource) -> u64 {
    let text = node["status"][list][resource.name()].as_str();
    amount(resource, &text.expect("a value").parse().expect("a quantity")).expect("an amount")
}

/// Sets or removes a member.
pub(super) fn put(object: &mut Value, key: &str, value: Option<Value>) {
    let members = object.as_object_mut().expect("an object");
    match value {
        Some(value) => drop(members.insert(key.to_owned(), value)),
        None => drop(members.remove(key)),
    }
}

/// Puts a condition in the place of the one of its type.
fn put_condition(node: &mut Value, condition: Value) {
    let conditions = node["status"]["conditions"].as_array_mut().expect("conditions");
    match conditions.iter_mut().find(|is| is["type"] == condition["type"]) {
        Some(is) => *is = condition,
        None => conditions.push(condition),
    }
}

fn pick<T: Copy>(all: &[T], index: usize) -> T {
    all[index % all.len()]
}

impl World {
    /// A raw node, two replicas that have heard of it, no floor, no policy, no hint.
    pub(super) fn new() -> Self {
        let runtime = runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let handle = runtime.handle().clone();
        let _entered = handle.enter();
        let replicas = [Replica::blind(), Replica::blind()];
        let mut world = Self {
            runtime,
            now: 0,
            replicas,
            revisions: Vec::new(),
            version: 0,
            lives: 0,
            capacity: PerResource::default(),
            raw: PerResource::default(),
            has_device: false,
            has_floor: false,
            seq: 0,
            policies: [0, 0],
            route: 0,
            sent: [None, None],
            pods: Pods::default(),
            oracle: Oracle::default(),
            told_before: PerResource::default(),
        };
        world.resize(0);
        world.register();
        for replica in 0..2 {
            world.start(replica);
            world
                .oracle
                .allowed(world.replicas[replica].policy().expect("a policy"));
        }
        world
    }

    /// Lets a step happen.
    pub(super) fn take(&mut self, step: Step) -> Checked {
        let handle = self.runtime.handle().clone();
        let _entered = handle.enter();
        match step {
            Step::Wait(seconds) => self.wait(seconds.into()),
            Step::Sync { lag } => return self.sync(lag, false),
            Step::Report { lag } => return self.sync(lag, true),
            Step::Restart => return self.sync(0, true),
            Step::Machine(machine) => self.resize(machine),
            Step::RawBecomesStored => self.grow(),
            Step::Others(what) => return self.write_of_others(what),
            Step::Annotate(annotation) => return self.annotate(annotation),
            Step::Forge(what) => return self.forge(what),
            Step::Pods(change) => self.change(change),
            Step::Policy { policy, replica } => self.configure(policy, replica),
            Step::Hint {
                cents,
                replica,
                is_of_old_life,
                exclusive,
            } => self.report(Says::the_truth(cents, exclusive), replica, is_of_old_life),
            Step::Lies { cents, replica } => self.lie(pick(&HINTED, cents), replica),
            Step::Leave(replica) => self.replicas[replica].leave(NAME),
            Step::Nudge(replica) => return self.nudge(replica).map(drop),
            Step::Send(replica) => self.sent[replica] = self.due_nudge(replica),
            Step::Arrive(replica) => {
                return self.sent[replica]
                    .take()
                    .map_or(Ok(()), |nudge| self.arrive(&nudge));
            }
            Step::Sweep(replica) => return self.sweep(replica).map(drop),
            Step::Hear(replica) => self.replicas[replica].hear(self.stored()),
            Step::StartAnew(replica) => self.start(replica),
            Step::StartBlind(replica) => self.replicas[replica] = Replica::blind(),
            Step::Outage { replica, is_over } => self.replicas[replica].is_up = is_over,
            Step::Route(replica) => self.route = replica,
            Step::Floor(is_there) => self.has_floor = is_there,
            Step::Recreate { is_copy } => return self.recreate(is_copy),
        }
        Ok(())
    }

    pub(super) fn stored(&self) -> &Value {
        self.revisions.last().expect("a Node")
    }

    fn seen(&self, lag: usize) -> &Value {
        let last = self.revisions.len() - 1;
        &self.revisions[last.saturating_sub(lag)]
    }

    fn wait(&mut self, seconds: u64) {
        self.now += seconds;
        self.runtime.block_on(time::advance(Duration::from_secs(seconds)));
    }

    fn time(&self) -> String {
        let seconds = i64::try_from(self.now).expect("a short run");
        let noon: Timestamp = NOON.parse().expect("a time");
        (noon + SignedDuration::from_secs(seconds)).to_string()
    }

    // What is and what is asked for.

    fn resize(&mut self, machine: usize) {
        let (cpu, memory) = pick(&MACHINES, machine);
        let [capacity, raw] = [0, 1].map(|part| PerResource {
            cpu: cpu[part],
            memory: memory[part] << 20,
        });
        (self.capacity, self.raw) = (capacity, raw);
    }

    /// Only capacity tells such a raw value from what was made of the one before: it has to be known, and what is held
    /// back of it has to stay the same. It is the marker that knows it.
    fn grow(&mut self) {
        let stored = allocatable(self.stored(), Resource::Cpu);
        let is_ours = raw_of_marker(self.stored(), Resource::Cpu) == Some(self.raw.cpu)
            && written_by_marker(self.stored(), Resource::Cpu) == Some(stored);
        let is_known = is_ours
            && self.oracle.truths(Resource::Cpu).iter().eq([&self.raw.cpu])
            && self.stored()["status"]["capacity"]["cpu"] == text(Resource::Cpu, self.capacity.cpu).as_str();
        if is_known && stored > self.raw.cpu {
            self.capacity.cpu += stored - self.raw.cpu;
            self.raw.cpu = stored;
        }
    }

    /// True if the kubelet finds what we wrote, by what is now the case with its machine. Capacity tells that; but where
    /// somebody else changes allocatable before the kubelet speaks, nothing does, and the node stays lower than it could.
    fn is_mistakable(&self) -> bool {
        written_by_marker(self.stored(), Resource::Cpu) == Some(self.raw.cpu)
            && raw_of_marker(self.stored(), Resource::Cpu) != Some(self.raw.cpu)
    }

    fn configure(&mut self, policy: usize, only: Option<usize>) {
        for replica in 0..2 {
            if only.is_none_or(|only| only == replica) {
                self.policies[replica] = policy;
                if self.replicas[replica].policy().is_some() {
                    self.replicas[replica].follow(&policy_of(policy));
                    self.oracle
                        .allowed(self.replicas[replica].policy().expect("a policy"));
                }
            }
        }
    }

    fn start(&mut self, replica: usize) {
        self.replicas[replica] = Replica::blind();
        let pods = self.pods.objects(self.version);
        self.replicas[replica].hear_all(&policy_of(self.policies[replica]), self.stored(), pods);
        self.oracle
            .allowed(self.replicas[replica].policy().expect("a policy"));
    }

    fn report(&mut self, says: Says, only: Option<usize>, is_of_old_life: bool) {
        self.seq += 1;
        let exclusive = self.exclusive(says);
        let uid = if is_of_old_life {
            format!("u{}", self.lives - 1)
        } else {
            for resource in Resource::ALL {
                self.oracle.hinted(hint_of(resource, says.cents));
            }
            self.oracle.apart(exclusive);
            uid_of(self.stored()).to_owned()
        };
        for replica in 0..2 {
            if only.is_none_or(|only| only == replica) {
                self.replicas[replica].report(NodeHint {
                    pods_generation: self.version,
                    trust: self
                        .pods
                        .guaranteed()
                        .map(|pod| trust(pod, exclusive))
                        .into_iter()
                        .collect(),
                    ..hint(&uid, self.seq, says)
                });
            }
        }
    }

    /// What a pod holds for itself, as the agent says, where one runs that may.
    fn exclusive(&self, says: Says) -> u64 {
        self.pods.guaranteed().map_or(0, |_| says.exclusive)
    }

    /// The agent speaks of another machine, in one report after the other.
    fn lie(&mut self, cents: u32, only: Option<usize>) {
        let says = Says {
            cents,
            exclusive: 0,
            is_lie: true,
        };
        for _ in 0..LIES {
            self.report(says, only, false);
            self.wait(LIE);
        }
    }

    fn annotate(&mut self, annotation: Annotation) -> Checked {
        let mut node = self.stored().clone();
        let (key, value) = match annotation {
            Annotation::Ratio(ratio) => (names::RATIO, ratio.map(|ratio| self.ratio(ratio))),
            Annotation::Mode(mode) => (
                names::MODE,
                mode.map(|mode| pick(&Mode::ALL, mode).name().to_owned()),
            ),
        };
        put(&mut node["metadata"]["annotations"], key, value.map(Value::from));
        self.store(node)
    }

    fn change(&mut self, change: Change) {
        self.version += 1;
        let stored = PerResource::from_fn(|resource| allocatable(self.stored(), resource));
        let changed = self.pods.change(change, &stored, self.version);
        if let Some((pod, is_gone)) = changed {
            for replica in &self.replicas {
                replica.hear_of(&pod, is_gone);
            }
        }
    }

    /// The text of a ratio annotation for both resources.
    fn ratio(&mut self, ratio: usize) -> String {
        let (cpu, memory) = (pick(&ANNOTATED, ratio), pick(&ANNOTATED, ratio + 1));
        self.oracle.annotated(cpu);
        self.oracle.annotated(memory);
        let decimal = |cents: u32| format!("{}.{:02}", cents / 100, cents % 100);
        format!(r#"{{"cpu":{},"memory":{}}}"#, decimal(cpu), decimal(memory))
    }

    // Who writes the Node.

    /// A Node as a kubelet makes it.
    fn register(&mut self) {
        self.lives += 1;
        self.version += 1;
        let amounts = |amounts: &PerResource<u64>| {
            let texts =
                Resource::ALL.map(|resource| (resource.name(), text(resource, *amounts.get(resource))));
            json!(BTreeMap::from(texts))
        };
        let beat = self.time();
        let condition =
            |kind: &str, status: &str| json!({"type": kind, "status": status, "lastHeartbeatTime": beat});
        self.revisions = vec![json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": NAME, "uid": format!("u{}", self.lives), "annotations": {},
                "resourceVersion": self.version.to_string(),
            },
            "status": {
                "capacity": amounts(&self.capacity), "allocatable": amounts(&self.raw),
                "conditions": [condition("DiskPressure", "False"), condition("Ready", "True")],
            },
        })];
        for resource in Resource::ALL {
            self.oracle.told(resource, *self.raw.get(resource));
        }
    }

    fn recreate(&mut self, is_copy: bool) -> Checked {
        if is_copy {
            self.lives += 1;
            let mut node = self.stored().clone();
            node["metadata"]["uid"] = format!("u{}", self.lives).into();
            for resource in Resource::ALL {
                self.claim(&node, resource, allocatable(&node, resource));
            }
            return self.store(node);
        }
        self.oracle.forget();
        self.register();
        let raw = self.raw;
        self.check(&raw)
    }

    /// The kubelet's sync: what differs between what it finds and the copy that it sees.
    fn sync(&mut self, lag: usize, is_report: bool) -> Checked {
        self.wait(SYNC);
        let seen = self.seen(lag).clone();
        let mut node = self.stored().clone();
        let mut has_news = is_report;
        for (list, amounts) in [("capacity", self.capacity), ("allocatable", self.raw)] {
            for resource in Resource::ALL {
                let found = text(resource, *amounts.get(resource));
                if seen["status"][list][resource.name()] != found.as_str() {
                    has_news = true;
                    node["status"][list][resource.name()] = found.into();
                    if list == "allocatable" {
                        self.claim(&node, resource, *amounts.get(resource));
                    }
                }
            }
        }
        if !has_news {
            return Ok(());
        }
        for resource in Resource::ALL {
            let raw = *self.raw.get(resource);
            let is_said = node["status"]["capacity"] != self.stored()["status"]["capacity"];
            // It says nothing because the copy already has it, and so has the Node, whoever put it there.
            if is_said && allocatable(&node, resource) == raw {
                self.claim(&node, resource, raw);
            }
        }
        for kind in ["DiskPressure", "Ready"] {
            let status = if kind == "Ready" { "True" } else { "False" };
            let beat = self.time();
            put_condition(
                &mut node,
                json!({"type": kind, "status": status, "lastHeartbeatTime": beat}),
            );
        }
        self.write(KUBELET, node)
    }

    fn write_of_others(&mut self, what: Others) -> Checked {
        if matches!(what, Others::Edit(_) | Others::Revert { .. }) && self.is_mistakable() {
            return Ok(());
        }
        let mut node = self.stored().clone();
        let user = match what {
            Others::Problem => {
                let beat = self.time();
                put_condition(
                    &mut node,
                    json!({"type": "KernelDeadlock", "status": "False", "lastHeartbeatTime": beat}),
                );
                PROBLEM_DETECTOR
            }
            Others::Device => {
                self.has_device = !self.has_device;
                let count = self.has_device.then(|| json!("1"));
                put(
                    &mut node["status"]["capacity"],
                    "example.com/device",
                    count.clone(),
                );
                put(&mut node["status"]["allocatable"], "example.com/device", count);
                KUBELET
            }
            Others::Address(last) => {
                node["status"]["addresses"] =
                    json!([{"type": "InternalIP", "address": format!("10.0.0.{last}")}]);
                CLOUD
            }
            Others::Edit(edit) => {
                self.edit(&mut node, pick(&EDITS, edit));
                HUMAN
            }
            Others::Revert { lag } => {
                let before = allocatable(self.seen(lag), Resource::Cpu);
                self.edit(&mut node, before);
                HUMAN
            }
        };
        self.write(user, node)
    }

    /// Somebody says that allocatable is `value`. Even a kubelet can seem to claim more than its capacity: where its copy
    /// is old, it sends one of the two and leaves the other out.
    fn claim(&mut self, node: &Value, resource: Resource, value: u64) {
        if value > amount_in(node, "capacity", resource) {
            self.oracle.shown(resource, value);
        } else {
            self.oracle.told(resource, value);
        }
    }

    fn edit(&mut self, node: &mut Value, cpu_milli: u64) {
        if allocatable(node, Resource::Cpu) != cpu_milli {
            self.claim(node, Resource::Cpu, cpu_milli);
            node["status"]["allocatable"]["cpu"] = text(Resource::Cpu, cpu_milli).into();
        }
    }

    /// A nudge, if one is due and the replica is there: true if it was.
    fn nudge(&mut self, replica: usize) -> Result<bool, String> {
        let Some(nudge) = self.due_nudge(replica) else {
            return Ok(false);
        };
        self.arrive(&nudge).map(|()| true)
    }

    /// The nudge that is due, if one is and the replica is there.
    fn due_nudge(&self, replica: usize) -> Option<Nudge> {
        let replica = &self.replicas[replica];
        replica.nudge(NAME).filter(|_| replica.is_up)
    }

    /// A nudge comes to the API server, which stores it for the revision that it rests on alone.
    fn arrive(&mut self, nudge: &Nudge) -> Checked {
        let is_overtaken =
            |version: u64| self.stored()["metadata"]["resourceVersion"] != version.to_string().as_str();
        if nudge.version.is_some_and(is_overtaken) {
            return Ok(());
        }
        let mut node = self.stored().clone();
        node["metadata"]["annotations"][names::HINT] = nudge.note.clone().into();
        self.write(&ours(), node)
    }

    /// A touch by a leader, if anything is amiss and the Node is still the one it looked at: true if it was.
    fn sweep(&mut self, replica: usize) -> Result<bool, String> {
        let Some(version) = self.replicas[replica]
            .sweep(NAME)
            .filter(|_| self.replicas[replica].is_up)
        else {
            return Ok(false);
        };
        if self.stored()["metadata"]["resourceVersion"] == version.to_string().as_str() {
            self.write(&ours(), self.stored().clone())?;
        }
        Ok(true)
    }

    // What the API server makes of it.

    /// A write of the status: policies, the webhook, and then it is stored.
    fn write(&mut self, user: &str, node: Value) -> Checked {
        let old = self.stored().clone();
        let is_told = self.truths() != self.told_before;
        self.oracle.believe(&PerResource::from_fn(|resource| {
            let stored = allocatable(&old, resource);
            let is_written = written_by_marker(&old, resource) == Some(stored);
            let raw = raw_of_marker(&old, resource).or_else(|| raw_of_annotation(&old, resource));
            [raw, Some(stored).filter(|_| !is_written)]
        }));
        let is_kubelet = user == KUBELET;
        let mut node = if is_kubelet && self.has_floor {
            floor::after(&old, node)
        } else {
            node
        };
        let replica = &self.replicas[self.route];
        if replica.is_up {
            let review = review(user, &node, &old);
            let patch = replica.review(&review);
            json_patch::patch(&mut node, &patch).map_err(|error| format!("a patch does not fit: {error}"))?;
            let mut again = review;
            again["request"]["object"] = node.clone();
            let mut second = replica.review(&again);
            if user == ours() {
                // A replica that is behind nudges with a hint as it came, not as bounds leave it; the second call, which no API
                // server makes, reads the latter, and has nothing to complain about.
                second
                    .0
                    .retain(|operation| operation.path().as_str() != "/status/conditions");
            }
            if !second.is_empty() {
                return Err(format!("called again, it changes its own result: {second:?}"));
            }
        }
        self.store(node)?;
        self.told_before = self.truths();
        if is_told { Ok(()) } else { self.check_covered(&old) }
    }

    fn truths(&self) -> PerResource<Vec<u64>> {
        PerResource::from_fn(|resource| self.oracle.truths(resource).iter().copied().collect())
    }

    /// Whatever is decided, a pod that the kubelet has let in is not left uncovered by whoever knows of it.
    fn check_covered(&self, old: &Value) -> Checked {
        let replica = &self.replicas[self.route];
        let Some(policy) = replica.policy().filter(|_| replica.is_up && replica.knows_pods()) else {
            return Ok(());
        };
        // A node that nothing of ours is on is not ours to hold.
        let marker = old["metadata"]["annotations"][names::MARKER].as_str();
        let is_ours = marker.is_some_and(|marker| marker.contains(&format!("\"uid\":\"{}\"", uid_of(old))));
        if policy.floor == Floor::None || !is_ours {
            return Ok(());
        }
        let admitted = self.pods.admitted();
        for resource in Resource::ALL {
            let (was, is) = (allocatable(old, resource), allocatable(self.stored(), resource));
            let admitted = *admitted.get(resource);
            // What was let in under a forged raw value may be more than the node's maximum.
            let is_forged = self.oracle.believes(resource);
            if was >= admitted && is < admitted && !is_forged {
                return Err(format!(
                    "{resource} went from {was} to {is} with {admitted} set aside; stored is {:#}",
                    self.stored()
                ));
            }
        }
        Ok(())
    }

    /// Stores what differs from what is stored.
    pub(super) fn store(&mut self, mut node: Value) -> Checked {
        if node == *self.stored() {
            return Ok(());
        }
        self.version += 1;
        node["metadata"]["resourceVersion"] = self.version.to_string().into();
        if uid_of(&node) != uid_of(self.stored()) {
            self.revisions.clear();
        }
        let last = self.revisions.last().unwrap_or(&node);
        let before = PerResource::from_fn(|resource| allocatable(last, resource));
        self.revisions.push(node);
        if self.revisions.len() > KEPT {
            self.revisions.remove(0);
        }
        self.check(&before)
    }

    /// Fails if what is stored may not be.
    fn check(&mut self, before: &PerResource<u64>) -> Checked {
        let (admitted, fit) = (self.pods.admitted(), self.pods.fit(before));
        let replica = &self.replicas[self.route];
        let are_known = !replica.is_up || replica.knows_pods();
        let hint = self.stored()["metadata"]["annotations"][names::HINT].as_str();
        let is_unheard =
            !hint.is_some_and(|hint| hint.contains(&format!("\"uid\":\"{}\"", uid_of(self.stored()))));
        let is_news = self.truths() != self.told_before;
        for resource in Resource::ALL {
            let value = allocatable(self.stored(), resource);
            let before = *before.get(resource);
            // A forged marker can keep what is stored, or make it any less, and its ratio outlives it where nobody knows the
            // policy. What counts is that it raises nothing, and that all is well in the end.
            let truth = self.oracle.truths(resource).last().copied().unwrap_or_default();
            let is_low = self.oracle.was_forged(resource) && value <= before.max(truth);
            if is_low || (!is_news && value == before) {
                continue;
            }
            let pods = oracle::Pods {
                admitted: *admitted.get(resource),
                fit: *fit.get(resource),
                stored: before,
                are_known,
                is_unheard,
            };
            if !self.oracle.allows(resource, value) && !self.oracle.holds(resource, value, pods) {
                return Err(format!(
                    "{resource} is {value}, neither raw {:?} nor that times a ratio, nor what pods hold ({pods:?}); stored is {:#}",
                    self.oracle.truths(resource),
                    self.stored()
                ));
            }
        }
        Ok(())
    }

    // The end of a run.

    /// Nothing changes any more: both replicas are there and follow the same policy, and get the same reports again and
    /// again. Within one sync of the kubelet all must be as the rules say, and stay so whichever replica is asked.
    pub(super) fn be_quiet(&mut self, quiet: Quiet) -> Checked {
        let handle = self.runtime.handle().clone();
        let _entered = handle.enter();
        let policy = self.policies[0];
        for replica in 0..2 {
            self.replicas[replica].is_up = true;
            if self.replicas[replica].policy().is_none() {
                self.start(replica);
            }
        }
        self.configure(policy, None);
        while self.pods.are_waiting() {
            self.change(Change::Admit);
        }
        match quiet.streams {
            0 => self.wait(FORGOTTEN),
            1 => self.replicas[1].leave(NAME),
            _ => {}
        }
        if quiet.are_lies {
            for _ in 0..LIES {
                self.repeat(quiet);
                self.wait(LIE);
            }
        }
        self.settle(quiet)?;
        if self.is_forged() {
            // The kubelet's next word is taken for ours, and the one after it is not.
            self.sync(0, false)?;
            self.settle(quiet)?;
        }
        self.sync(0, self.has_missed_news())?;
        self.settle(quiet)?;
        self.expect(policy, quiet)?;
        self.have_said_all(quiet)?;
        self.stay()
    }

    /// Whichever replica is asked, nothing changes.
    fn stay(&mut self) -> Checked {
        let (before, version) = (self.stored().clone(), self.version);
        for route in [0, 1, 0, 1] {
            self.route = route;
            self.sync(0, false)?;
            if let Some(replica) = (0..2).find(|&replica| self.is_due(replica)) {
                return Err(format!(
                    "replica {replica} still finds something to do: {:#}",
                    self.stored()
                ));
            }
        }
        // Heartbeats may be due once.
        let written = self.version - version;
        if written > 1 {
            return Err(format!(
                "{written} writes although nothing happened: {before:#} became {:#}",
                self.stored()
            ));
        }
        for resource in Resource::ALL {
            let (was, is) = (
                allocatable(&before, resource),
                allocatable(self.stored(), resource),
            );
            if was != is {
                return Err(format!(
                    "{resource} went from {was} to {is} although nothing happened"
                ));
            }
        }
        Ok(())
    }

    /// True if a kubelet told of another capacity while nobody answered. What it told of raw can then be the very value
    /// that was made of the one before, and only its next write, at the latest its report, tells the two apart.
    fn has_missed_news(&self) -> bool {
        marker_of(self.stored()).is_some_and(|marker| {
            marker["from"]["cpu"]["capacity"] != self.stored()["status"]["capacity"]["cpu"]
        })
    }

    /// True if the marker says another raw value than the kubelet does.
    fn is_forged(&self) -> bool {
        let is_other = |resource| {
            raw_of_marker(self.stored(), resource).is_some_and(|raw| raw != *self.raw.get(resource))
        };
        Resource::ALL.into_iter().any(is_other)
    }

    /// Syncs by way of both replicas until neither has more to say: in `guard` a hint may still rise beyond what is
    /// applied, a step at a time.
    fn have_said_all(&mut self, quiet: Quiet) -> Checked {
        let mut still = 0;
        for round in 0..ROUNDS {
            self.route = round % 2;
            self.repeat(quiet);
            let version = self.version;
            self.sync(0, false)?;
            self.replicas
                .iter()
                .for_each(|replica| replica.hear(self.stored()));
            still = if self.version == version { still + 1 } else { 0 };
            if still == STILL {
                return Ok(());
            }
        }
        Err(format!("every sync is written: {:#}", self.stored()))
    }

    /// The agent reports the same again.
    fn repeat(&mut self, quiet: Quiet) {
        if quiet.streams > 0 {
            self.report(Says::when(quiet), (quiet.streams == 1).then_some(0), false);
        }
    }

    fn is_due(&self, replica: usize) -> bool {
        let replica = &self.replicas[replica];
        replica.hear(self.stored());
        replica.sweep(NAME).is_some()
    }

    /// Reports, nudges by the primary and sweeps until nothing is due.
    fn settle(&mut self, quiet: Quiet) -> Checked {
        let mut still = 0;
        for round in 0..ROUNDS {
            self.wait(ROUND);
            self.repeat(quiet);
            // A write goes to either replica, and only one of them may know what there is to do.
            self.route = round % 2;
            self.replicas[0].hear(self.stored());
            let mut is_done = quiet.streams == 0 || !self.nudge(0)?;
            for replica in 0..2 {
                self.replicas[replica].hear(self.stored());
                is_done &= !self.sweep(replica)?;
            }
            still = if is_done { still + 1 } else { 0 };
            if still == STILL {
                return Ok(());
            }
        }
        Err(format!(
            "after {ROUNDS} rounds something is still due: {:#}",
            self.stored()
        ))
    }

    /// What pods hold for themselves: without reports what the Node says of that goes on counting, while a pod is there that
    /// may.
    fn apart(&self, quiet: Quiet) -> u64 {
        if quiet.streams > 0 {
            return self.exclusive(Says::when(quiet));
        }
        let hint = self.stored()["metadata"]["annotations"][names::HINT].as_str();
        let hint: Option<Value> = hint.and_then(|hint| serde_json::from_str(hint).ok());
        let recorded = hint.and_then(|hint| hint["excl"].as_u64());
        self.pods.guaranteed().and(recorded).unwrap_or_default()
    }

    /// Fails if more is published than is there, where nothing that the agent says is believed.
    fn expect_quarantine(&self, resource: Resource) -> Checked {
        let raw = *self.raw.get(resource);
        let most = covering(*self.pods.admitted().get(resource), raw).max(raw);
        let is = allocatable(self.stored(), resource);
        if is > most {
            return Err(format!("{resource} is {is} in quarantine, {most} is the most"));
        }
        Ok(())
    }

    /// Fails if allocatable is not what the rules say of the kubelet's raw values.
    fn expect(&self, policy: usize, quiet: Quiet) -> Checked {
        let annotations = &self.stored()["metadata"]["annotations"];
        let hinted = (quiet.streams > 0).then_some(pick(&HINTED, quiet.cents));
        let apart = self.apart(quiet);
        let is_quarantined = quiet.streams > 0 && quiet.are_lies;
        let configured = self.replicas[0].policy().expect("a policy");
        let mode = annotations[names::MODE]
            .as_str()
            .and_then(|mode| mode.parse().ok());
        let policy_in_force = Policy {
            mode: mode.unwrap_or(configured.mode),
            ..configured
        };
        let own = annotations[names::STATIC_RATIO]
            .as_str()
            .or(annotations[names::RATIO].as_str());
        let own: BTreeMap<String, f64> = own
            .and_then(|own| serde_json::from_str(own).ok())
            .unwrap_or_default();
        for resource in Resource::ALL {
            let raw = *self.raw.get(resource);
            let own = own.get(resource.name()).map(|ratio| cents_of(*ratio));
            let Some(cents) = wanted(&policy_in_force, resource, own, hinted) else {
                continue;
            };
            let follows_hint = matches!(policy_in_force.mode, Mode::Guard | Mode::Auto);
            if is_quarantined && follows_hint {
                self.expect_quarantine(resource)?;
                continue;
            }
            let is = allocatable(self.stored(), resource);
            let is_apart = resource == Resource::Cpu && policy_in_force.mode != Mode::Off;
            let decided = beside(if is_apart { apart } else { 0 }, raw, cents);
            let admitted = covering(*self.pods.admitted().get(resource), raw);
            let highest = times(raw, highest(&policy_in_force, resource, own));
            let expected = if policy_in_force.floor == Floor::None {
                decided
            } else if admitted > highest {
                // How much of it is covered depends on what was before.
                is.clamp(decided.max(highest), decided.max(admitted))
            } else if is == admitted {
                // Beneath what pods hold a ratio climbs by a step with each heartbeat that is written: nothing is to be nudged.
                is.max(times(raw, 100))
            } else {
                decided.max(admitted)
            };
            if is != expected {
                return Err(format!(
                    "{resource} is {is} in place of {expected} ({raw} times {cents} cents) under policy {}; stored is {:#}",
                    policy_of(policy),
                    self.stored()
                ));
            }
        }
        Ok(())
    }
}

/// The ratio that the rules ask for, in cents; `None` where it depends on what was before.
fn wanted(policy: &Policy, resource: Resource, own: Option<u32>, hinted: Option<u32>) -> Option<u32> {
    let own = own.unwrap_or(100).clamp(100, policy.static_max.get(resource).0);
    let hinted = hinted.map(|cents| hint_of(resource, cents));
    let hinted = hinted.map(|cents| policy.bounds.get(resource).clamp(Cents(cents)).0);
    match policy.mode {
        Mode::Off => Some(100),
        Mode::Static => Some(own),
        Mode::Guard => hinted.map(|hinted| own.min(hinted)),
        Mode::Auto => hinted,
    }
}

/// The highest ratio of a mode, in cents: up to there pods hold whatever they have.
fn highest(policy: &Policy, resource: Resource, own: Option<u32>) -> u32 {
    match policy.mode {
        Mode::Off => 100,
        Mode::Static => own.unwrap_or(100).clamp(100, policy.static_max.get(resource).0),
        Mode::Guard | Mode::Auto => policy.bounds.get(resource).max.0.max(100),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small positive number"
)]
fn cents_of(ratio: f64) -> u32 {
    (ratio * 100.0).round() as u32
}

/// What a report of `cents` says of a resource.
fn hint_of(resource: Resource, cents: u32) -> u32 {
    match resource {
        Resource::Cpu => cents,
        Resource::Memory => {
            HINTED[(HINTED.iter().position(|is| *is == cents).expect("a hint") + 1) % HINTED.len()]
        }
    }
}

fn policy_of(policy: usize) -> Value {
    serde_json::from_str(pick(&POLICIES, policy)).expect("a policy")
}

/// The user of nudges and sweeps.
fn ours() -> String {
    format!(
        "system:serviceaccount:{}:{}",
        names::NAMESPACE,
        names::WEBHOOK_SERVICE_ACCOUNT
    )
}

impl Says {
    /// What an agent says of its machine.
    pub(super) fn the_truth(cents: usize, exclusive: usize) -> Self {
        Self {
            cents: pick(&HINTED, cents),
            exclusive: pick(&EXCLUSIVE, exclusive),
            is_lie: false,
        }
    }

    /// What it says when all is quiet.
    fn when(quiet: Quiet) -> Self {
        Self {
            is_lie: quiet.are_lies,
            ..Self::the_truth(quiet.cents, quiet.exclusive)
        }
    }
}

/// What an agent says of a pod that holds CPUs for itself.
fn trust(pod: &str, exclusive: u64) -> PodTrust {
    PodTrust {
        uid: pod.to_owned(),
        cpu_ppm: 0,
        memory_ppm: 0,
        exclusive_cpus_milli: exclusive,
    }
}

/// The marker of a Node, if it can be read.
pub(super) fn marker_of(node: &Value) -> Option<Value> {
    let marker = node["metadata"]["annotations"][names::MARKER].as_str()?;
    serde_json::from_str(marker).ok()
}

/// What was written as the marker says, in milli-cores or bytes.
fn written_by_marker(node: &Value, resource: Resource) -> Option<u64> {
    let written = marker_of(node)?[resource.name()].as_str()?.parse().ok()?;
    amount(resource, &written)
}

/// The raw value that the marker says, in milli-cores or bytes.
fn raw_of_marker(node: &Value, resource: Resource) -> Option<u64> {
    let raw = marker_of(node)?["from"][resource.name()]["raw"]
        .as_str()?
        .parse()
        .ok()?;
    amount(resource, &raw)
}

/// The raw value that the raw annotation says, which counts where there is no marker.
pub(super) fn raw_of_annotation(node: &Value, resource: Resource) -> Option<u64> {
    let raw = node["metadata"]["annotations"][names::RAW_ALLOCATABLE].as_str()?;
    let raw: Value = serde_json::from_str(raw).ok()?;
    amount(resource, &raw[resource.name()].as_str()?.parse().ok()?)
}

pub(super) fn hint(uid: &str, seq: u64, says: Says) -> NodeHint {
    NodeHint {
        node: NAME.to_owned(),
        node_uid: uid.to_owned(),
        boot_id: "b1".to_owned(),
        seq,
        is_primary: true,
        pods_generation: 1,
        sight: Sight::Full,
        // Its frame, after which a ratio may rise another step, is a second.
        timing: Profile::Demo,
        is_draining: false,
        resources: PerResource::from_fn(|resource| {
            let cents = Cents(hint_of(resource, says.cents));
            let is_lie = says.is_lie && resource == Resource::Cpu;
            ResourceHint {
                capacity: if is_lie { OTHER_MACHINE } else { 0 },
                published: cents,
                target: cents,
                ..ResourceHint::default()
            }
        }),
        trust: Vec::new(),
        steal_ppm: 0,
        signals: Vec::new(),
        past: None,
    }
}

fn review(user: &str, object: &Value, old_object: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "r-1",
            "kind": {"group": "", "version": "v1", "kind": "Node"},
            "resource": {"group": "", "version": "v1", "resource": "nodes"},
            "subResource": "status",
            "name": NAME,
            "operation": "UPDATE",
            "userInfo": {"username": user},
            "object": object,
            "oldObject": old_object,
        },
    })
}
