//! `KernelEvents` reads the maps of rare events and sums them over the CPUs: direct reclaim, OOM victims, cgroups
//! created or removed, CPUs going offline. It also logs each OOM victim.

use std::fmt;

use aya::{
    Ebpf,
    maps::{MapData, PerCpuArray, RingBuf},
};
use headroom_agent_ebpf::{Changes, MAP_CHG, MAP_MEM, MAP_OOM, Memory, Victim};
use tracing::warn;

use crate::{
    kernel::probe::{ProbeError, maps::failed},
    sample::SampleError,
};

/// Bytes of a [`Victim`] in the ring buffer.
const VICTIM_BYTES: usize = size_of::<Victim>();

/// What the rare hooks have counted since they were attached. A hook that is not attached stays at zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounters {
    /// Direct reclaims of the whole machine that ended.
    pub reclaims: u64,
    /// Time of all tasks in them, in nanoseconds.
    pub reclaim_ns: u64,
    /// Tasks the OOM killer chose, for whatever limit.
    pub victims: u64,
    /// Cgroups created or removed.
    pub cgroup_changes: u64,
    /// Steps of CPUs on their way down.
    pub cpu_changes: u64,
}

/// The counters of rare events. Stays readable like [`KernelMaps`](super::probe::KernelMaps).
pub struct KernelEvents {
    memory: PerCpuArray<MapData, Memory>,
    changes: PerCpuArray<MapData, Changes>,
    victims: RingBuf<MapData>,
}

impl fmt::Debug for KernelEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelEvents").finish_non_exhaustive()
    }
}

impl KernelEvents {
    pub(super) fn open(ebpf: &mut Ebpf) -> Result<Self, ProbeError> {
        let mut taken = |name| ebpf.take_map(name).ok_or(ProbeError::NoMap { name });
        let (memory, changes, victims) = (taken(MAP_MEM)?, taken(MAP_CHG)?, taken(MAP_OOM)?);
        let layout = |name| move |source| ProbeError::Map { name, source };
        Ok(Self {
            memory: PerCpuArray::try_from(memory).map_err(layout(MAP_MEM))?,
            changes: PerCpuArray::try_from(changes).map_err(layout(MAP_CHG))?,
            victims: RingBuf::try_from(victims).map_err(layout(MAP_OOM))?,
        })
    }

    /// All counters up to now; victims that were not told of yet go to the log.
    ///
    /// # Errors
    /// When a map cannot be read.
    pub fn read(&mut self) -> Result<EventCounters, SampleError> {
        let memory = self.memory.get(&0, 0).map_err(failed(MAP_MEM))?;
        let changes = self.changes.get(&0, 0).map_err(failed(MAP_CHG))?;
        while let Some(bytes) = self.victims.next() {
            if let Some(pid) = victim_pid(&bytes) {
                warn!(pid, "the OOM killer has chosen a task");
            }
        }
        Ok(sum(&memory, &changes))
    }
}

fn sum(memory: &[Memory], changes: &[Changes]) -> EventCounters {
    let mut sum = EventCounters::default();
    for cpu in memory {
        sum.reclaims = sum.reclaims.wrapping_add(cpu.dr_cnt);
        sum.reclaim_ns = sum.reclaim_ns.wrapping_add(cpu.dr_ns);
        sum.victims = sum.victims.wrapping_add(cpu.oom_cnt);
    }
    for cpu in changes {
        let cgroups = cpu.cgroup_mkdir.wrapping_add(cpu.cgroup_rmdir);
        sum.cgroup_changes = sum.cgroup_changes.wrapping_add(cgroups);
        sum.cpu_changes = sum.cpu_changes.wrapping_add(cpu.cpuhp);
    }
    sum
}

/// The pid of a victim in the ring buffer: after the eight bytes of its time.
fn victim_pid(bytes: &[u8]) -> Option<u32> {
    let bytes: &[u8; VICTIM_BYTES] = bytes.try_into().ok()?;
    Some(u32::from_ne_bytes(*bytes.get(8..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_the_cpus() {
        let memory = |dr_ns| Memory {
            dr_cnt: 1,
            dr_ns,
            oom_cnt: 2,
            ..Memory::default()
        };
        let changes = Changes {
            cgroup_mkdir: 5,
            cgroup_rmdir: 4,
            cpuhp: 3,
        };
        assert_eq!(
            sum(&[memory(100), memory(11)], &[changes, changes]),
            EventCounters {
                reclaims: 2,
                reclaim_ns: 111,
                victims: 4,
                cgroup_changes: 18,
                cpu_changes: 6
            }
        );
    }

    #[test]
    fn a_victim_is_read_by_its_layout_and_nothing_else_is() {
        let mut bytes = [0_u8; VICTIM_BYTES];
        bytes[8..12].copy_from_slice(&77_u32.to_ne_bytes());
        assert_eq!(victim_pid(&bytes), Some(77));
        assert_eq!(victim_pid(&bytes[1..]), None);
    }
}
