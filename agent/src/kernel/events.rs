//! `KernelEvents` reads the maps of rare events and sums them over the CPUs. It also logs each OOM victim.

use std::fmt;

use aya::{
    Ebpf,
    maps::{MapData, PerCpuArray, RingBuf},
};
use headroom_agent_ebpf::{
    Changes, Memory, Victim,
    events::{MAP_CHG, MAP_MEM, MAP_OOM},
};
use tracing::warn;

use crate::{
    kernel::{
        hooks::EventCounters,
        probe::{ProbeError, maps::failed},
    },
    sample::SampleError,
};

/// Bytes of a [`Victim`] in the ring buffer.
const VICTIM_BYTES: usize = size_of::<Victim>();

/// Maps of the counters of rare events. They stay readable like [`KernelMaps`](super::probe::KernelMaps).
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

    /// Reads all counters, and logs the OOM victims since the last call.
    ///
    /// # Errors
    /// A map cannot be read.
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
        sum.memory.add(cpu);
    }
    for cpu in changes {
        sum.changes.add(cpu);
    }
    sum
}

/// Pid of a victim in the ring buffer, after the eight bytes of its time. `None` for another length.
fn victim_pid(bytes: &[u8]) -> Option<u32> {
    let bytes: &[u8; VICTIM_BYTES] = bytes.try_into().ok()?;
    Some(u32::from_ne_bytes(*bytes.get(8..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_entry_with_the_size_of_a_victim_has_a_pid() {
        let mut bytes = [0_u8; VICTIM_BYTES];
        bytes[8..12].copy_from_slice(&77_u32.to_ne_bytes());
        assert_eq!(victim_pid(&bytes), Some(77));
        assert_eq!(victim_pid(&bytes[1..]), None);
    }
}
