//! `GatheredSignal` names the readings of the sampling thread and of the accounts thread. Each reading fails and
//! recovers separately.

/// One thing that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GatheredSignal {
    Cpu,
    /// `/proc/stat`, where the kernel programs are the source and this is their second opinion.
    Stat,
    CpuPressure,
    Memory,
    /// `/proc/vmstat`: reclaim, refaults, swap and kills.
    Vmstat,
    /// Memory pressure of the machine.
    MemoryPressure,
    KubepodsPressure,
    /// Number of times kubepods met its own limit.
    LimitEvents,
    /// Counters of rare events from the kernel programs.
    Events,
    /// Use of each pod.
    Pods,
    /// CPUs that pods hold for themselves.
    Cpusets,
    /// Files of which one number is shown as it is.
    Plain,
}

impl GatheredSignal {
    /// Its name in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Stat => "stat",
            Self::CpuPressure => "cpu-pressure",
            Self::Memory => "memory",
            Self::Vmstat => "vmstat",
            Self::MemoryPressure => "memory-pressure",
            Self::KubepodsPressure => "kubepods-pressure",
            Self::LimitEvents => "limit-events",
            Self::Events => "events",
            Self::Pods => "pods",
            Self::Cpusets => "cpusets",
            Self::Plain => "plain",
        }
    }
}
