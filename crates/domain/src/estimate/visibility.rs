//! [`Visibility`]: kinds of measurement that are available on a node. Brakes and estimator check it before they trust
//! a number or raise a ratio.

use super::{HIGHEST_PROC, MARGIN_PROC_PPM};
use crate::{ratio::Cents, resource::Resource};

/// Kinds of measurement in a brake period. A missing kind counts as its worst value, never as its best.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each kind is available or not, independently of the others"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visibility {
    /// Windows of 8.39 ms from the kernel programs.
    pub windows: bool,
    /// Waiting times of tasks while all CPUs that they may use are busy.
    pub waits: bool,
    /// CPU pressure (PSI) of the machine.
    pub cpu_pressure: bool,
    /// Memory pressure (PSI) of the machine.
    pub memory_pressure: bool,
    /// Use per pod, from which pods gain trust.
    pub pods: bool,
    /// Set of shared CPUs, without isolated and exclusive CPUs.
    pub shared_cpus: bool,
    /// All CPU counters that brakes read and this machine has.
    pub cpu_counters: bool,
    /// All memory counters that brakes read and this machine has.
    pub memory_counters: bool,
}

impl Visibility {
    /// All kinds of measurement are available.
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

    /// Kinds that procfs and cgroupfs provide.
    pub const PROCFS: Self = Self {
        windows: false,
        waits: false,
        ..Self::ALL
    };

    /// Returns true if a brake of this resource can detect overload. The kernel programs measure saturated CPUs and
    /// stalls in reclaim; without them only pressure can.
    pub const fn can_brake(&self, resource: Resource) -> bool {
        self.windows
            || match resource {
                Resource::Cpu => self.cpu_pressure,
                Resource::Memory => self.memory_pressure,
            }
    }

    /// Returns true if the ratio of this resource may rise. It may not while pods or shared CPUs are not measured, or
    /// while a counter that its brakes read is unreadable.
    pub const fn may_rise(&self, resource: Resource) -> bool {
        let has_counters = match resource {
            Resource::Cpu => self.cpu_counters,
            Resource::Memory => self.memory_counters,
        };
        self.pods && self.shared_cpus && has_counters
    }

    /// Highest ratio: `max` of the policy, at most [`HIGHEST_PROC`] when only procfs is measured, and at most 1.00 if
    /// no brake can detect overload.
    pub fn highest(&self, resource: Resource, max: Cents) -> Cents {
        if self.windows {
            max
        } else if self.can_brake(resource) {
            max.min(HIGHEST_PROC)
        } else {
            max.min(Cents::ONE)
        }
    }

    /// Least margin on the predicted peak, in ppm.
    pub const fn least_margin_ppm(&self) -> u32 {
        if self.windows { 0 } else { MARGIN_PROC_PPM }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_without_a_working_brake_are_not_amplified() {
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
            "a policy's lower maximum applies"
        );
    }

    #[test]
    fn ratios_do_not_rise_without_the_needed_measurements() {
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
