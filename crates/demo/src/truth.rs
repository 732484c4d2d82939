//! Ground truth for CPU use: frequent samples of the CPU time of the root cgroup, for the mean over any recent interval of the
//! monotonic clock.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context as _, Result};
use headroom_testbed::workload::cpu_use::CpuUse;
use rustix::time::{ClockId, clock_gettime};

const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);
/// Number of stored samples: half a minute.
const KEPT: usize = 1500;
/// Longest time between two samples that is interpolated. On a busy machine the sampler may wait longer for a CPU.
const GAP_NS: u64 = 60_000_000;

/// Time, and CPU time of all tasks until then, in nanoseconds.
type Sample = (u64, u64);

/// The sampler thread; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Truth {
    samples: Arc<Mutex<VecDeque<Sample>>>,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(now.tv_nsec).unwrap_or_default())
}

impl Truth {
    pub(super) fn start() -> Result<Self> {
        let used = CpuUse::open("").context("open the ground truth for CPU use")?;
        let samples = Arc::new(Mutex::new(VecDeque::with_capacity(KEPT)));
        let is_ending = Arc::new(AtomicBool::new(false));
        let (shared, ending) = (Arc::clone(&samples), Arc::clone(&is_ending));
        let thread = thread::Builder::new().name("truth".to_owned()).spawn(move || {
            while !ending.load(Ordering::Relaxed) {
                if let Some(used) = used.nanoseconds() {
                    let sample = (monotonic_ns(), used);
                    let mut samples = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    samples.push_back(sample);
                    while samples.len() > KEPT {
                        samples.pop_front();
                    }
                }
                thread::sleep(SAMPLE_INTERVAL);
            }
        })?;
        Ok(Self {
            samples,
            is_ending,
            thread: Some(thread),
        })
    }

    /// Mean CPU use from `from_ns` to `until_ns` of the monotonic clock, in milli-cores; `None` if samples are missing.
    pub(super) fn mean_milli(&self, from_ns: u64, until_ns: u64) -> Option<u64> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let used = at(&samples, until_ns)?.checked_sub(at(&samples, from_ns)?)?;
        let span = u128::from(until_ns.checked_sub(from_ns).filter(|&span| span > 0)?);
        u64::try_from(u128::from(used) * 1000 / span).ok()
    }
}

impl Drop for Truth {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the ground truth sampler panicked");
        }
    }
}

/// CPU time until `moment`, interpolated between the samples around it; `None` if they are further apart than [`GAP_NS`].
fn at(samples: &VecDeque<Sample>, moment: u64) -> Option<u64> {
    let after = samples.iter().position(|&(at, _)| at >= moment)?;
    let &(later, more) = samples.get(after)?;
    let &(earlier, less) = samples.get(after.checked_sub(1)?)?;
    let gap = later.checked_sub(earlier).filter(|&gap| gap <= GAP_NS)?;
    let (part, whole) = (u128::from(moment - earlier), u128::from(gap).max(1));
    Some(less + u64::try_from(u128::from(more.checked_sub(less)?) * part / whole).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_between_samples_is_interpolated() {
        let samples = VecDeque::from([(0, 0), (100, 50), (200, 250)]);
        assert_eq!(
            (at(&samples, 50), at(&samples, 150), at(&samples, 200)),
            (Some(25), Some(150), Some(250))
        );
        assert_eq!((at(&samples, 0), at(&samples, 201)), (None, None));
        let late = VecDeque::from([(0, 0), (GAP_NS + 1, 50)]);
        assert_eq!(at(&late, 50), None);
    }

    #[test]
    fn busy_thread_counts_in_the_root_cgroup() {
        let truth = Truth::start().unwrap();
        // On a busy machine the sampler may be late.
        let milli = (0..20).find_map(|_| {
            let from = monotonic_ns() + 100_000_000;
            let until = from + 500_000_000;
            while monotonic_ns() < until + 200_000_000 {
                std::hint::spin_loop();
            }
            truth.mean_milli(from, until)
        });
        let milli = milli.expect("samples without a gap");
        assert!(milli > 300, "a spinning thread counts as only {milli}m");
    }
}
