//! Model world of the interleavings: the API server, the kubelet and all other writers of one Node, and two replicas.

mod agent_reports;
mod quiet;
mod write_checks;
mod writers;
mod writes;

use std::time::Duration;

use headroom_domain::resource::{PerResource, Resource};
use headroom_webhook::control::nudge::Nudge;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::{
    runtime::{self, Runtime},
    time,
};

pub(super) use self::agent_reports::{Says, hint};
use super::{
    ModelStep,
    model_pods::{ModelPods, PodChange},
    node::{allocatable, raw_of_marker, text, written_by_marker},
    oracle::Oracle,
    replica::ModelReplica,
};

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
/// Values that users write into allocatable, in milli-cores.
const EDITS: [u64; 3] = [3_337, 4_561, 1_009];
/// Ratios of annotations and of hints, in cents: primes, so that no product of two is a third.
const ANNOTATED: [u32; 4] = [113, 127, 151, 197];
const HINTED: [u32; 6] = [109, 131, 149, 173, 89, 211];
/// Exclusive CPUs of a pod, in milli-cores: at most its request.
const EXCLUSIVE: [u64; 3] = [0, 1_000, 2_000];
/// CPUs of the machine that a lie is about, in milli-cores: none has as many.
const OTHER_MACHINE: u64 = 64_000;
/// Reports of another machine, and seconds between them: more than a minute.
const LIES: usize = 8;
const LIE: u64 = 10;
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
/// Time between two reports of a kubelet that has nothing new to say, in seconds.
const REPORT: u64 = 300;
/// Seconds after which no hint counts any more.
const FORGOTTEN: u64 = 2_000;
/// Rounds of reports, nudges and sweeps after which all that is due must be done: a ratio rises in small steps, each
/// after the one before has stood for a while.
const ROUNDS: usize = 200;
/// Seconds between two rounds, and rounds without anything due after which nothing will be.
const ROUND: u64 = 5;
const STILL: usize = 6;

pub(super) type StepResult = Result<(), String>;

pub(super) struct ModelWorld {
    /// Time stands still in it, but for [`Self::wait`].
    runtime: Runtime,
    now: u64,
    /// Copies of the Node of this life, the stored one last.
    revisions: Vec<Value>,
    version: u64,
    lives: u64,
    /// Capacity and raw as the kubelet finds them, in milli-cores and bytes.
    pub(super) capacity: PerResource<u64>,
    pub(super) raw: PerResource<u64>,
    has_device: bool,
    has_floor: bool,
    /// The kubelet reported its capacity alone: its old copy had its raw CPU already, and the Node had not. Or the
    /// Node had it as our value, no replica observed that, and the marker was deleted before the kubelet's next
    /// write.
    is_raw_unsaid: bool,
    pub(super) seq: u64,
    policies: [usize; 2],
    replicas: [ModelReplica; 2],
    route: usize,
    /// Sent writes of each replica that have not arrived.
    sent: [Option<Nudge>; 2],
    pods: ModelPods,
    pub(super) oracle: Oracle,
    /// The truths when the last write was done: a write that tells another is no matter of pods.
    told_before: PerResource<Vec<u64>>,
}

fn pick<T: Copy>(all: &[T], index: usize) -> T {
    all[index % all.len()]
}

impl ModelWorld {
    /// Raw node, two replicas that have observed it, no floor, no policy, no hint.
    pub(super) fn new() -> Self {
        let runtime = runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let handle = runtime.handle().clone();
        let _entered = handle.enter();
        let replicas = [ModelReplica::blind(), ModelReplica::blind()];
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
            is_raw_unsaid: false,
            seq: 0,
            policies: [0, 0],
            route: 0,
            sent: [None, None],
            pods: ModelPods::default(),
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

    pub(super) fn apply(&mut self, step: ModelStep) -> StepResult {
        let handle = self.runtime.handle().clone();
        let _entered = handle.enter();
        match step {
            ModelStep::Wait(seconds) => self.wait(seconds.into()),
            ModelStep::Sync { lag } => return self.sync(lag, false),
            ModelStep::Report { lag } => return self.sync(lag, true),
            ModelStep::Restart => return self.sync(0, true),
            ModelStep::Machine(machine) => self.resize(machine),
            ModelStep::RawBecomesStored => self.grow(),
            ModelStep::Others(what) => return self.write_of_others(what),
            ModelStep::Annotate(annotation) => return self.annotate(annotation),
            ModelStep::Forge(what) => return self.forge(what),
            ModelStep::Pods(change) => self.change(change),
            ModelStep::Policy { policy, replica } => self.configure(policy, replica),
            ModelStep::Hint {
                cents,
                replica,
                is_of_old_life,
                exclusive,
            } => self.report(Says::the_truth(cents, exclusive), replica, is_of_old_life),
            ModelStep::Lies { cents, replica } => self.lie(pick(&HINTED, cents), replica),
            ModelStep::Leave(replica) => self.replicas[replica].leave(NAME),
            ModelStep::Nudge(replica) => return self.nudge(replica).map(drop),
            ModelStep::Send(replica) => self.sent[replica] = self.due_nudge(replica),
            ModelStep::Arrive(replica) => {
                return self.sent[replica]
                    .take()
                    .map_or(Ok(()), |nudge| self.arrive(&nudge));
            }
            ModelStep::Sweep(replica) => return self.sweep(replica).map(drop),
            ModelStep::Hear(replica) => self.replicas[replica].observe(self.stored()),
            ModelStep::StartAnew(replica) => self.start(replica),
            ModelStep::StartBlind(replica) => self.replicas[replica] = ModelReplica::blind(),
            ModelStep::Outage { replica, is_over } => self.replicas[replica].is_up = is_over,
            ModelStep::Route(replica) => self.route = replica,
            ModelStep::Floor(is_there) => self.has_floor = is_there,
            ModelStep::Recreate { is_copy } => return self.recreate(is_copy),
        }
        Ok(())
    }

    pub(super) fn stored(&self) -> &Value {
        self.revisions.last().expect("a Node")
    }

    fn observed(&self, lag: usize) -> &Value {
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
    /// back of it has to stay the same. It is the marker that knows it, and a ratio that makes it.
    fn grow(&mut self) {
        let stored = allocatable(self.stored(), Resource::Cpu);
        let is_ours = raw_of_marker(self.stored(), Resource::Cpu) == Some(self.raw.cpu)
            && written_by_marker(self.stored(), Resource::Cpu) == Some(stored)
            && self.oracle.makes(Resource::Cpu, stored, self.raw.cpu);
        let is_known = is_ours
            && self.oracle.truths(Resource::Cpu).iter().eq([&self.raw.cpu])
            && self.stored()["status"]["capacity"]["cpu"] == text(Resource::Cpu, self.capacity.cpu).as_str();
        if is_known && stored > self.raw.cpu {
            self.capacity.cpu += stored - self.raw.cpu;
            self.raw.cpu = stored;
        }
    }

    /// True if the kubelet's value cannot be distinguished from ours once a user sets `edit`. The node stays lower
    /// than it could, or its raw value stays unchanged for one sync:
    ///
    /// - The kubelet's value equals our written one. Capacity shows that, unless a user changes allocatable before the kubelet's write.
    /// - A ratio makes of `edit` the very value that the kubelet finds.
    /// - No replica observed the kubelet, and `edit` is our earlier value.
    fn is_mistakable(&self, edit: u64) -> bool {
        let (raw, stored) = (self.raw.cpu, allocatable(self.stored(), Resource::Cpu));
        let written = written_by_marker(self.stored(), Resource::Cpu);
        let is_news = raw_of_marker(self.stored(), Resource::Cpu) != Some(raw);
        let is_written = is_news && written == Some(raw);
        let is_put_back = is_news && stored == raw && written == Some(edit);
        is_written || is_put_back || (edit != raw && self.oracle.makes(Resource::Cpu, raw, edit))
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
        self.replicas[replica] = ModelReplica::blind();
        let pods = self.pods.objects(self.version);
        self.replicas[replica].observe_all(&policy_of(self.policies[replica]), self.stored(), pods);
        self.oracle
            .allowed(self.replicas[replica].policy().expect("a policy"));
    }

    fn change(&mut self, change: PodChange) {
        self.version += 1;
        let stored = PerResource::from_fn(|resource| allocatable(self.stored(), resource));
        let changed = self.pods.change(change, &stored, self.version);
        if let Some((pod, is_gone)) = changed {
            for replica in &self.replicas {
                replica.observe_pod(&pod, is_gone);
            }
        }
    }
}

fn policy_of(policy: usize) -> Value {
    serde_json::from_str(pick(&POLICIES, policy)).expect("a policy")
}
