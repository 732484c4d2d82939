//! Copies the rings of all CPUs so that none holds half of an update.

use std::sync::atomic::{Ordering, fence};

use headroom_agent_ebpf::{CpuRing, ring::guard};

use super::Rings;
use crate::sample::SampleError;

/// Attempts at copies without a half-done update. Copying one ring is short compared with the time between two
/// updates, so one retry is rare; more mean that a virtual CPU was stopped in the middle of an update. Without
/// ordered memory, no update may begin while the rings of all CPUs are copied twice, so more CPUs need more attempts.
pub(super) const ATTEMPTS: usize = if KEEPS_ORDER { 8 } else { 32 };

/// True if this machine keeps the order of loads and of stores. The kernel copies a ring word by word from start to
/// end, so one copy then contains both words of the guard in the required order.
pub(super) const KEEPS_ORDER: bool = cfg!(target_arch = "x86_64");

/// A ring, and whether it holds no half-done update.
#[derive(Clone, Copy, Debug)]
struct Copied {
    ring: CpuRing,
    is_whole: bool,
}

/// Copies of all rings without half-done updates, or `None` if some CPU would not stand still. Where the machine does not
/// keep the order of loads, the words of the guard are read before and after the rest, by copies of their own.
///
/// # Errors
/// If the map cannot be read.
pub(super) fn whole(rings: &mut impl Rings, keeps_order: bool) -> Result<Option<Vec<CpuRing>>, SampleError> {
    let mut copy = || {
        if keeps_order {
            in_order(rings)
        } else {
            guarded(rings)
        }
    };
    let mut kept = copy()?;
    for _ in 1..ATTEMPTS {
        if kept.iter().all(|kept| kept.is_whole) {
            break;
        }
        for (kept, again) in kept.iter_mut().zip(copy()?) {
            if !kept.is_whole {
                *kept = again;
            }
        }
    }
    let are_whole = kept.iter().all(|kept| kept.is_whole);
    Ok(are_whole.then(|| kept.into_iter().map(|kept| kept.ring).collect()))
}

/// One copy of each ring, which shows by itself if it is whole.
fn in_order(rings: &mut impl Rings) -> Result<Vec<Copied>, SampleError> {
    let copied = |ring: CpuRing| Copied {
        ring,
        is_whole: ring.is_whole(),
    };
    Ok(rings.rings()?.into_iter().map(copied).collect())
}

/// One copy of each ring between two others that are made for the guard alone. Loads of one copy may come in any order; the
/// fences keep them from those of the next.
fn guarded(rings: &mut impl Rings) -> Result<Vec<Copied>, SampleError> {
    let before = rings.rings()?;
    fence(Ordering::SeqCst);
    let between = rings.rings()?;
    fence(Ordering::SeqCst);
    let after = rings.rings()?;
    let copied = |((before, ring), after): ((CpuRing, CpuRing), CpuRing)| Copied {
        ring,
        is_whole: guard::is_whole(before.closed, after.opened),
    };
    Ok(before.into_iter().zip(between).zip(after).map(copied).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::ring::{Config, Counters};

    /// CPU whose ring is copied in these states, one after the other; the last one repeats.
    struct RecordedCopies {
        states: Vec<CpuRing>,
        copies: usize,
    }

    impl Rings for RecordedCopies {
        fn rings(&mut self) -> Result<Vec<CpuRing>, SampleError> {
            let state = self.states[self.copies.min(self.states.len() - 1)];
            self.copies += 1;
            Ok(vec![state])
        }

        fn waits(&mut self, _generation: u32) -> Result<Vec<Counters>, SampleError> {
            unreachable!("waits are not read")
        }

        fn configure(&mut self, _config: Config) -> Result<(), SampleError> {
            unreachable!("no configuration is written")
        }
    }

    /// Ring after this number of started and completed updates; its count of switches identifies the copy.
    fn ring(opened: u32, closed: u32, nsw: u64) -> CpuRing {
        CpuRing {
            opened,
            closed,
            nsw,
            ..CpuRing::default()
        }
    }

    /// Count of switches in the accepted copy, and the number of copies made.
    fn taken(states: &[CpuRing], keeps_order: bool) -> (Option<u64>, usize) {
        let mut recorded = RecordedCopies {
            states: states.to_vec(),
            copies: 0,
        };
        let taken = whole(&mut recorded, keeps_order).unwrap();
        (taken.map(|rings| rings[0].nsw), recorded.copies)
    }

    #[test]
    fn where_loads_are_reordered_the_guard_is_read_before_and_after() {
        let at_rest = [ring(1, 1, 0), ring(1, 1, 1), ring(1, 1, 2)];
        assert_eq!(taken(&at_rest, false), (Some(1), 3));
        let begun_before = [ring(2, 1, 0), ring(2, 2, 1), ring(2, 2, 2)];
        assert_eq!(taken(&begun_before, false), (Some(2), 6));
        let begun_during = vec![
            ring(1, 1, 0),
            ring(1, 1, 1),
            ring(2, 2, 2),
            ring(2, 2, 3),
            ring(2, 2, 4),
        ];
        assert_eq!(taken(&begun_during, false), (Some(4), 6));
        assert_eq!(taken(&[ring(2, 1, 0)], false), (None, 3 * ATTEMPTS));
    }

    #[test]
    fn where_they_are_not_one_copy_is_enough() {
        assert_eq!(taken(&[ring(1, 1, 0)], true), (Some(0), 1));
        assert_eq!(taken(&[ring(2, 1, 0), ring(2, 2, 1)], true), (Some(1), 2));
        assert_eq!(taken(&[ring(2, 1, 0)], true), (None, ATTEMPTS));
    }
}
