//! `Machine` holds the CPUs and the memory of the machine as last measured, and derives capacity from them.
//! `EstimatorInputs` keeps it up to date.

use headroom_domain::resource::PerResource;

use crate::sample::memory::Meminfo;

/// CPUs and memory of the machine.
#[derive(Debug, Default)]
pub(super) struct Machine {
    pub(super) online: u32,
    /// Number of those that are not isolated.
    pub(super) cpus: u32,
    /// Number of those that pods share.
    pub(super) shared_cpus: u32,
    pub(super) memory: Option<Meminfo>,
}

impl Machine {
    /// Records the memory; is there another amount of it than was known?
    pub(super) fn has_other_memory(&mut self, now: Meminfo) -> bool {
        let amounts = |memory: Meminfo| (memory.total, memory.capacity());
        self.memory.replace(now).map(amounts) != Some(amounts(now))
    }

    /// Have CPUs and memory been measured?
    pub(super) const fn is_known(&self) -> bool {
        self.cpus > 0 && self.memory.is_some()
    }

    /// Part of it that pods may use, in milli-cores and bytes; 0 before the first measurement.
    pub(super) fn capacity(&self) -> PerResource<u64> {
        PerResource {
            cpu: u64::from(self.cpus) * 1000,
            memory: self.memory.map_or(0, |memory| memory.capacity()),
        }
    }

    /// Expected capacity of its Node: with isolated CPUs and huge pages.
    pub(super) fn node_capacity(&self) -> PerResource<u64> {
        PerResource {
            cpu: u64::from(self.online) * 1000,
            memory: self.memory.map_or(0, |memory| memory.total),
        }
    }

    /// Milli-cores of the Node that pods may not use.
    pub(super) fn isolated_milli(&self) -> u64 {
        u64::from(self.online.saturating_sub(self.cpus)) * 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_amount_is_a_change_of_memory() {
        let mut machine = Machine::default();
        let mut is_other = |total, hugetlb, available| {
            machine.has_other_memory(Meminfo {
                total,
                available,
                hugetlb,
                ..Meminfo::default()
            })
        };
        assert!(is_other(8, 0, 4), "none was known");
        assert!(!is_other(8, 0, 3), "more of it is used");
        assert!(is_other(9, 0, 3));
        assert!(is_other(9, 1, 3), "less of it is for pods");
        assert!(!is_other(9, 1, 3));
    }
}
