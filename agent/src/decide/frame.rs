//! `Frames` collects seconds of CPU demand and memory samples into frames, for `EstimatorInputs`. A frame
//! contains the 99th percentile of CPU demand and the largest memory sample. It is valid, only a lower bound, or void.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::Duration,
};

use headroom_domain::{
    estimate::{Frame, Timing, nearest_rank_p99},
    resource::PerResource,
};

use super::cpu_totals::CpuTotals;
use crate::{
    gather::PodFrame,
    sample::{Poll, clock::nanoseconds},
};

/// A jump of suspended time larger than this voids a frame.
const LONGEST_SUSPEND_NS: u64 = 1_000_000_000;
/// Divisor for lost windows: a frame that lost more than one in this many is void, since a fifth of its seconds may
/// be unsampled.
const WINDOWS_TO_A_LOST_ONE: u64 = 5;
/// Without a sample for longer than this, the machine, or the agent, stood still.
pub(super) const LONGEST_POLL_NS: u64 = 2_000_000_000;

/// State of the current frame.
#[derive(Debug)]
pub(super) struct Frames {
    timing: Timing,
    frame_ns: u64,
    /// Polls are summed up until they cover this time; the sum is one CPU sample, called a second.
    least_second_ns: u64,
    /// A poll that covers more than this voids a frame.
    longest_poll_ns: u64,
    second: CpuTotals,
    open: Option<Open>,
    /// Pods of the last reading. They stand in for a frame whose pods could not be read; otherwise all pods would count
    /// as deleted.
    there: BTreeSet<String>,
}

/// A frame that ended, with the mean over it.
#[derive(Debug)]
pub(super) struct EndedFrame {
    pub(super) frame: Frame,
    pub(super) mean: CpuTotals,
}

#[derive(Debug, Default)]
struct Open {
    index: u64,
    demands: Vec<u64>,
    mean: CpuTotals,
    /// Largest sample of charged memory: U in docs/estimator.md.
    memory: u64,
    memory_samples: u32,
    /// `None` if they could not be read.
    pods: Option<PodFrame>,
    /// Suspended time at the frame's start. A jump since then voids the frame.
    suspended_ns: u64,
    /// Number of CPUs at the frame's start. A change voids the frame, since its seconds are not comparable.
    cpus: u32,
    windows: u64,
    lost_windows: u64,
    is_void: bool,
    /// True once time went back: no measurement of the frame counts then.
    has_gone_back: bool,
}

impl Frames {
    /// Frames and seconds of this timing, from polls that come every `poll`.
    pub(super) fn new(timing: Timing, poll: Duration) -> Self {
        Self {
            timing,
            frame_ns: nanoseconds(timing.frame()).max(1),
            // Polls are not exactly one interval apart; half of one keeps a second from swallowing the next poll.
            least_second_ns: nanoseconds(timing.second.saturating_sub(poll / 2)).max(1),
            // Counters are read once a second, so a poll may cover up to a second more than the longest pause.
            longest_poll_ns: LONGEST_POLL_NS + nanoseconds(timing.second.saturating_sub(poll)),
            second: CpuTotals::default(),
            open: None,
            there: BTreeSet::new(),
        }
    }

    /// Records a sample of charged memory: U in docs/estimator.md.
    pub(super) fn record_memory(&mut self, charged: u64) {
        if let Some(open) = &mut self.open {
            open.memory = open.memory.max(charged);
            open.memory_samples = open.memory_samples.saturating_add(1);
        }
    }

    /// Records the pods' use in the frame that is about to end.
    pub(super) fn record_pods(&mut self, pods: PodFrame) {
        if let Some(open) = &mut self.open {
            self.there = pods.used.keys().chain(&pods.unmeasured).cloned().collect();
            open.pods = Some(pods);
        }
    }

    /// Records the idle time of exclusive CPUs since the previous poll.
    pub(super) const fn record_unused(&mut self, unused_ns: u64) {
        self.second.add_unused(unused_ns);
    }

    /// Voids the frame that is under way.
    pub(super) const fn void(&mut self) {
        if let Some(open) = &mut self.open {
            open.is_void = true;
        }
    }

    /// Records a poll; returns the frame that it completes, if any.
    ///
    /// Time since boot never goes back. If a poll reports an earlier time, the current frame is void, and stays open until
    /// the clock passes its end.
    pub(super) fn observe(&mut self, poll: &Poll) -> Option<EndedFrame> {
        let suspended_ns = poll.at.suspended_ns();
        let open = self.open.get_or_insert_with(|| Open {
            index: poll.at.boottime_ns / self.frame_ns,
            suspended_ns,
            cpus: poll.cpus,
            // Its beginning was not observed.
            is_void: true,
            ..Open::default()
        });
        let poll_ns = poll.counts.until_ns.saturating_sub(poll.counts.from_ns);
        open.is_void |= suspended_ns.abs_diff(open.suspended_ns) > LONGEST_SUSPEND_NS
            || poll.cpus != open.cpus
            || poll_ns > self.longest_poll_ns;
        open.lost_windows = open.lost_windows.saturating_add(poll.counts.lost_windows);
        open.windows = open
            .windows
            .saturating_add(poll.counts.lost_windows + poll.counts.windows.windows.len() as u64);
        self.second.add(&CpuTotals::count(poll));
        if self.second.length_ns() >= self.least_second_ns {
            let second = mem::take(&mut self.second);
            open.demands.push(second.demand_milli(poll.cpus));
            open.mean.add(&second);
        }
        let index = poll.at.boottime_ns / self.frame_ns;
        if index <= open.index {
            open.has_gone_back |= index < open.index;
            return None;
        }
        let next = Open {
            index,
            suspended_ns,
            cpus: poll.cpus,
            ..Open::default()
        };
        let ended = mem::replace(open, next);
        Some(ended.close(&self.timing, &self.there))
    }
}

impl Open {
    /// Ends the frame. If its pods could not be read, those of the last reading count as present.
    fn close(self, timing: &Timing, there: &BTreeSet<String>) -> EndedFrame {
        let Self {
            index,
            demands,
            mean,
            memory,
            memory_samples,
            pods,
            suspended_ns: _,
            cpus: _,
            windows,
            lost_windows,
            is_void,
            has_gone_back,
        } = self;
        let is_void =
            is_void || has_gone_back || lost_windows.saturating_mul(WINDOWS_TO_A_LOST_ONE) > windows;
        let (used, unmeasured) = match pods {
            Some(PodFrame { used, unmeasured, .. }) => (used, unmeasured),
            None => (BTreeMap::new(), there.clone()),
        };
        let seconds = u32::try_from(demands.len()).unwrap_or(u32::MAX);
        // Each memory sample stands for the interval it is taken at.
        let sampled = timing.memory_sample.saturating_mul(memory_samples);
        let has_memory = sampled >= timing.second.saturating_mul(timing.valid_seconds);
        let is_valid = !is_void && seconds >= timing.valid_seconds && has_memory;
        let frame = Frame {
            index,
            is_valid,
            is_bound: !is_valid && !has_gone_back,
            peak: PerResource {
                cpu: if is_valid {
                    nearest_rank_p99(&demands)
                } else {
                    least_p99(demands, timing.seconds_per_frame)
                },
                memory,
            },
            pods: used,
            unmeasured,
        };
        EndedFrame { frame, mean }
    }
}

/// Lower bound of the 99th percentile of a frame of `seconds`, from the observed part: the others count as without
/// demand. A stretch longer than a second counts as one second at its mean demand,
/// which is a lower bound.
fn least_p99(mut demands: Vec<u64>, seconds: u32) -> u64 {
    let seconds = usize::try_from(seconds).unwrap_or(usize::MAX);
    demands.resize(seconds.max(demands.len()), 0);
    nearest_rank_p99(&demands)
}

#[cfg(test)]
mod tests;
