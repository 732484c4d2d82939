//! The sampling thread: reads all signals four times a second and hands them on; nothing else runs on it.

mod pods;

use std::{path::PathBuf, sync::Arc, time::Duration};

use headroom_domain::estimate::Timing;
use headroom_kit::log::chain;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

pub use self::pods::PodFrame;
use crate::{
    metrics::SAMPLE_ERRORS,
    probe::{LogDrain, Probe, Runs},
    sample::{
        Poll, SampleError, Sampler,
        cgroup::Kubepods,
        clock::Clocks,
        memory::{Meminfo, MemoryCounters},
        procfs::Procfs,
        psi::{Psi, Subject},
    },
};

/// Time between two polls: the kernel's rings hold twice as much.
pub const POLL: Duration = Duration::from_millis(250);

/// What one turn of the thread yields. A signal that could not be read is `None`; so is one that is not due.
#[derive(Clone, Debug)]
pub struct Sample {
    /// When the turn began.
    pub at: Clocks,
    /// CPU counters.
    pub poll: Option<Poll>,
    /// CPU pressure of the machine.
    pub cpu_pressure: Option<Psi>,
    /// Counters that memory brakes are made of.
    pub memory_pressure: Option<MemoryCounters>,
    /// Memory in use; every [`Timing::memory_sample`].
    pub memory: Option<MemoryUse>,
    /// What the pods used, once a frame, after its end.
    pub pods: Option<PodFrame>,
    /// What the kernel counted of our programs, if it was asked to.
    pub runs: Option<Arc<[Runs]>>,
}

/// Memory in use at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// The machine's.
    pub node: Meminfo,
    /// Wk: the working set of all pods, in bytes; 0 without kubepods.
    pub working_set: u64,
}

/// Everything the thread reads from.
#[derive(Debug)]
pub struct Gatherer {
    /// CPU counters.
    pub sampler: Sampler,
    /// The kernel programs behind them: they count as long as this lives.
    pub probe: Option<Probe>,
    /// Does the kernel count runs?
    pub has_program_stats: bool,
    /// Files of the machine.
    pub files: Procfs,
    /// Where the cgroup hierarchies are mounted.
    pub cgroup_root: PathBuf,
    /// Intervals.
    pub timing: Timing,
}

/// The state of the loop.
#[derive(Debug)]
struct Loop {
    gatherer: Gatherer,
    log: Option<LogDrain>,
    pods: pods::Reader,
    kubepods: Option<Kubepods>,
    memory_due_ns: u64,
    complaints: Complaints,
}

/// Signals that fail at the moment: told when they begin to, not at every poll.
#[derive(Debug, Default)]
struct Complaints {
    cpu: bool,
    memory: bool,
    pods: bool,
}

impl Gatherer {
    /// Reads and hands on until `stop` is cancelled. Blocks; a receiver that is busy loses samples, the thread never
    /// waits for it.
    pub fn run(mut self, samples: &mpsc::Sender<Sample>, stop: &CancellationToken) {
        let log = self.probe.as_mut().and_then(Probe::take_log);
        let pods = pods::Reader::new(&self.timing);
        let complaints = Complaints::default();
        let mut turns = Loop {
            gatherer: self,
            log,
            pods,
            kubepods: None,
            memory_due_ns: 0,
            complaints,
        };
        while !stop.is_cancelled() {
            std::thread::sleep(until_next(Clocks::read().boottime_ns));
            let sample = turns.turn(Clocks::read());
            if let Err(mpsc::error::TrySendError::Full(_)) = samples.try_send(sample) {
                debug!("a sample was lost: nobody took the ones before it");
            }
        }
    }
}

impl Loop {
    fn turn(&mut self, at: Clocks) -> Sample {
        if let Some(log) = &mut self.log {
            log.flush();
        }
        let Self {
            gatherer, complaints, ..
        } = self;
        let poll = note(gatherer.sampler.poll(at), "cpu", &mut complaints.cpu);
        let is_frame_end = self.pods.ends_frame(at.boottime_ns);
        if is_frame_end || self.kubepods.is_none() {
            self.kubepods = Kubepods::find(&self.gatherer.cgroup_root);
        }
        let memory_pressure = self.memory_pressure();
        let memory = self.memory(at);
        let pods = self.pods.turn(at, self.kubepods.as_ref());
        let pods = note(pods, "pods", &mut self.complaints.pods).flatten();
        let runs = self.runs();
        let cpu_pressure = self.gatherer.files.psi(Subject::Cpu).ok().flatten();
        Sample {
            at,
            poll,
            cpu_pressure,
            memory_pressure,
            memory,
            pods,
            runs,
        }
    }

    fn memory_pressure(&mut self) -> Option<MemoryCounters> {
        let read = || {
            let counters = MemoryCounters::read(&self.gatherer.files)?;
            let Some(kubepods) = &self.kubepods else {
                return Ok(counters);
            };
            Ok(MemoryCounters {
                kubepods: kubepods.pressure()?,
                limit: kubepods.limit_events()?,
                ..counters
            })
        };
        note(read(), "memory", &mut self.complaints.memory)
    }

    fn memory(&mut self, at: Clocks) -> Option<MemoryUse> {
        if at.monotonic_ns < self.memory_due_ns {
            return None;
        }
        // A turn may come a little early; half a poll makes sure that it is not taken for the one before.
        let every = self.gatherer.timing.memory_sample.saturating_sub(POLL / 2);
        self.memory_due_ns = at.monotonic_ns.saturating_add(nanoseconds(every));
        let read = || {
            let node = self.gatherer.files.meminfo()?;
            let working_set = self
                .kubepods
                .as_ref()
                .map(Kubepods::working_set)
                .transpose()?
                .flatten();
            Ok(MemoryUse {
                node,
                working_set: working_set.unwrap_or(0),
            })
        };
        note(read(), "memory", &mut self.complaints.memory)
    }

    fn runs(&self) -> Option<Arc<[Runs]>> {
        let Gatherer {
            probe,
            has_program_stats: true,
            ..
        } = &self.gatherer
        else {
            return None;
        };
        probe.as_ref()?.runs().ok().map(Arc::from)
    }
}

/// Time to the next poll. Polls lie on multiples of [`POLL`] since boot, and so do the ends of frames.
fn until_next(boottime_ns: u64) -> Duration {
    let poll = nanoseconds(POLL);
    Duration::from_nanos(poll - boottime_ns % poll)
}

/// Whole nanoseconds; the largest number if there are more.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Counts a failure, and logs it when it is the first in a row.
fn note<T>(result: Result<T, SampleError>, signal: &'static str, is_failing: &mut bool) -> Option<T> {
    match result {
        Ok(value) => {
            *is_failing = false;
            Some(value)
        }
        Err(error) => {
            SAMPLE_ERRORS.with([signal]).increment(1);
            if !*is_failing {
                warn!(signal, error = %chain(&error), "a signal cannot be read; sampling goes on");
            }
            *is_failing = true;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_lie_on_quarters_of_a_second_since_boot() {
        assert_eq!(until_next(1_000_000_000), POLL);
        assert_eq!(until_next(1_249_999_999), Duration::from_nanos(1));
        assert_eq!(until_next(1_010_000_000), Duration::from_millis(240));
    }
}
