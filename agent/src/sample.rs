//! Readers of the agent's measurements: CPU counters, memory, pressure and pods; `gather` calls most of them. CPU
//! counters come from the kernel programs or from procfs.
//!
//! ```text
//! probe::KernelMaps -> ring::RingSource     ┐
//!                                     ├─ CounterSource -> Sampler::poll -> Poll -> gather::Sample -> decide::Decider
//! /proc/stat        -> procstat::ProcStatSource ┘
//! /proc, /sys/fs/cgroup -> memory::MemoryCounters, cgroup::Kubepods   (read on demand)
//! ```
//!
//! Nothing here needs an async runtime, and time is always an argument.

pub mod cgroup;
pub mod clock;
pub mod cpus;
pub mod field;
pub mod memory;
pub mod plain;
pub mod procfs;
pub mod procstat;
pub mod psi;
pub mod ring;
pub mod waits;

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use self::{
    clock::{Clocks, nanoseconds},
    cpus::{Cpus, Kept},
    procfs::{CpuTime, Procfs, Stat},
    waits::Waits,
};
use crate::sample::field::FieldError;

/// Why a reading failed. Files that may come and go are not errors where they do.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// A file could not be read.
    #[error("read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A field is not there.
    #[error("{}: no `{field}`", path.display())]
    Missing { path: PathBuf, field: String },
    /// A field has an invalid value.
    #[error("{}: `{field}` is {found:?}", path.display())]
    Malformed {
        path: PathBuf,
        field: String,
        found: String,
    },
    /// Set of CPUs that is impossible for its meaning.
    #[error("{}: `{found}` leaves pods no CPU", path.display())]
    NoCpus { path: PathBuf, found: String },
    /// A map of the kernel programs could not be read or written.
    #[error("map `{map}` of the kernel programs")]
    Map {
        map: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// `/proc/stat` is read once a second.
pub const STAT_EVERY: Duration = Duration::from_secs(1);
/// Share of busy time, in percent, from which a window of the CPUs that pods share counts as having no idle CPU: the
/// rest is the kernel's own time between two tasks.
pub const FULL_WINDOW_PERCENT: u64 = 98;

/// Source of CPU counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The kernel programs: exact, in windows of 8.39 ms, with run-queue waits.
    Ebpf,
    /// `/proc/stat`: in ticks, and nothing else.
    Procfs,
}

/// One moment, as a source needs it.
#[derive(Debug)]
pub struct Tick<'a> {
    /// CLOCK_MONOTONIC in nanoseconds, read before this call.
    pub now_ns: u64,
    /// The CPUs to count over.
    pub cpus: &'a Cpus,
    /// CPU time since `/proc/stat` was read before; `None` if it was not read this time.
    pub stat: Option<&'a Stat>,
}

/// CPU counters of one stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Start of the stretch, in CLOCK_MONOTONIC nanoseconds: the end of the one before.
    pub from_ns: u64,
    /// End of the stretch. Equal to the start if nothing could be counted yet; the next stretch then covers both.
    pub until_ns: u64,
    /// Busy time of the counted CPUs, in nanoseconds.
    pub busy_ns: u64,
    /// Of that, time of the CPUs that pods share.
    pub shared_busy_ns: u64,
    /// Time tasks waited in run queues, in nanoseconds, projected from those sampled.
    pub wait_ns: u64,
    /// The windows that ended in the stretch; none from procfs.
    pub windows: Windows,
    /// Sampled waits that ended in the stretch on the CPUs that pods share, by length.
    pub waits: Waits,
    /// Number of waits that each sampled wait represents; 0 if none is sampled.
    pub wait_factor: u64,
    pub switches: u64,
    /// Of those, switches of the CPUs that pods share.
    pub shared_switches: u64,
    /// Context switches of the CPU that had most of them.
    pub busiest_switches: u64,
    /// Detected context switches that the kernel did not report: 0 except on a few virtual machines. Their time is
    /// corrected from the scheduler's accounting, or left to `/proc/stat`.
    pub missed_switches: u64,
    /// Windows that were overwritten before they could be read.
    pub lost_windows: u64,
}

/// Consecutive windows of 8.39 ms, the counted CPUs together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// Number of the first one: its start in CLOCK_MONOTONIC nanoseconds is this shifted left by 23.
    pub first: u64,
    /// The windows, oldest first, at most as many as a ring has slots.
    pub windows: Vec<Window>,
}

/// One window of 8.39 ms, the counted CPUs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Busy time, in nanoseconds; at most the window's length times the number of CPUs.
    pub busy_ns: u64,
    /// Of that, time of the CPUs that pods share.
    pub shared_busy_ns: u64,
    /// Waits that ended in it, in nanoseconds, projected from those sampled.
    pub wait_ns: u64,
}

/// A source of CPU counters.
pub trait CounterSource: Send {
    /// Kind of the source.
    fn origin(&self) -> Origin;

    /// Does the next [`CounterSource::poll`] need CPU times from `/proc/stat`?
    fn wants_stat(&self) -> bool;

    /// Counts the events since the previous call.
    ///
    /// # Errors
    /// If counters cannot be read. The next call covers the time of this one.
    fn poll(&mut self, tick: &Tick<'_>) -> Result<Counts, SampleError>;

    /// Samples one task in 2^`shift` from the next poll on, where tasks are sampled.
    fn sample_one_in(&mut self, shift: u32);

    /// Sets if the scheduler accounts the run time of tasks, for a source that uses it.
    fn trust_books(&mut self, _are_kept: bool) {}
}

/// CPU time by `/proc/stat` over a stretch of its own: it may be read more rarely than the source is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatSpan {
    /// Length of the stretch, in nanoseconds.
    pub elapsed_ns: u64,
    /// Time of the counted CPUs in it.
    pub time: CpuTime,
    /// Of that, busy time of the CPUs that pods share, in nanoseconds.
    pub shared_busy_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poll {
    /// Time of the poll.
    pub at: Clocks,
    /// Source of the counts.
    pub origin: Origin,
    /// CPUs online at the end of the stretch.
    pub online: u32,
    /// Of those, the counted ones: isolated CPUs are left out.
    pub cpus: u32,
    /// Of those, the ones that pods share.
    pub shared_cpus: u32,
    pub counts: Counts,
    /// CPU time by `/proc/stat`, in polls that read it.
    pub stat: Option<StatSpan>,
}

impl Poll {
    /// Does it count any time? One that found the counters being written does not.
    pub const fn covers_time(&self) -> bool {
        self.counts.until_ns > self.counts.from_ns
    }
}

/// Polls one source and reads `/proc/stat` as a second source.
pub struct Sampler {
    source: Box<dyn CounterSource>,
    files: Procfs,
    kept: Kept,
    /// Interval of readings of `/proc/stat`. A reading stays due if it failed, or if the poll failed.
    stat_every_ns: u64,
    /// Of the last poll that read it.
    stat: Stat,
    stat_at_ns: u64,
    /// Result of reading it in the last poll; `None` if the last poll did not read it.
    stat_read: Option<Result<(), SampleError>>,
}

impl std::fmt::Debug for Sampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampler")
            .field("origin", &self.source.origin())
            .finish_non_exhaustive()
    }
}

impl SampleError {
    pub(crate) fn field(path: &Path, fault: FieldError) -> Self {
        let (path, FieldError { field, found }) = (path.to_owned(), fault);
        if found.is_empty() {
            Self::Missing { path, field }
        } else {
            Self::Malformed { path, field, found }
        }
    }
}

impl Sampler {
    /// A sampler over a source, which reads `/proc/stat` when `stat_every` has passed, or an eighth less as polls may come
    /// early, and whenever the source wants it. Reading it costs microseconds on a small machine and can cost milliseconds on
    /// one with hundreds of CPUs.
    ///
    /// # Errors
    /// If `/proc/stat` cannot be read.
    pub fn new(
        source: Box<dyn CounterSource>,
        files: Procfs,
        stat_every: Duration,
        now: Clocks,
    ) -> Result<Self, SampleError> {
        let stat = files.stat()?;
        Ok(Self {
            source,
            files,
            kept: Kept::default(),
            stat_every_ns: nanoseconds(stat_every.saturating_sub(stat_every / 8)),
            stat,
            stat_at_ns: now.monotonic_ns,
            stat_read: None,
        })
    }

    /// Source of the counts.
    pub fn origin(&self) -> Origin {
        self.source.origin()
    }

    /// Continues with `/proc/stat` alone, from its last reading: after the loss of the kernel programs.
    pub fn fall_back(&mut self) {
        self.source = Box::new(procstat::ProcStatSource::new(self.stat_at_ns));
    }

    /// Result for `/proc/stat` in the last poll; `None` if the last poll did not read it, or after an earlier call.
    pub fn take_stat_read(&mut self) -> Option<Result<(), SampleError>> {
        self.stat_read.take()
    }

    /// Samples one task in 2^`shift` from the next poll on, where the source samples tasks.
    pub fn sample_one_in(&mut self, shift: u32) {
        self.source.sample_one_in(shift);
    }

    /// Sets if the scheduler accounts the run time of tasks, from which some sources correct missed switches.
    pub fn trust_books(&mut self, are_kept: bool) {
        self.source.trust_books(are_kept);
    }

    /// Leaves these CPUs out from the next poll on.
    pub fn keep(&mut self, kept: Kept) {
        self.kept = kept;
    }

    /// Counts the events since the previous poll; `now` must have been read just before the call.
    ///
    /// Call it at least once a second. After a gap of more than 2.1 s windows are lost, and the poll contains their
    /// number. A source that does not need `/proc/stat` continues without it; [`Sampler::take_stat_read`] returns the
    /// error.
    ///
    /// # Errors
    /// If counters cannot be read. The next poll covers the time of this one.
    pub fn poll(&mut self, now: Clocks) -> Result<Poll, SampleError> {
        let cpus = self.kept.within(self.files.online()?);
        let is_due = now.monotonic_ns.saturating_sub(self.stat_at_ns) >= self.stat_every_ns;
        let is_wanted = self.source.wants_stat();
        self.stat_read = None;
        let stat = match (is_due || is_wanted).then(|| self.files.stat()) {
            Some(Err(error)) if is_wanted => return Err(error),
            Some(read) => {
                let (stat, result) =
                    read.map_or_else(|error| (None, Err(error)), |stat| (Some(stat), Ok(())));
                self.stat_read = Some(result);
                stat
            }
            None => None,
        };
        let delta = stat.as_ref().map(|stat| stat.since(&self.stat));
        let tick = Tick {
            now_ns: now.monotonic_ns,
            cpus: &cpus,
            stat: delta.as_ref(),
        };
        let counts = self.source.poll(&tick)?;

        let span = delta.map(|delta| StatSpan {
            elapsed_ns: now.monotonic_ns.saturating_sub(self.stat_at_ns),
            time: delta.total(&cpus.counted),
            shared_busy_ns: delta.total(&cpus.shared).busy_ns,
        });
        // Only now: after a failure, the next poll covers the time of this one in both sources.
        if let Some(stat) = stat {
            (self.stat, self.stat_at_ns) = (stat, now.monotonic_ns);
        }
        Ok(Poll {
            at: now,
            origin: self.source.origin(),
            online: cpus.online.count(),
            cpus: cpus.counted.count(),
            shared_cpus: cpus.shared.count(),
            counts,
            stat: span,
        })
    }
}

impl Windows {
    /// The windows with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Window)> + '_ {
        (self.first..).zip(self.windows.iter().copied())
    }
}

/// The text of a file.
fn read_text(path: &Path) -> Result<String, SampleError> {
    fs::read_to_string(path).map_err(|source| SampleError::Read {
        path: path.to_owned(),
        source,
    })
}

/// The text of a file that may not be there, may be going away, or may not be supported by this kernel.
fn read_if_present(path: &Path) -> Result<Option<String>, SampleError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if cgroup::is_gone(&error) || error.kind() == io::ErrorKind::Unsupported => Ok(None),
        Err(source) => Err(SampleError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests;
