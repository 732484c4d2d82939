//! Enqueue stamps of sampled tasks: [`Config`] chooses the tasks, [`pack`] makes a stamp, [`Config::waited`] checks it.
//!
//! A stamp is written when a sampled task becomes runnable and consumed when it is switched in. The agent changes the
//! salt at every poll, so a task may be stamped under one salt and switched in under the next: the kernel therefore
//! consumes under the current and the former salt ([`Config::watches`]) and ignores stamps older than the former salt
//! ([`Config::since`]). A wait of more than two polls is a lost sample, never a wrong one.
#![expect(
    clippy::inline_always,
    reason = "part of the switch path in the kernel, where a call costs more than the code"
)]

/// Times are kept in ticks of 2^10 ns = 1.024 us.
pub const TICK_SHIFT: u32 = 10;
/// Bits of a stamp that hold the time; the 22 bits above hold the pid (pids on Linux are below 2^22).
pub const TICK_BITS: u32 = 42;
/// Mask of the time bits. Ticks outgrow them after 52 days, so differences are taken modulo 2^42.
pub const TICK_MASK: u64 = (1 << TICK_BITS) - 1;

/// Sampling configuration that the agent writes for the kernel programs, in one cell, at every poll.
///
/// The kernel may read it half-written. The worst result is a lost sample.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Tasks with `pid & mask == salt` are sampled. All its bits lie within the mask.
    pub salt: u32,
    /// Sampling mask, one less than a power of two: 7 samples one task in eight, 0 all.
    pub mask: u32,
    /// Histogram generation in use; only its lowest bit is used.
    pub hist_idx: u32,
    /// The previous salt, reduced to the mask.
    pub former_salt: u32,
    /// Start of the use of `former_salt`, in [`ticks`].
    pub since: u64,
    /// 1 if the scheduler accounts the run time of each task since it was picked; 0 if that accounting stands still, as under
    /// a scheduler of sched_ext.
    pub trusts_books: u32,
    /// Padding to 8 bytes; always 0.
    pub pad: u32,
}

impl Config {
    /// Returns true if this task is stamped when it becomes runnable.
    #[inline(always)]
    pub const fn samples(&self, pid: u32) -> bool {
        pid & self.mask == self.salt
    }

    /// Returns true if this task may have a stamp, from this salt or the former one.
    #[inline(always)]
    pub const fn watches(&self, pid: u32) -> bool {
        self.samples(pid) || pid & self.mask == self.former_salt
    }

    /// Ticks that `pid` waited until `now` (in [`ticks`]); `None` if `stamp` is of another task or stale.
    #[inline(always)]
    pub const fn waited(&self, stamp: u64, pid: u32, now: u64) -> Option<u64> {
        let wait = elapsed(stamp, now);
        // A stamp from another CPU may lie a little in the future; modulo 2^42 it then looks very old.
        if owner(stamp) == pid && wait <= elapsed(self.since, now) {
            Some(wait)
        } else {
            None
        }
    }
}

/// CLOCK_MONOTONIC nanoseconds as ticks modulo 2^42.
#[inline(always)]
pub const fn ticks(now_ns: u64) -> u64 {
    (now_ns >> TICK_SHIFT) & TICK_MASK
}

/// Packs a stamp; `ticks` must come from [`ticks`]. Zero, "no stamp", is only packed for pid 0, which is never sampled.
#[inline(always)]
pub const fn pack(pid: u32, ticks: u64) -> u64 {
    (pid as u64) << TICK_BITS | ticks
}

/// The pid a stamp belongs to.
#[inline(always)]
pub const fn owner(stamp: u64) -> u32 {
    (stamp >> TICK_BITS) as u32
}

/// Ticks from one tick count (or stamp) to another, modulo 2^42.
#[inline(always)]
pub const fn elapsed(from: u64, to: u64) -> u64 {
    to.wrapping_sub(from) & TICK_MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_PID: u32 = (1 << 22) - 1;

    #[test]
    fn stamp_contains_pid_and_time() {
        for pid in [1, 7, 65_536, MAX_PID] {
            for time in [0, 1, TICK_MASK] {
                let stamp = pack(pid, time);
                assert_eq!(owner(stamp), pid);
                assert_eq!(elapsed(stamp, time), 0);
            }
        }
    }

    #[test]
    fn ticks_survive_their_wrap_after_52_days() {
        let wrap_ns = 1_u64 << (TICK_BITS + TICK_SHIFT);
        let before = ticks(wrap_ns - 5_000_000);
        let after = ticks(wrap_ns + 5_000_000);
        assert!(after < before, "the second is past the wrap");
        assert!(elapsed(before, after).abs_diff(10_000_000 >> TICK_SHIFT) <= 1);
    }

    #[test]
    fn one_task_in_eight_is_sampled_whatever_the_salt() {
        for salt in [0, 3, 7] {
            let config = Config {
                salt,
                mask: 7,
                ..Config::default()
            };
            assert_eq!((1..=8_000).filter(|pid| config.samples(*pid)).count(), 1_000);
        }
        let all = Config {
            salt: 0,
            mask: 0,
            ..Config::default()
        };
        assert!((1..100).all(|pid| all.samples(pid)));
    }

    #[test]
    fn stamp_under_the_former_salt_is_still_valid() {
        let config = Config {
            salt: 1,
            former_salt: 2,
            mask: 7,
            since: 1_000,
            ..Config::default()
        };
        assert!(!config.samples(10) && config.watches(10));
        assert_eq!(config.waited(pack(10, 1_500), 10, 2_000), Some(500));
    }

    #[test]
    fn stamp_older_than_the_former_salt_is_refused() {
        let config = Config {
            since: 1_000,
            ..Config::default()
        };
        assert_eq!(config.waited(pack(10, 999), 10, 2_000), None);
        assert_eq!(config.waited(pack(10, 1_000), 10, 2_000), Some(1_000));
    }

    #[test]
    fn stamp_of_another_task_and_a_stamp_from_the_future_are_refused() {
        let config = Config {
            since: 1_000,
            ..Config::default()
        };
        assert_eq!(config.waited(pack(11, 1_500), 10, 2_000), None);
        assert_eq!(config.waited(pack(10, 2_001), 10, 2_000), None);
        assert_eq!(config.waited(0, 10, 2_000), None);
    }
}
