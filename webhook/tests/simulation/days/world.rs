//! Simulated world of the days: API server, machine, kubelet and scheduler, with an agent and two replicas.

use std::{collections::BTreeMap, time::Duration};

use headroom_domain::{
    capacity::{Annotations, NodeState},
    estimate::{PodUse, Timing},
    hint::NodeHint,
    policy::Mode,
    resource::{PerResource, Resource},
};
use tokio::{
    runtime::{self, Runtime},
    time,
};

use super::{
    DayStep, SimulatedDays, Trouble,
    agent::SimulatedAgent,
    node_and_pods::{SimulatedPod, Stored, quantities},
    replica::{Missed, SimulatedReplica},
};

/// Seconds before the end of a frame at which an agent that has nothing new to say reports, for that to be fresh then.
const FRESH: u64 = 45;
/// Seconds in a frame, in a brake period, and between two writes of a kubelet that has nothing to say.
pub(super) const FRAME: u64 = 300;
pub(super) const PERIOD: u64 = 10;
/// The ratio annotation in `guard`: above all bounds, so that the agent says how far it goes.
const GUARDED: &str = r#"{"cpu":4,"memory":4}"#;
/// The most pods on the node.
const MOST_PODS: usize = 16;

pub(super) type CheckResult = Result<(), String>;

pub(super) struct SimulatedWorld {
    runtime: Runtime,
    pub(super) run: SimulatedDays,
    pub(super) now: u64,
    frame: u64,
    pub(super) raw: PerResource<u64>,
    pub(super) capacity: PerResource<u64>,
    pub(super) stored: Stored,
    /// By UID: their order is that of their arrival.
    pub(super) pods: BTreeMap<String, SimulatedPod>,
    arrived: usize,
    agent: SimulatedAgent,
    pub(super) replicas: [SimulatedReplica; 2],
    /// Start of each replica's observation, in seconds.
    pub(super) started: [u64; 2],
    pub(super) streams: [bool; 2],
    pub(super) route: usize,
    /// The last report, and when it came.
    pub(super) reported: Option<(NodeHint, u64)>,
    /// The replicas that received the last report over a stream that has stayed open since.
    pub(super) informed: [bool; 2],
}

impl SimulatedWorld {
    /// Raw node without pods, two replicas that have observed it, and an agent that reports to both.
    pub(super) fn new(run: &SimulatedDays, timing: Timing) -> Self {
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
            state: NodeState {
                allocatable: quantities(raw),
                capacity: quantities(capacity),
                ready_heartbeat: Some("0".to_owned()),
                annotations: Annotations {
                    ratio: (run.mode == Mode::Guard).then(|| GUARDED.to_owned().into()),
                    ..Annotations::default()
                },
            },
            has_memory_pressure: false,
        };
        let replica = || SimulatedReplica::new(run, &stored, Vec::new());
        Self {
            replicas: [replica(), replica()],
            started: [0, 0],
            runtime,
            run: run.clone(),
            now: 0,
            frame: 0,
            raw,
            capacity,
            stored,
            pods: BTreeMap::new(),
            arrived: 0,
            agent: SimulatedAgent::new(capacity, timing),
            streams: [true, true],
            route: 0,
            reported: None,
            informed: [false, false],
        }
    }

    /// Lets a step happen, and what follows from it: reports, nudges, new pods.
    pub(super) fn apply(&mut self, step: DayStep) -> CheckResult {
        let handle = self.runtime.handle().clone();
        let _entered = handle.enter();
        match step {
            DayStep::Frames(frames) => {
                for _ in 0..frames {
                    self.pass_frame()?;
                }
            }
            DayStep::Use { pod, percent, burst } => {
                self.change(pod, |pod| (pod.used, pod.burst) = (percent, burst));
            }
            DayStep::Delete { pod, frames } => {
                let gone_at = self.frame + frames;
                self.change(pod, |pod| pod.gone_at = pod.gone_at.or(Some(gone_at)));
            }
            DayStep::End(pod) => self.end(pod),
            DayStep::Resize { pod, percent } => self.change(pod, |pod| {
                pod.requests = pod.requests.map(|_, request| request * percent / 100);
            }),
            DayStep::Trouble { trouble, periods } => return self.trouble(trouble, periods),
            DayStep::MemoryPressure(is_there) => {
                self.stored.has_memory_pressure = is_there;
                return self.sync();
            }
            DayStep::Stream { replica, is_open } => {
                if self.streams[replica] && !is_open {
                    self.replicas[replica].leave();
                    self.informed[replica] = false;
                }
                self.streams[replica] = is_open;
            }
            DayStep::StartAgain {
                is_known,
                is_other_boot,
            } => {
                let now = self.time();
                // The frame under way is lost.
                self.frame += 1;
                self.agent.start_again(is_known, is_other_boot, self.frame, now);
            }
            DayStep::Freeze(frames) => {
                self.wait(frames * FRAME);
                self.frame += frames;
            }
            DayStep::Route(replica) => self.route = replica,
            DayStep::StartAnew(replica) => self.start_anew(replica),
            DayStep::Deaf {
                replica,
                is_deaf: true,
            } => {
                self.replicas[replica].missed.get_or_insert(Missed::default());
            }
            DayStep::Deaf {
                replica,
                is_deaf: false,
            } => self.replicas[replica].catch_up(),
            DayStep::Sync => return self.sync(),
        }
        self.follow_up()
    }

    /// All replicas observe everything, and no further events happen.
    pub(super) fn settle(&mut self) -> CheckResult {
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

    pub(super) fn wait(&mut self, seconds: u64) {
        self.now += seconds;
        self.runtime.block_on(time::advance(Duration::from_secs(seconds)));
    }

    pub(super) fn bound(&self) -> PerResource<u64> {
        let sum = |resource| self.pods.values().map(|pod| pod.counted(resource)).sum();
        PerResource::from_fn(sum)
    }

    /// Sum of the kubelet's reservations.
    pub(super) fn admitted(&self) -> PerResource<u64> {
        let sum = |resource| self.pods.values().map(|pod| *pod.allocated.get(resource)).sum();
        PerResource::from_fn(sum)
    }

    fn uid(&self, pod: usize) -> Option<String> {
        let at = pod.checked_rem(self.pods.len())?;
        self.pods.keys().nth(at).cloned()
    }

    // Pods.

    /// Changes a pod that is there, and tells of it.
    fn change(&mut self, pod: usize, change: impl FnOnce(&mut SimulatedPod)) {
        if let Some(uid) = self.uid(pod) {
            change(self.pods.get_mut(&uid).expect("it is there"));
            self.notify_pod(&uid, false);
        }
    }

    /// A pod ends by itself.
    fn end(&mut self, pod: usize) {
        if let Some(uid) = self.uid(pod) {
            self.notify_pod(&uid, true);
            self.pods.remove(&uid);
        }
    }

    fn notify_pod(&mut self, uid: &str, is_gone: bool) {
        self.stored.version += 1;
        let object = self.pods[uid].object(uid, self.stored.version);
        for replica in &mut self.replicas {
            replica.observe_pod(object.clone(), is_gone);
        }
    }

    /// The kubelet grants what resizes ask for, as far as it fits into what is published; the rest it puts off.
    pub(super) fn grant(&mut self) {
        let uids: Vec<String> = self.pods.keys().cloned().collect();
        for uid in uids {
            let admitted = self.admitted();
            let published = PerResource::from_fn(|resource| self.stored.allocatable(resource));
            let pod = self.pods.get_mut(&uid).expect("it is there");
            let fits = |resource: Resource| {
                let (wanted, has) = (*pod.requests.get(resource), *pod.allocated.get(resource));
                wanted <= has || admitted.get(resource) - has + wanted <= *published.get(resource)
            };
            if pod.allocated != pod.requests && Resource::ALL.into_iter().all(fits) {
                pod.allocated = pod.requests;
                self.notify_pod(&uid, false);
            }
        }
    }

    /// The scheduler binds what waits, in its order, as long as it fits into what is published.
    pub(super) fn schedule(&mut self) -> CheckResult {
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
            let pod = SimulatedPod {
                requests,
                allocated: requests,
                used: u64::try_from(self.arrived * 37 % 100).expect("a percentage"),
                burst: 0,
                gone_at: None,
            };
            self.arrived += 1;
            self.pods.insert(uid.clone(), pod);
            self.notify_pod(&uid, false);
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

    /// A frame goes by, and the agent is not silent meanwhile.
    fn pass_frame(&mut self) -> CheckResult {
        self.wait(FRAME - FRESH);
        self.talk();
        self.wait(FRESH);
        self.end_frame()
    }

    /// A frame is over: pods have used what they use, one that is due is gone, and the kubelet writes.
    pub(super) fn end_frame(&mut self) -> CheckResult {
        let handle = self.runtime.handle().clone();
        let _entered = handle.enter();
        self.frame += 1;
        let due: Vec<String> = self
            .pods
            .iter()
            .filter(|(_, pod)| pod.gone_at.is_some_and(|gone_at| gone_at < self.frame))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in due {
            self.notify_pod(&uid, true);
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
            let peak =
                |pod: &SimulatedPod| *pod.requests.get(resource) * pod.used / 100 * (100 + pod.burst) / 100;
            self.pods.values().map(peak).sum::<u64>() + self.raw.get(resource) / 50
        };
        let now = self.time();
        self.agent
            .end_frame(self.frame, PerResource::from_fn(peaks), uses, now);
        self.agent.end_period(None, now);
        self.sync()
    }

    fn trouble(&mut self, trouble: Trouble, periods: u64) -> CheckResult {
        for _ in 0..periods {
            self.wait(PERIOD);
            let now = self.time();
            self.agent.end_period(Some(trouble), now);
            self.follow_up()?;
        }
        Ok(())
    }

    /// Exchanges reports and directives between agent and replicas.
    pub(super) fn talk(&mut self) {
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
        self.informed = open;
    }
}
