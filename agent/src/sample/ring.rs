//! `RingSource` reads CPU counters from the rings of the kernel programs. It finds the busy windows, including windows
//! in which nothing happened.
//!
//! A slot exists only for windows with a transition or a sampled wait. Every slot records the state of its CPU (busy
//! or idle) before and after, so the walk goes backwards from the present state. A window without a slot has the
//! CPU's state before the next slot, or the present state. This holds for a task that runs on during the read, for a
//! CPU that has been busy since before the programs were attached, and for a CPU that has slept for minutes.
//!
//! An offline CPU counts as not busy, whatever its ring contains. Its last task is the idle task; but where the
//! kernel did not report that switch, as on a few virtual machines, the ring would show busy until the CPU is online
//! again.

mod copies;
mod sampling;

use headroom_agent_ebpf::{
    Config, CpuRing, RQH_GENERATIONS, Slot,
    histogram::BUCKETS,
    ring::{BUSY, SLOTS, UNKNOWN, W_SHIFT, WINDOW_NS},
    stamp::TICK_SHIFT,
};

use self::sampling::Sampling;
use super::{CounterSource, Counts, Origin, SampleError, Tick, Window, Windows, cpus::CpuSet, waits::Waits};

/// Counters of one histogram of one CPU.
pub type Counters = [u64; BUCKETS];

/// Sampling the agent starts with: one task in 2^3 = 8.
pub const SAMPLING_SHIFT: u32 = 3;

/// The maps of the kernel programs. A trait, so that the reader is tested without a kernel.
pub trait Rings: Send {
    /// A copy of each possible CPU's ring, by CPU number.
    ///
    /// # Errors
    /// If the map cannot be read.
    fn rings(&mut self) -> Result<Vec<CpuRing>, SampleError>;

    /// A copy of each possible CPU's histogram of this generation.
    ///
    /// # Errors
    /// If the map cannot be read.
    fn waits(&mut self, generation: u32) -> Result<Vec<Counters>, SampleError>;

    /// Sets the sampling configuration of the programs.
    ///
    /// # Errors
    /// If the map cannot be written.
    fn configure(&mut self, config: Config) -> Result<(), SampleError>;
}

#[derive(Debug)]
pub struct RingSource<R> {
    rings: R,
    sampling: Sampling,
    /// First window not reported yet.
    next: u64,
    /// Counters of each possible CPU at the last poll.
    cpus: Vec<Cpu>,
    /// Each generation when it was last read.
    histograms: [Histogram; RQH_GENERATIONS as usize],
    has_unsettled: bool,
}

/// A histogram summed over the CPUs that pods share.
#[derive(Clone, Debug)]
struct Histogram {
    sums: Counters,
    cpus: CpuSet,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// Busy time up to the start of window `next`; `None` while the CPU's state is not known, or the CPU is offline.
    busy_ns: Option<u64>,
    waited: u64,
    switches: u64,
    missed: u32,
}

/// One CPU's ring, read back from the present.
#[derive(Debug, Default)]
struct Past {
    /// Busy nanoseconds and waited ticks of the windows that are over, newest first.
    windows: Vec<(u32, u32)>,
    /// Busy time up to the end of the newest of them; `None` while the CPU's state is not known, or the CPU is offline.
    busy_ns: Option<u64>,
    /// State of the CPU before the oldest entry.
    was_busy: bool,
}

/// The stretch of windows to read back.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    first: u64,
    /// The present window: the first that is not over.
    end: u64,
    /// The newest with a slot on any CPU, or `end`: copies are made a little after the time was taken.
    newest: u64,
}

impl<R: Rings> RingSource<R> {
    /// Starts reading the programs' counters, sampling one task in 2^`sampling_shift` (at most 2^16). They were
    /// attached at `attached_ns` (CLOCK_MONOTONIC).
    ///
    /// # Errors
    /// If the programs cannot be told what to sample.
    pub fn new(mut rings: R, sampling_shift: u32, attached_ns: u64) -> Result<Self, SampleError> {
        let sampling = Sampling::new(sampling_shift, attached_ns);
        rings.configure(sampling.config())?;
        let nothing = Histogram {
            sums: [0; BUCKETS],
            cpus: CpuSet::default(),
        };
        Ok(Self {
            rings,
            sampling,
            // The window of the attachment was not seen whole.
            next: (attached_ns >> W_SHIFT) + 1,
            cpus: Vec::new(),
            histograms: [nothing.clone(), nothing],
            has_unsettled: true,
        })
    }

    /// Number of tasks that each sampled one represents.
    pub const fn sampling_factor(&self) -> u64 {
        self.sampling.factor()
    }

    /// Switches the programs to the other histogram, and returns the increase of the previous one on the CPUs that
    /// pods share. If these CPUs have changed, earlier counts of the added ones cannot be separated, and nothing is
    /// returned.
    fn turn_over(&mut self, tick: &Tick<'_>) -> Result<Waits, SampleError> {
        let left = self.sampling.config().hist_idx;
        let config = self.sampling.turn_over(tick.now_ns);
        // Before the read: from here on no new switch counts in the histogram that is read. One under way on another CPU
        // may still, and is found two polls later.
        self.rings.configure(config)?;

        let shared = &tick.cpus.shared;
        let mut sums = [0_u64; BUCKETS];
        for (_, counters) in (0..)
            .zip(self.rings.waits(left)?)
            .filter(|(cpu, _)| shared.contains(*cpu))
        {
            for (sum, count) in sums.iter_mut().zip(counters) {
                *sum = sum.wrapping_add(count);
            }
        }
        let Some(before) = self.histograms.get_mut(left as usize) else {
            return Ok(Waits::default());
        };
        // Counters are never cleared, so that no count is lost between reading and clearing.
        let mut gained = [0_u64; BUCKETS];
        if before.cpus == *shared || before.cpus.is_empty() {
            for ((gained, now), then) in gained.iter_mut().zip(&sums).zip(&before.sums) {
                *gained = now.saturating_sub(*then);
            }
        }
        *before = Histogram {
            sums,
            cpus: shared.clone(),
        };
        Ok(Waits::new(gained))
    }

    /// Sums up all CPUs and stores their counters. Each sampled task represents `factor` tasks. A CPU that went
    /// offline since the last poll counts up to its last transition.
    fn sum_up(&mut self, rings: &[CpuRing], stretch: Stretch, factor: u64, tick: &Tick<'_>) -> Counts {
        // `first` is never below `next`: see where the stretch is made.
        let lost = stretch.first - self.next;
        let mut counts = Counts {
            from_ns: self.next << W_SHIFT,
            until_ns: stretch.end << W_SHIFT,
            lost_windows: lost,
            windows: Windows {
                first: stretch.first,
                windows: (stretch.first..stretch.end).map(|_| Window::default()).collect(),
            },
            ..Counts::default()
        };
        self.cpus.resize(rings.len(), Cpu::default());
        self.has_unsettled = false;
        for ((number, ring), cpu) in (0_u32..).zip(rings).zip(&mut self.cpus) {
            let (is_online, is_counted) = (
                tick.cpus.online.contains(number),
                tick.cpus.counted.contains(number),
            );
            let is_shared = tick.cpus.shared.contains(number);
            self.has_unsettled |= is_online && ring.state == UNKNOWN;
            let assumed = is_online.then(|| ring.state == UNKNOWN && seems_busy(tick, number));
            let past = Past::read(ring, stretch, assumed);
            let seen: u64 = past.windows.iter().map(|(busy, _)| u64::from(*busy)).sum();
            let busy_ns = match (cpu.busy_ns, past.busy_ns) {
                (Some(before), Some(now)) => now.saturating_sub(before),
                (None, _) | (_, None) => seen + if past.was_busy { lost * WINDOW_NS } else { 0 },
            };
            // One that is offline now was counted up to its last transition.
            if is_counted || !is_online {
                counts.busy_ns += busy_ns;
                counts.wait_ns += (ring.wait.saturating_sub(cpu.waited) * factor) << TICK_SHIFT;
                for (window, (busy, wait)) in counts.windows.windows.iter_mut().rev().zip(past.windows) {
                    let shared = if is_shared { busy } else { 0 };
                    window.busy_ns += u64::from(busy);
                    window.shared_busy_ns += u64::from(shared);
                    window.wait_ns += (u64::from(wait) * factor) << TICK_SHIFT;
                }
            }
            counts.shared_busy_ns += if is_shared { busy_ns } else { 0 };
            let switches = ring.nsw.saturating_sub(cpu.switches);
            counts.switches += switches;
            counts.shared_switches += if is_shared { switches } else { 0 };
            counts.busiest_switches = counts.busiest_switches.max(switches);
            counts.missed_switches += u64::from(ring.missed.wrapping_sub(cpu.missed));
            *cpu = Cpu {
                busy_ns: past.busy_ns,
                waited: ring.wait,
                switches: ring.nsw,
                missed: ring.missed,
            };
        }
        counts
    }
}

impl<R: Rings> CounterSource for RingSource<R> {
    fn origin(&self) -> Origin {
        Origin::Ebpf
    }

    fn wants_stat(&self) -> bool {
        self.has_unsettled
    }

    fn poll(&mut self, tick: &Tick<'_>) -> Result<Counts, SampleError> {
        let end = tick.now_ns >> W_SHIFT;
        let nothing_yet = Counts {
            from_ns: self.next << W_SHIFT,
            until_ns: self.next << W_SHIFT,
            ..Counts::default()
        };
        if end <= self.next {
            return Ok(nothing_yet);
        }
        let Some(rings) = copies::whole(&mut self.rings, copies::KEEPS_ORDER)? else {
            return Ok(nothing_yet);
        };
        // The current readings were sampled under the settings up to now.
        let factor = self.sampling_factor();
        let waits = self.turn_over(tick)?;
        let newest = rings
            .iter()
            .filter_map(|ring| newest_slot(ring, end))
            .fold(end, u64::max);
        // A slot newer than the time of this poll has overwritten the window as many before it as the ring has slots.
        let first = self.next.max((newest + 1).saturating_sub(SLOTS as u64)).min(end);
        let counts = self.sum_up(&rings, Stretch { first, end, newest }, factor, tick);
        self.sampling
            .judge(&counts, tick.cpus.shared.count(), tick.now_ns);
        self.next = end;
        Ok(Counts {
            waits,
            wait_factor: factor,
            ..counts
        })
    }

    fn sample_one_in(&mut self, shift: u32) {
        self.sampling.sample_one_in(shift);
    }

    fn trust_books(&mut self, are_kept: bool) {
        self.sampling.trust_books(are_kept);
    }
}

impl Past {
    /// Walks back from the present state. `assumed` is the state of the CPU if the ring does not contain it; `None`
    /// if it is offline.
    fn read(ring: &CpuRing, stretch: Stretch, assumed: Option<bool>) -> Self {
        let Stretch { first, end, newest } = stretch;
        let last = ring.last >> W_SHIFT;
        let mut is_busy = match (assumed, ring.state) {
            (None, _) => false,
            (Some(assumed), UNKNOWN) => assumed,
            (Some(_), state) => state == BUSY,
        };
        let mut past = Self::default();
        // Busy time that the ring's total counts and that lies in or after the present window.
        let mut beyond = 0;
        for window in (first..=newest).rev() {
            let slot = slot_of(ring, window);
            let silent = if is_busy { 1 << W_SHIFT } else { 0 };
            let busy = slot.map_or(silent, |slot| slot.whole_busy_ns().min(1 << W_SHIFT));
            if window < end {
                past.windows.push((busy, slot.map_or(0, |slot| slot.wait)));
            } else if window < last {
                beyond += u64::from(busy);
            } else if window == last {
                beyond += slot.map_or(0, |slot| u64::from(slot.busy));
            }
            is_busy = slot.map_or(is_busy, Slot::is_busy_before);
        }
        let border = end << W_SHIFT;
        past.was_busy = is_busy;
        past.busy_ns = match (assumed, ring.state) {
            // Back online, an offline CPU's total would count all the time it was away.
            (None, _) | (_, UNKNOWN) => None,
            (_, BUSY) if ring.last < border => Some(ring.busy + (border - ring.last)),
            _ => Some(ring.busy.saturating_sub(beyond)),
        };
        past
    }
}

fn slot_of(ring: &CpuRing, window: u64) -> Option<&Slot> {
    let window = low(window);
    // 2^32 is a multiple of the number of slots, so the lower half leads to the same one.
    let slot = ring.slots.get(window as usize % SLOTS)?;
    (slot.win == window).then_some(slot)
}

/// The half of a window's number that slots keep: enough for 417 days.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the lower half is what is asked for"
)]
const fn low(window: u64) -> u32 {
    window as u32
}

/// The newest window with a slot, if it is newer than `end`.
fn newest_slot(ring: &CpuRing, end: u64) -> Option<u64> {
    let ahead = |slot: &Slot| u64::from(slot.win.wrapping_sub(low(end)));
    ring.slots
        .iter()
        .map(ahead)
        .filter(|ahead| *ahead < SLOTS as u64)
        .max()
        .map(|ahead| end + ahead)
}

/// State of a CPU that has not switched since attach, from `/proc/stat`: it has had one state only, so the larger
/// half is all of it.
fn seems_busy(tick: &Tick<'_>, cpu: u32) -> bool {
    tick.stat
        .and_then(|stat| stat.cpu(cpu))
        .is_some_and(|time| time.busy_ns > time.idle_ns)
}

#[cfg(test)]
mod tests;
