//! `SIGNALS`: the table of all signals, in the order of display.
//!
//! Costs were measured on virtual machines with 2 CPUs (KVM, Linux 6.18). Costs of hooks are by the kernel's own count
//! of their runs, less that of an empty program, on two processors (docs/journal/README.md). Costs of files are the CPU
//! time of opening, reading and closing one, by an interpreter: upper bounds.

use super::{Need, Part, Readings, Signal, Unit};
use crate::{
    gather::GatheredSignal,
    kernel::hooks::{self, Hook},
    local::status::Measured,
    metrics,
    sample::plain::{self, PlainSignal},
};

/// Time that CPUs are busy follows from it alone.
const SWITCH: &[Hook] = &[Hook::SchedSwitch];
/// A stall begins at the one and ends at the other.
const RECLAIM: &[Hook] = &[Hook::ReclaimBegin, Hook::ReclaimEnd];
/// Waits begin at the one and end at the other.
const WAITS: &[Hook] = &[Hook::SchedSwitch, Hook::SchedWakeup, Hook::SchedWakeupNew];
const NO_HOOK: &[Hook] = &[];

const SWITCH_COST: &str = "22 to 49 ns a context switch, shared by all signals of this hook";
const WAITS_COST: &str = "7 to 21 ns a wake-up while CPUs are nearly full, nothing ten minutes later";
const STAT_COST: &str = "17 us, once a second";
const VMSTAT_COST: &str = "34 us, four times a second";
const PRESSURE_COST: &str = "10 us, four times a second";
const MEMINFO_COST: &str = "16 us, with each sample of memory";
const GROUP_COST: &str = "23 us, with each sample of memory";
const POD_COST: &str = "12 us (CPU) and 35 us (memory) a pod, once in five minutes";

const KERNEL_PROGRAMS: &str = "5.8";
const ANY: &str = "any";
const PSI: &str = "4.20";

/// Pressure of all pods, in addition to the machine's.
const KUBEPODS_PRESSURE: Option<Part> = Some(Part {
    need: Need::KubepodsPressure,
    rest: "/proc/pressure/memory",
    missing: "it covers the whole machine only: waits at the limit of all pods show only in limit-hits",
});

/// Signal from files only that every machine has.
const FILE: Signal = Signal {
    name: "",
    about: "",
    unit: Unit::Count,
    hooks: NO_HOOK,
    files: "",
    reading: GatheredSignal::Memory,
    need: Need::Nothing,
    part: None,
    kernel: ANY,
    cost: "",
    missing: "",
    metric: None,
    plain: None,
    value: |_| None,
};

/// A signal that is one number of one file, shown as it is.
const fn plain(signal: &'static PlainSignal) -> Signal {
    Signal {
        name: signal.name,
        plain: Some(signal),
        reading: GatheredSignal::Plain,
        ..FILE
    }
}

/// Signal from the kernel programs only.
const KERNEL: Signal = Signal {
    hooks: SWITCH,
    reading: GatheredSignal::Cpu,
    kernel: KERNEL_PROGRAMS,
    cost: SWITCH_COST,
    ..FILE
};

pub static SIGNALS: &[Signal] = &[
    Signal {
        name: "cpu-busy",
        about: "CPUs that were busy, stolen time included",
        unit: Unit::Milli,
        files: "/proc/stat",
        kernel: ANY,
        missing: "without it no CPU frame is valid and the ratio goes to 1.00",
        metric: Some(metrics::CPU_BUSY.metric()),
        value: |readings| highest(readings, |measured| measured.cpu_busy_milli),
        ..KERNEL
    },
    Signal {
        name: "cpu-used",
        about: "CPUs that were busy, without the stolen time",
        unit: Unit::Milli,
        files: "/proc/stat",
        kernel: ANY,
        missing: "as cpu-busy",
        value: |readings| highest(readings, |measured| measured.cpu_used_milli),
        ..KERNEL
    },
    Signal {
        name: "cpu-demand",
        about: "CPUs that were busy, plus those that tasks waited for while nearly all were busy",
        unit: Unit::Milli,
        files: "/proc/stat",
        kernel: ANY,
        missing: "as cpu-busy",
        metric: Some(metrics::CPU_DEMAND.metric()),
        value: |readings| highest(readings, |measured| measured.cpu_demand_milli),
        ..KERNEL
    },
    Signal {
        name: "cpu-peak",
        about: "the busiest 134 ms of the last brake period",
        unit: Unit::Milli,
        missing: "peaks shorter than a second are missed, so the margin is larger and the maximum ratio lower: \
         the mode's sentence has the figures",
        metric: Some(metrics::BLOCK_USE.metric()),
        value: |readings| highest(readings, |measured| measured.cpu_peak_milli),
        ..KERNEL
    },
    Signal {
        name: "burst",
        about: "that peak over the mean",
        unit: Unit::Ppm,
        missing: "as cpu-peak",
        metric: Some(metrics::BURST.metric()),
        value: |readings| highest(readings, |measured| u64::from(measured.burst_ppm)),
        ..KERNEL
    },
    Signal {
        name: "sigma8",
        about: "share of 8.39 ms windows in which every CPU shared by pods was busy, in blocks of 134 ms in \
         which these were at least 95 % busy",
        unit: Unit::Ppm,
        missing: "the CPU brake uses pressure and mean use, and may be late",
        metric: Some(metrics::SIGMA8.metric()),
        value: |readings| highest(readings, |measured| u64::from(measured.sigma8_ppm)),
        ..KERNEL
    },
    Signal {
        name: "run-queue-p50",
        about: "wait for a CPU, median by waiting time",
        unit: Unit::Micros,
        hooks: WAITS,
        cost: WAITS_COST,
        missing: "waits of tasks are not measured",
        metric: Some(metrics::RUNQ_WAIT.metric()),
        value: |readings| highest(readings, |measured| measured.runq_p50_us),
        ..KERNEL
    },
    Signal {
        name: "run-queue-p99",
        about: "wait for a CPU, 99th percentile by waiting time",
        unit: Unit::Micros,
        hooks: WAITS,
        cost: WAITS_COST,
        missing: "the CPU brake cannot distinguish full CPUs from contended ones: it uses CPU pressure, or \
         counts all waits as long",
        metric: Some(metrics::RUNQ_WAIT.metric()),
        value: |readings| highest(readings, |measured| measured.runq_p99_us),
        ..KERNEL
    },
    Signal {
        name: "switches",
        about: "context switches",
        unit: Unit::PerSecond,
        missing: "the agent cannot limit its own cost",
        metric: Some(metrics::SWITCHES.metric()),
        value: |readings| highest(readings, |measured| measured.switches_per_s),
        ..KERNEL
    },
    Signal {
        name: "steal",
        about: "CPUs that the hypervisor gave to other guests",
        unit: Unit::Milli,
        files: "/proc/stat",
        reading: GatheredSignal::Stat,
        cost: STAT_COST,
        missing: "stolen time counts as use",
        metric: Some(metrics::CPU_STEAL.metric()),
        value: |readings| highest(readings, |measured| measured.steal_milli),
        ..FILE
    },
    Signal {
        name: "psi-cpu",
        about: "CPU pressure, some; quotas count, so it is not trusted alone",
        unit: Unit::Ppm,
        files: "/proc/pressure/cpu",
        reading: GatheredSignal::CpuPressure,
        need: Need::CpuPressure,
        kernel: PSI,
        cost: PRESSURE_COST,
        missing: "without kernel programs there is no CPU brake, and the ratio ends at 1.00",
        metric: Some(metrics::PRESSURE.metric()),
        value: |readings| highest(readings, |measured| u64::from(measured.psi_cpu_some_ppm)),
        ..FILE
    },
    Signal {
        name: "psi-memory-some",
        about: "memory pressure, some: the larger of machine and kubepods",
        unit: Unit::Ppm,
        files: "/proc/pressure/memory, kubepods memory.pressure",
        reading: GatheredSignal::MemoryPressure,
        need: Need::MemoryPressure,
        part: KUBEPODS_PRESSURE,
        kernel: PSI,
        cost: PRESSURE_COST,
        missing: "the memory brake uses reclaim, refaults and kills only",
        metric: Some(metrics::PRESSURE.metric()),
        value: |readings| highest(readings, |measured| u64::from(measured.psi_mem_some_ppm)),
        ..FILE
    },
    Signal {
        name: "psi-memory-full",
        about: "memory pressure, full: the larger of machine and kubepods",
        unit: Unit::Ppm,
        files: "/proc/pressure/memory, kubepods memory.pressure",
        reading: GatheredSignal::MemoryPressure,
        need: Need::MemoryPressure,
        part: KUBEPODS_PRESSURE,
        kernel: PSI,
        cost: PRESSURE_COST,
        missing: "as psi-memory-some",
        metric: Some(metrics::PRESSURE.metric()),
        value: |readings| highest(readings, |measured| u64::from(measured.psi_mem_full_ppm)),
        ..FILE
    },
    Signal {
        name: "direct-reclaim",
        about: "time that tasks spent freeing memory for the whole machine, in the last brake period",
        unit: Unit::Millis,
        hooks: RECLAIM,
        reading: GatheredSignal::Events,
        cost: "nothing while memory is plenty; two runs of a program a stall",
        missing: "the memory brake uses pressure, refaults and kills only",
        metric: Some(hooks::DIRECT_RECLAIM.metric()),
        value: |readings| highest(readings, |measured| measured.direct_reclaim_ms),
        ..KERNEL
    },
    Signal {
        name: "oom-kills",
        about: "processes killed by the OOM killer since the agent started",
        unit: Unit::Count,
        hooks: &[Hook::MarkVictim],
        files: "/proc/vmstat",
        reading: GatheredSignal::Vmstat,
        kernel: "4.13",
        cost: VMSTAT_COST,
        missing: "a kill does not brake",
        metric: Some(metrics::OOM_KILLS.metric()),
        value: |readings| highest(readings, |measured| measured.oom_kills),
        ..FILE
    },
    Signal {
        name: "refaults",
        about: "pages read again soon after they were reclaimed",
        unit: Unit::MegabytesPerSecond,
        files: "/proc/vmstat",
        reading: GatheredSignal::Vmstat,
        cost: VMSTAT_COST,
        missing: "a page cache that is too small does not brake",
        metric: Some(metrics::REFAULTED.metric()),
        value: |readings| highest(readings, |measured| measured.refault_mb_s),
        ..FILE
    },
    Signal {
        name: "swap-out",
        about: "pages swapped out",
        unit: Unit::MegabytesPerSecond,
        files: "/proc/vmstat",
        reading: GatheredSignal::Vmstat,
        cost: VMSTAT_COST,
        missing: "swapping does not brake",
        metric: Some(metrics::SWAPPED_OUT.metric()),
        value: |readings| highest(readings, |measured| measured.swap_out_mb_s),
        ..FILE
    },
    Signal {
        name: "memory-available",
        about: "memory available without swapping",
        unit: Unit::Bytes,
        files: "/proc/meminfo",
        cost: MEMINFO_COST,
        missing: "without it no memory frame is valid and the ratio goes to 1.00",
        metric: Some(metrics::MEMORY_AVAILABLE.metric()),
        value: |readings| highest(readings, |measured| measured.mem_available_bytes),
        ..FILE
    },
    Signal {
        name: "memory-spare",
        about: "memory available above the kubelet's hard eviction threshold, minimum of the last brake period",
        unit: Unit::Bytes,
        files: "/proc/meminfo",
        cost: MEMINFO_COST,
        missing: "memory brakes only after it is short",
        value: |readings| readings.measured.as_ref()?.mem_spare_bytes,
        ..FILE
    },
    Signal {
        name: "memory-used",
        about: "memory in real use, half of the active page cache included",
        unit: Unit::Bytes,
        files: "/proc/meminfo",
        cost: MEMINFO_COST,
        missing: "as memory-available",
        metric: Some(metrics::MEMORY_USED.metric()),
        value: |readings| highest(readings, |measured| measured.mem_used_bytes),
        ..FILE
    },
    Signal {
        name: "working-set",
        about: "memory that all pods need, half of their active page cache included",
        unit: Unit::Bytes,
        files: "kubepods memory.current or memory.usage_in_bytes, memory.stat",
        need: Need::WorkingSet,
        cost: GROUP_COST,
        missing: "all memory of the machine beyond the reservations counts as the pods'",
        metric: Some(metrics::WORKING_SET.metric()),
        value: |readings| highest(readings, |measured| measured.working_set_bytes),
        ..FILE
    },
    Signal {
        name: "limit-hits",
        about: "times kubepods met its own memory limit in the last brake period",
        unit: Unit::Count,
        files: "kubepods memory.events.local and memory.events, or memory.failcnt",
        reading: GatheredSignal::LimitEvents,
        need: Need::LimitEvents,
        kernel: "5.3 with cgroup v2, any with v1",
        cost: PRESSURE_COST,
        missing: "a node whose pods meet the limit of kubepods does not brake",
        value: |readings| highest(readings, |measured| measured.limit_hits),
        ..FILE
    },
    Signal {
        name: "pod-cpu",
        about: "CPU of all tracked pods in the last frame",
        unit: Unit::Milli,
        files: "cpu.stat or cpuacct.usage of each pod",
        reading: GatheredSignal::Pods,
        need: Need::Kubepods,
        cost: POD_COST,
        missing: "no pod earns trust: all count with their full request",
        metric: Some(metrics::PODS.metric()),
        value: |readings| readings.pods.map(|(cpu, _)| cpu),
        ..FILE
    },
    Signal {
        name: "pod-memory",
        about: "memory of all tracked pods in the last frame",
        unit: Unit::Bytes,
        files: "memory.current and memory.stat of each pod",
        reading: GatheredSignal::Pods,
        need: Need::Kubepods,
        cost: POD_COST,
        missing: "as pod-cpu",
        metric: Some(metrics::PODS.metric()),
        value: |readings| readings.pods.map(|(_, memory)| memory),
        ..FILE
    },
    Signal {
        name: "exclusive-cpus",
        about: "CPUs that single pods hold exclusively",
        unit: Unit::Milli,
        files: "cpuset.cpus of containers",
        reading: GatheredSignal::Cpusets,
        need: Need::Kubepods,
        cost: "11 us a container, with each sample of memory",
        missing: "idle exclusive CPUs look free",
        metric: Some(metrics::EXCLUSIVE_CPUS.metric()),
        value: |readings| highest(readings, |measured| measured.exclusive_milli),
        ..FILE
    },
    Signal {
        about: "tasks that wait for I/O and cannot be interrupted",
        files: "/proc/stat",
        cost: STAT_COST,
        missing: "a node whose disks hang looks idle",
        ..plain(&plain::TASKS_BLOCKED)
    },
    Signal {
        about: "share of a second in which some task waited for I/O",
        unit: Unit::Ppm,
        files: "/proc/pressure/io",
        kernel: PSI,
        cost: "10 us, once a second",
        missing: "only tasks-blocked distinguishes slow disks from busy CPUs",
        ..plain(&plain::PSI_IO)
    },
];

/// Part of the last second's measurements.
fn highest(readings: &Readings<'_>, part: impl Fn(&Measured) -> u64) -> Option<u64> {
    readings.measured.as_ref().map(part)
}
