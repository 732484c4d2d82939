//! What the machine has, as it was last measured.

use crate::sample::memory::Meminfo;

/// CPUs and memory of the machine.
#[derive(Debug, Default)]
pub(super) struct Machine {
    /// CPUs that are online.
    pub(super) online: u32,
    /// Those of them that are not isolated.
    pub(super) cpus: u32,
    /// Those of these that pods share.
    pub(super) shared_cpus: u32,
    pub(super) memory: Option<Meminfo>,
}

impl Machine {
    /// Notes the memory; is there another amount of it than was known?
    pub(super) fn has_other_memory(&mut self, now: Meminfo) -> bool {
        let amounts = |memory: Meminfo| (memory.total, memory.capacity());
        self.memory.replace(now).map(amounts) != Some(amounts(now))
    }
}
