//! Visibility of a node: the kinds of measurement that are available. Brakes and estimator check this one value before
//! they trust a number or raise a ratio.

use super::{HIGHEST_PROC, MARGIN_PROC_PPM};
use crate::{ratio::Cents, resource::Resource};

/// The kinds of measurement that a brake period had. A kind that is missing counts as its worst, never as its best.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each thing is seen or not, apart from the others"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visibility {
    /// Windows of 8.39 ms: the kernel programs count.
    pub windows: bool,
    /// How long tasks waited for a CPU while all that they may use were busy.
    pub waits: bool,
    /// CPU pressure of the machine.
    pub cpu_pressure: bool,
    /// Memory pressure of the machine.
    pub memory_pressure: bool,
    /// Use per pod, by which pods earn trust.
    pub pods: bool,
    /// Which CPUs pods share: isolated ones and those of one pod alone are left out.
    pub shared_cpus: bool,
    /// All that brakes of the CPU go by, as far as this machine has it.
    pub cpu_counters: bool,
    /// All that brakes of memory go by, as far as this machine has it.
    pub memory_counters: bool,
}

impl Visibility {
    /// Everything is seen.
    pub const ALL: Self = Self {
        windows: true,
        waits: true,
        cpu_pressure: true,
        memory_pressure: true,
        pods: true,
        shared_cpus: true,
        cpu_counters: true,
        memory_counters: true,
    };

    /// Everything that procfs and cgroupfs tell.
    pub const PROCFS: Self = Self {
        windows: false,
        waits: false,
        ..Self::ALL
    };

    /// Could a brake of this resource tell that the node is short of it? Kernel programs see saturated CPUs and stalls in
    /// reclaim; without them there is pressure, or nothing.
    pub const fn can_brake(&self, resource: Resource) -> bool {
        self.windows
            || match resource {
                Resource::Cpu => self.cpu_pressure,
                Resource::Memory => self.memory_pressure,
            }
    }

    /// May the ratio of this resource rise? Not on the word of pods or of CPUs that nobody has seen, nor while something
    /// that would brake it cannot be read.
    pub const fn may_rise(&self, resource: Resource) -> bool {
        let has_counters = match resource {
            Resource::Cpu => self.cpu_counters,
            Resource::Memory => self.memory_counters,
        };
        self.pods && self.shared_cpus && has_counters
    }

    /// The highest ratio: `max` of the policy, no more than [`HIGHEST_PROC`] on the word of procfs alone, and 1.00 where
    /// nothing would brake.
    pub fn highest(&self, resource: Resource, max: Cents) -> Cents {
        if self.windows {
            max
        } else if self.can_brake(resource) {
            max.min(HIGHEST_PROC)
        } else {
            max.min(Cents::ONE)
        }
    }

    /// The least margin on the predicted peak, in ppm.
    pub const fn least_margin_ppm(&self) -> u32 {
        if self.windows { 0 } else { MARGIN_PROC_PPM }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_would_brake_is_not_amplified() {
        let without_cpu = Visibility {
            cpu_pressure: false,
            ..Visibility::PROCFS
        };
        let highest =
            |visibility: Visibility| Resource::ALL.map(|resource| visibility.highest(resource, Cents(200)).0);
        assert_eq!(highest(Visibility::ALL), [200, 200]);
        assert_eq!(highest(Visibility::PROCFS), [150, 150]);
        assert_eq!(highest(without_cpu), [100, 150]);
        let without_any = Visibility {
            memory_pressure: false,
            ..without_cpu
        };
        assert_eq!(highest(without_any), [100, 100]);
        let with_windows = Visibility {
            windows: true,
            ..without_any
        };
        assert_eq!(highest(with_windows), [200, 200], "windows alone can brake");
        assert_eq!(
            without_any.highest(Resource::Cpu, Cents(80)),
            Cents(80),
            "a policy may want less"
        );
    }

    #[test]
    fn nothing_rises_on_the_word_of_what_is_not_seen() {
        let rises = |visibility: Visibility| Resource::ALL.map(|resource| visibility.may_rise(resource));
        assert_eq!(rises(Visibility::ALL), [true; 2]);
        assert_eq!(rises(Visibility::PROCFS), [true; 2]);
        let without_pods = Visibility {
            pods: false,
            ..Visibility::ALL
        };
        let without_cpus = Visibility {
            shared_cpus: false,
            ..Visibility::ALL
        };
        assert_eq!(
            (rises(without_pods), rises(without_cpus)),
            ([false; 2], [false; 2])
        );
        let without_counters = Visibility {
            cpu_counters: false,
            ..Visibility::ALL
        };
        assert_eq!(rises(without_counters), [false, true]);
        let without_counters = Visibility {
            memory_counters: false,
            ..Visibility::ALL
        };
        assert_eq!(rises(without_counters), [true, false]);
    }
}
