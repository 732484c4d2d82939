//! The sampling thread: `Gatherer::run` takes four samples a second, each with the due readings that succeeded. A
//! sample also contains the results of the second thread (`accounts`): pods' use, memory in use, and pinned pods.
//! Nothing else runs on the sampling thread.

mod accounts;
mod empty_pods;
mod gathered_signal;
mod interval;
mod memory_counters;
mod pace;
mod pinned_pods;
mod pods;
mod read_errors;
mod shared_cpus;

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use headroom_domain::estimate::Timing;
use tokio::sync::{mpsc, watch::Receiver};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use self::{
    accounts::{Accounts, Answer, Gone, Question},
    interval::Every,
    memory_counters::MemoryReader,
    pace::Pace,
    read_errors::ReadErrors,
    shared_cpus::SharedCpus,
};
pub use self::{
    gathered_signal::GatheredSignal,
    pinned_pods::{PinnedUse, Used},
    pods::PodFrame,
};
use crate::{
    kernel::{
        hooks::EventCounters,
        probe::{Probe, Runs},
        supervisor::{Limits, ProbeState, ProbeSupervisor, WakeUps, Watch},
    },
    sample::{
        Poll, Sampler,
        cgroup::{Kubepods, KubepodsPlace},
        clock::{Clocks, nanoseconds},
        cpus::CpuSet,
        memory::{Meminfo, MemoryCounters},
        plain::{PlainReader, PlainReadings},
        procfs::Procfs,
        psi::{Psi, Subject},
    },
};

/// Time between two samples. The kernel's rings hold eight times as much: [`Pace`] may skip three, and one may be
/// late.
pub const POLL: Duration = Duration::from_millis(250);
/// Time between two readings of signals that are shown as they are.
const PLAIN_EVERY: Duration = Duration::from_secs(1);

/// Readings of one turn of the sampling thread. A signal that was not due or not readable is `None`.
#[derive(Clone, Debug)]
pub struct Sample {
    pub at: Clocks,
    /// CPU counters; once a second, and with every sample while waits matter.
    pub poll: Option<Poll>,
    /// State of the kernel programs; `None` if there were none from the start.
    pub probe_state: Option<ProbeState>,
    /// Rare events since the kernel programs were attached.
    pub event_counters: Option<EventCounters>,
    /// CPU pressure of the machine.
    pub cpu_pressure: Option<Psi>,
    /// Counters for memory brakes; an unreadable counter keeps its last value.
    pub memory_pressure: MemoryCounters,
    /// Memory of the machine, for brakes; every [`Timing::memory_sample`].
    pub meminfo: Option<Meminfo>,
    /// Memory in use, of the machine and of pods, for estimates; as often, when the kernel has added it up.
    pub memory: Option<MemoryUse>,
    /// Use of the pods, once a frame, at its end; `None` if listing cgroups failed, or if the kernel did not sum them
    /// up in time.
    pub pods: Option<PodFrame>,
    /// Pods that may hold CPUs for themselves alone.
    pub pinned_use: Option<Vec<PinnedUse>>,
    /// Run statistics of our programs in the kernel, if they are enabled.
    pub runs: Option<Arc<[Runs]>>,
    /// Signals that are shown as they are; once a second.
    pub plain: Option<Arc<PlainReadings>>,
    /// Signals whose last reading failed.
    pub failing: BTreeSet<GatheredSignal>,
    /// Pods with a cgroup, if none of them has a process; every 15 seconds.
    pub empty_pods: Option<BTreeSet<String>>,
    /// The cgroup of all pods; `None` if there is none.
    pub kubepods: Option<Arc<KubepodsPlace>>,
    /// True once the CPUs that pods share are known: cpusets were read, and so were the pods that hold some.
    pub knows_shared_cpus: bool,
}

/// Memory in use at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    pub node: Meminfo,
    /// Wk: the working set of all pods, in bytes; `None` where kubepods or its files are not there.
    pub working_set: Option<u64>,
}

/// Everything the thread reads from.
#[derive(Debug)]
pub struct Gatherer {
    pub sampler: Sampler,
    /// The kernel programs behind them: they count as long as this lives.
    pub probe: Option<Probe>,
    /// Detects that they have stopped counting.
    pub watch: Watch,
    /// Limits for shedding samples.
    pub limits: Limits,
    /// Does the kernel count runs?
    pub has_program_stats: bool,
    pub files: Procfs,
    /// Mount point of the cgroup hierarchies.
    pub cgroup_root: PathBuf,
    pub timing: Timing,
}

/// The state of the loop.
#[derive(Debug)]
struct Loop {
    gatherer: Gatherer,
    pace: Pace,
    supervisor: Option<ProbeSupervisor>,
    /// Why the kernel programs were given up.
    lost: Option<Arc<str>>,
    event_counters: Option<EventCounters>,
    accounts: Accounts,
    /// Frame of the previous sample.
    frame: u64,
    frame_ns: u64,
    shared_cpus: SharedCpus,
    /// CPUs that single pods hold, from the deciding task, which knows the pods' requests.
    exclusive: Receiver<CpuSet>,
    kubepods: Option<Kubepods>,
    /// Its location.
    place: Option<Arc<KubepodsPlace>>,
    memory_counters: MemoryReader,
    memory: Every,
    plain: PlainReader,
    plain_due: Every,
    has_sched_ext: bool,
    read_errors: ReadErrors,
}

impl Gatherer {
    /// Reads and sends samples until `stop` is cancelled, or until the second thread has ended. Blocks; a busy
    /// receiver loses samples, and the thread never waits for it. CPUs that single pods hold exclusively do not count
    /// for brakes.
    pub fn run(
        mut self,
        samples: &mpsc::Sender<Sample>,
        exclusive: Receiver<CpuSet>,
        stop: &CancellationToken,
    ) {
        let watch = std::mem::take(&mut self.watch);
        let supervisor = self.probe.take().map(|probe| {
            ProbeSupervisor::new(probe, watch, self.limits, WakeUps::new(self.limits.rest_after))
        });
        let timing = self.timing;
        let accounts = match Accounts::start(self.files.clone(), &timing) {
            Ok(accounts) => accounts,
            Err(error) => {
                error!(%error, "could not start the thread that reads pods' use");
                return;
            }
        };
        let files = self.files.clone();
        let mut turns = Loop {
            gatherer: self,
            pace: Pace::new(timing.second),
            supervisor,
            lost: None,
            event_counters: None,
            accounts,
            frame: 0,
            frame_ns: nanoseconds(timing.frame()).max(1),
            shared_cpus: SharedCpus::new(timing.memory_sample),
            exclusive,
            kubepods: None,
            place: None,
            memory_counters: MemoryReader::default(),
            memory: Every::new(timing.memory_sample),
            plain: PlainReader::new(files),
            plain_due: Every::new(PLAIN_EVERY),
            has_sched_ext: false,
            read_errors: ReadErrors::default(),
        };
        turns.find_kubepods();
        // Before the first poll, which counts over them.
        turns.keep(Clocks::read());
        let mut owed = None;
        while !stop.is_cancelled() {
            std::thread::sleep(until_next(Clocks::read().boottime_ns));
            let Ok(mut sample) = turns.turn(Clocks::read()) else {
                error!("the thread that reads pods' use has ended");
                return;
            };
            sample.pods = sample.pods.or(owed.take());
            if let Err(mpsc::error::TrySendError::Full(lost)) = samples.try_send(sample) {
                debug!("dropped a sample: the receiver is busy");
                // A loss of pods is reported with the next frame.
                owed = lost.pods;
            }
        }
    }
}

impl Loop {
    fn turn(&mut self, at: Clocks) -> Result<Sample, Gone> {
        // First: its counts end at `at`, which was read just before.
        let poll = self.pace.is_due(at).then(|| self.poll(at)).flatten();
        let probe_state = self.probe_state();
        // Before the counters of memory: see `KillCounts::victims`.
        let event_counters = self.event_counters();
        let frame = at.boottime_ns / self.frame_ns;
        let before = std::mem::replace(&mut self.frame, frame);
        // It moves only when the kubelet is configured again: once a frame is enough.
        if frame != before || self.kubepods.is_none() {
            self.find_kubepods();
        }
        let memory_pressure = self.memory_pressure(at, event_counters.unwrap_or_default());
        let meminfo = self.meminfo(at);
        if meminfo.is_some() {
            self.watch_scheduler();
        }
        let question = Question {
            kubepods: self.kubepods.clone(),
            cgroup_changes: event_counters.map(|event_counters| event_counters.changes.cgroups()),
        };
        let answer = self.accounts.turn(at, question)?;
        let Answer {
            pods,
            memory,
            pinned_use,
            empty_pods,
            ..
        } = answer.unwrap_or_default();
        // A reading that arrives after the end of its frame is dropped.
        let pods = pods.and_then(|(frame, pods)| (frame == before).then_some(pods));
        self.keep(at);
        let runs = self.runs();
        let plain = self.plain(at);
        let cpu_pressure = self.cpu_pressure();
        let failing = self.read_errors.failing().iter().copied();
        Ok(Sample {
            at,
            poll,
            probe_state,
            event_counters,
            cpu_pressure,
            memory_pressure,
            meminfo,
            memory,
            pods,
            pinned_use,
            runs,
            plain,
            failing: failing.chain(self.accounts.failing()).collect(),
            empty_pods,
            kubepods: self.place.clone(),
            knows_shared_cpus: self.shared_cpus.is_known() && self.accounts.has_answered(),
        })
    }

    fn find_kubepods(&mut self) {
        self.kubepods = Kubepods::find(&self.gatherer.cgroup_root);
        self.place = self.kubepods.as_ref().map(|kubepods| Arc::new(kubepods.place()));
    }

    fn poll(&mut self, at: Clocks) -> Option<Poll> {
        let sampler = &mut self.gatherer.sampler;
        let poll = self.read_errors.note(sampler.poll(at), GatheredSignal::Cpu);
        let stat_read = sampler.take_stat_read();
        let is_read = poll.as_ref().is_some_and(Poll::covers_time) && !matches!(stat_read, Some(Err(_)));
        if let Some(read) = stat_read {
            self.read_errors.note(read, GatheredSignal::Stat);
        }
        self.supervise(poll.as_ref());
        let do_waits_matter = self.supervisor.as_ref().is_some_and(ProbeSupervisor::needs_waits);
        self.pace.record(at, is_read, do_waits_matter);
        poll
    }

    /// Leaves CPUs out of the next poll that are kept from pods.
    fn keep(&mut self, at: Clocks) {
        let files = &self.gatherer.files;
        if let Some(read) = self.shared_cpus.turn(at, files, self.kubepods.as_ref()) {
            self.read_errors.note(read, GatheredSignal::Cpusets);
        }
        let kept = self.shared_cpus.kept(self.exclusive.borrow().clone());
        self.gatherer.sampler.keep(kept);
    }

    fn cpu_pressure(&mut self) -> Option<Psi> {
        let pressure = self.gatherer.files.psi(Subject::Cpu);
        let pressure = self.read_errors.note(pressure, GatheredSignal::CpuPressure);
        pressure.flatten()
    }

    /// Passes a poll, or `None` for a failed one, to the supervisor of the kernel programs.
    fn supervise(&mut self, poll: Option<&Poll>) {
        if let Some(supervisor) = &mut self.supervisor
            && let Some(reason) = supervisor.observe(poll, &mut self.gatherer.sampler)
        {
            self.supervisor = None;
            self.lost = Some(reason);
        }
    }

    /// State of the kernel programs since the last poll.
    fn probe_state(&self) -> Option<ProbeState> {
        let lost = self
            .lost
            .as_ref()
            .map(|reason| ProbeState::Lost(Arc::clone(reason)));
        lost.or_else(|| self.supervisor.as_ref().map(ProbeSupervisor::probe_state))
    }

    /// Rare events so far. A counter that is unreadable, or no longer maintained, keeps its last value.
    fn event_counters(&mut self) -> Option<EventCounters> {
        if let Some(read) = self.supervisor.as_mut().map(ProbeSupervisor::event_counters) {
            self.event_counters = self
                .read_errors
                .note(read, GatheredSignal::Events)
                .flatten()
                .or(self.event_counters);
        }
        self.event_counters
    }

    fn memory_pressure(&mut self, at: Clocks, event_counters: EventCounters) -> MemoryCounters {
        let (files, kubepods) = (&self.gatherer.files, self.kubepods.as_ref());
        self.memory_counters
            .read(at, files, kubepods, event_counters, &mut self.read_errors)
    }

    /// Memory of the machine, if it is due. The second thread reads the same file and reports its errors.
    fn meminfo(&mut self, at: Clocks) -> Option<Meminfo> {
        let is_due = self.memory.is_due(at.monotonic_ns);
        is_due.then(|| self.gatherer.files.meminfo().ok()).flatten()
    }

    /// Notifies the source of counters, and the log once, that a sched_ext scheduler does not account run time. An
    /// unreadable state counts as none.
    fn watch_scheduler(&mut self) {
        let has_sched_ext = self.gatherer.files.has_sched_ext().unwrap_or(true);
        if std::mem::replace(&mut self.has_sched_ext, has_sched_ext) == has_sched_ext {
            return;
        }
        self.gatherer.sampler.trust_books(!has_sched_ext);
        if has_sched_ext {
            warn!("a sched_ext scheduler runs tasks: missing context switches are not corrected");
        }
    }

    fn plain(&mut self, at: Clocks) -> Option<Arc<PlainReadings>> {
        if !self.plain_due.is_due(at.monotonic_ns) {
            return None;
        }
        let (readings, result) = self.plain.read(at);
        self.read_errors.note(result, GatheredSignal::Plain);
        Some(Arc::new(readings))
    }

    fn runs(&self) -> Option<Arc<[Runs]>> {
        let supervisor = self
            .supervisor
            .as_ref()
            .filter(|_| self.gatherer.has_program_stats)?;
        supervisor.runs().map(Arc::from)
    }
}

/// Time to the next poll. Polls lie on multiples of [`POLL`] since boot, and so do the ends of frames.
fn until_next(boottime_ns: u64) -> Duration {
    let poll = nanoseconds(POLL);
    Duration::from_nanos(poll - boottime_ns % poll)
}

#[cfg(test)]
mod tests;
