//! Counters of rare events, kept by the kernel programs: direct reclaim of the whole machine, OOM victims, cgroups
//! created or removed, CPUs going offline.
#![expect(
    clippy::inline_always,
    reason = "part of kernel programs, which have no calls to spare"
)]

use crate::stamp::{TICK_SHIFT, elapsed, owner};

/// Memory shortage of the whole machine, as one CPU saw it; monotonic.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Direct reclaims that ended: tasks that had to free memory themselves before they got some. Reclaim within the
    /// limit of a cgroup is not among them.
    pub dr_cnt: u64,
    /// Time tasks spent in those, in nanoseconds.
    pub dr_ns: u64,
    /// Tasks the OOM killer chose, for whatever limit.
    pub oom_cnt: u64,
    /// When the last of them was chosen, in CLOCK_MONOTONIC nanoseconds.
    pub last_oom_ts: u64,
    /// Its pid.
    pub last_oom_pid: u32,
    /// Always 0.
    pub pad: u32,
}

/// Changes of what the agent looks at, as one CPU saw them; monotonic.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Cgroups created.
    pub cgroup_mkdir: u64,
    /// Cgroups removed.
    pub cgroup_rmdir: u64,
    /// Steps of CPUs on their way down.
    pub cpuhp: u64,
}

/// A task that the OOM killer chose.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Victim {
    /// When, in CLOCK_MONOTONIC nanoseconds.
    pub at_ns: u64,
    /// Its pid, in the first pid namespace.
    pub pid: u32,
    /// Always 0.
    pub pad: u32,
}

impl Memory {
    /// A direct reclaim of `pid` ends at `now` (in [`ticks`](crate::stamp::ticks)); `stamp` is of its beginning, and
    /// counts only if it is its own.
    #[inline(always)]
    pub fn end_reclaim(&mut self, stamp: u64, pid: u32, now: u64) {
        if owner(stamp) == pid {
            self.dr_cnt = self.dr_cnt.wrapping_add(1);
            self.dr_ns = self.dr_ns.wrapping_add(elapsed(stamp, now) << TICK_SHIFT);
        }
    }

    /// The OOM killer chooses `pid` at `now_ns`.
    #[inline(always)]
    pub fn add_victim(&mut self, pid: u32, now_ns: u64) {
        self.oom_cnt = self.oom_cnt.wrapping_add(1);
        self.last_oom_ts = now_ns;
        self.last_oom_pid = pid;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::{TICK_MASK, pack, ticks};

    #[test]
    fn reclaim_lasts_from_its_own_stamp_even_past_the_wrap() {
        let mut memory = Memory::default();
        memory.end_reclaim(pack(7, TICK_MASK), 7, ticks(9 << TICK_SHIFT));
        assert_eq!((memory.dr_cnt, memory.dr_ns), (1, 10 << TICK_SHIFT));
    }

    #[test]
    fn stamp_of_another_task_is_no_reclaim() {
        let mut memory = Memory::default();
        memory.end_reclaim(pack(8, 1), 7, 5);
        memory.end_reclaim(0, 7, 5);
        assert_eq!(memory, Memory::default());
    }

    #[test]
    fn victims_are_counted_and_the_last_is_named() {
        let mut memory = Memory::default();
        memory.add_victim(3, 10);
        memory.add_victim(4, 20);
        assert_eq!(
            (memory.oom_cnt, memory.last_oom_pid, memory.last_oom_ts),
            (2, 4, 20)
        );
    }
}
