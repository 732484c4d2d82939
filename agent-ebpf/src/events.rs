//! Counters of rare events, kept by the kernel programs: direct reclaim of the whole machine, OOM victims, cgroups
//! created or removed, CPUs going offline. Also the maps that the agent reads them from.
#![expect(
    clippy::inline_always,
    reason = "part of kernel programs, which have no calls to spare"
)]

use crate::stamp::{TICK_SHIFT, elapsed, owner};

/// Per-CPU array of one [`Memory`].
pub const MAP_MEM: &str = "MEM";
/// Per-CPU array of one [`Changes`].
pub const MAP_CHG: &str = "CHG";
/// Ring buffer of [`Victim`]s, [`OOM_BYTES`] long.
pub const MAP_OOM: &str = "OOM";
/// Bytes of the ring buffer of victims: one page, or about 170 victims.
pub const OOM_BYTES: u32 = 1 << 12;

/// Memory shortage of the whole machine, counted on one CPU. The counters only grow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Direct reclaims that ended: tasks that had to free memory before their allocation succeeded. Reclaim within the
    /// limit of a cgroup is not included.
    pub reclaims: u64,
    /// Time that tasks spent in them, in nanoseconds.
    pub reclaim_ns: u64,
    /// Tasks that the OOM killer chose, at any limit.
    pub victims: u64,
    /// Time of the last OOM victim, in CLOCK_MONOTONIC nanoseconds.
    pub last_victim_ns: u64,
    /// Pid of the last OOM victim.
    pub last_victim_pid: u32,
    /// Padding to 8 bytes; always 0.
    pub pad: u32,
}

/// Changes of cgroups and CPUs, counted on one CPU. The counters only grow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Cgroups created since attach.
    pub cgroup_mkdir: u64,
    /// Cgroups removed since attach.
    pub cgroup_rmdir: u64,
    /// Steps of CPUs towards offline.
    pub offline_steps: u64,
}

/// A task that the OOM killer chose.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Victim {
    /// Time of the choice in CLOCK_MONOTONIC nanoseconds.
    pub at_ns: u64,
    /// Its pid, in the initial pid namespace.
    pub pid: u32,
    /// Padding to 8 bytes; always 0.
    pub pad: u32,
}

impl Memory {
    /// Counts a direct reclaim of `pid` that ends at `now` (in [`ticks`](crate::stamp::ticks)). `stamp` is its start; a
    /// stamp of another task is ignored.
    #[inline(always)]
    pub fn end_reclaim(&mut self, stamp: u64, pid: u32, now: u64) {
        if owner(stamp) == pid {
            self.reclaims = self.reclaims.wrapping_add(1);
            self.reclaim_ns = self.reclaim_ns.wrapping_add(elapsed(stamp, now) << TICK_SHIFT);
        }
    }

    /// Counts `pid`, which the OOM killer chose at `now_ns`.
    #[inline(always)]
    pub fn add_victim(&mut self, pid: u32, now_ns: u64) {
        self.victims = self.victims.wrapping_add(1);
        self.last_victim_ns = now_ns;
        self.last_victim_pid = pid;
    }

    /// Adds the counters of another CPU. The newer of both last victims remains.
    pub const fn add(&mut self, cpu: &Self) {
        let Self {
            reclaims,
            reclaim_ns,
            victims,
            last_victim_ns,
            last_victim_pid,
            pad: _,
        } = *cpu;
        self.reclaims = self.reclaims.wrapping_add(reclaims);
        self.reclaim_ns = self.reclaim_ns.wrapping_add(reclaim_ns);
        self.victims = self.victims.wrapping_add(victims);
        if last_victim_ns > self.last_victim_ns {
            self.last_victim_ns = last_victim_ns;
            self.last_victim_pid = last_victim_pid;
        }
    }
}

impl Changes {
    /// Adds the counters of another CPU.
    pub const fn add(&mut self, cpu: &Self) {
        let Self {
            cgroup_mkdir,
            cgroup_rmdir,
            offline_steps,
        } = *cpu;
        self.cgroup_mkdir = self.cgroup_mkdir.wrapping_add(cgroup_mkdir);
        self.cgroup_rmdir = self.cgroup_rmdir.wrapping_add(cgroup_rmdir);
        self.offline_steps = self.offline_steps.wrapping_add(offline_steps);
    }

    /// Number of cgroups created or removed.
    pub const fn cgroups(&self) -> u64 {
        self.cgroup_mkdir.wrapping_add(self.cgroup_rmdir)
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
        assert_eq!((memory.reclaims, memory.reclaim_ns), (1, 10 << TICK_SHIFT));
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
            (memory.victims, memory.last_victim_pid, memory.last_victim_ns),
            (2, 4, 20)
        );
    }

    #[test]
    fn counters_are_summed_over_the_cpus() {
        let cpu = |reclaim_ns, last_victim_ns| Memory {
            reclaims: 1,
            reclaim_ns,
            victims: 2,
            last_victim_ns,
            last_victim_pid: 7,
            pad: 0,
        };
        let mut memory = cpu(100, 20);
        memory.add(&Memory {
            last_victim_pid: 8,
            ..cpu(11, 10)
        });
        let sum = Memory {
            reclaims: 2,
            victims: 4,
            ..cpu(111, 20)
        };
        assert_eq!(memory, sum);

        let mut changes = Changes {
            cgroup_mkdir: 5,
            cgroup_rmdir: 4,
            offline_steps: 3,
        };
        let other = changes;
        changes.add(&other);
        assert_eq!((changes.cgroups(), changes.offline_steps), (18, 6));
    }

    #[test]
    fn structures_have_no_padding() {
        let Memory {
            reclaims,
            reclaim_ns,
            victims,
            last_victim_ns,
            last_victim_pid,
            pad,
        } = Memory::default();
        let longs = size_of_val(&reclaims)
            + size_of_val(&reclaim_ns)
            + size_of_val(&victims)
            + size_of_val(&last_victim_ns);
        assert_eq!(
            size_of::<Memory>(),
            longs + size_of_val(&last_victim_pid) + size_of_val(&pad)
        );
        let Victim { at_ns, pid, pad } = Victim::default();
        assert_eq!(
            size_of::<Victim>(),
            size_of_val(&at_ns) + size_of_val(&pid) + size_of_val(&pad)
        );
        let Changes {
            cgroup_mkdir,
            cgroup_rmdir,
            offline_steps,
        } = Changes::default();
        assert_eq!(
            size_of::<Changes>(),
            size_of_val(&cgroup_mkdir) + size_of_val(&cgroup_rmdir) + size_of_val(&offline_steps)
        );
    }
}
