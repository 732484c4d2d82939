//! Generates context switches at a given rate, or at the highest possible rate.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Result, anyhow};
use headroom_testbed::ping_pong::{Round, run_while};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Switches per second, all on the last CPU.
    PerSecond(u32),
    /// The highest possible rate on each CPU.
    Unbounded,
}

/// Pairs of switching threads; they end on drop.
#[derive(Debug)]
pub(super) struct SwitchLoad {
    is_over: Arc<AtomicBool>,
    pairs: Vec<JoinHandle<Result<Round>>>,
}

impl Pace {
    /// Due time of the given number of passes, counted from the first; a pass is two switches.
    fn due(self, passes: u64) -> Duration {
        match self {
            Self::PerSecond(rate) => Duration::from_nanos(passes * 2_000_000_000 / u64::from(rate.max(1))),
            Self::Unbounded => Duration::ZERO,
        }
    }
}

impl SwitchLoad {
    /// Starts one pair on each of these CPUs.
    pub(super) fn start(cpus: &[u32], pace: Pace) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let pair = |cpu: &u32| {
            let (cpu, is_over) = (*cpu, Arc::clone(&is_over));
            let goes_on = move |passes, elapsed| {
                thread::sleep(pace.due(passes).saturating_sub(elapsed));
                !is_over.load(Relaxed)
            };
            thread::spawn(move || run_while(cpu, goes_on))
        };
        let pairs = cpus.iter().map(pair).collect();
        Self { is_over, pairs }
    }

    /// # Errors
    /// If a pair could not switch.
    pub(super) fn end(mut self) -> Result<Vec<Round>> {
        self.is_over.store(true, Relaxed);
        let pairs = std::mem::take(&mut self.pairs).into_iter();
        pairs
            .map(|pair| pair.join().map_err(|_panic| anyhow!("a pair panicked"))?)
            .collect()
    }
}

impl Drop for SwitchLoad {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use headroom_testbed::thread::last_cpu;

    use super::*;

    /// Long enough for several batches at the rate below.
    const LENGTH: Duration = Duration::from_millis(200);

    #[test]
    fn a_paced_load_switches_no_faster_than_its_pace() {
        let load = SwitchLoad::start(&[last_cpu().unwrap()], Pace::PerSecond(4_000));
        thread::sleep(LENGTH);
        let rounds = load.end().unwrap();
        let [round] = rounds.as_slice() else {
            panic!("{rounds:?}")
        };
        // A batch starts when the batches before it are due; the last may be done early.
        let allowed = 4_000.0 * round.elapsed.as_secs_f64() + 128.0;
        assert!(
            round.switches > 0 && f64::from(u32::try_from(round.switches).unwrap()) <= allowed,
            "{round:?}"
        );
    }

    #[test]
    fn an_unbounded_load_waits_for_nothing() {
        assert_eq!(Pace::Unbounded.due(1 << 40), Duration::ZERO);
        assert_eq!(Pace::PerSecond(10_000).due(5_000), Duration::from_secs(1));
    }
}
