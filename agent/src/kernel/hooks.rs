//! The table of hooks: every tracepoint that the kernel programs attach to, with its programs and its metric.
//!
//! Loading, attaching, verdicts, `/status`, metrics and the debug socket iterate over [`Hook::ALL`]. A new hook is a row
//! here, its program and counter in `headroom-agent-ebpf`, and a row of the signals. docs/extending.md shows the steps.

use std::time::Duration;

use headroom_agent_ebpf::{Changes, Memory};
use headroom_kit::metric::{Cells, CountedTime, Counter, Unit};
use serde::Serialize;

/// Declares [`Hook`] with one row for each hook. The programs are attached in this order.
macro_rules! hooks {
    ($($(#[$attribute:meta])* $hook:ident: $row:expr;)+) => {
        /// A tracepoint that a kernel program attaches to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Hook {
            $($(#[$attribute])* $hook,)+
        }

        impl Hook {
            /// All hooks, the mandatory one last: stamps must exist before the switches that consume them.
            pub const ALL: [Self; [$(stringify!($hook)),+].len()] = [$(Self::$hook),+];

            fn row(self) -> &'static HookRow {
                match self {
                    $(Self::$hook => {
                        static ROW: HookRow = $row;
                        &ROW
                    })+
                }
            }
        }
    };
}

hooks! {
    /// A task begins direct reclaim for the whole machine: the start of a stall.
    ReclaimBegin: HookRow {
        tracepoint: "mm_vmscan_direct_reclaim_begin",
        typed: "hr_dr_begin",
        raw: "hr_dr_begin_raw",
        loss: RECLAIM_LOSS,
        ..COUNTS
    };
    /// A task ends direct reclaim: the end of a stall.
    ReclaimEnd: HookRow {
        tracepoint: "mm_vmscan_direct_reclaim_end",
        typed: "hr_dr_end",
        raw: "hr_dr_end_raw",
        loss: RECLAIM_LOSS,
        metric: Some(HookMetric {
            counter: |events| events.memory.reclaim_ns,
            add: |reclaim_ns| DIRECT_RECLAIM.add(Duration::from_nanos(reclaim_ns)),
        }),
        ..COUNTS
    };
    /// The OOM killer chooses a task.
    MarkVictim: HookRow {
        tracepoint: "mark_victim",
        typed: "hr_victim",
        raw: "hr_victim_raw",
        loss: "victims of the OOM killer by pid; their number comes from /proc/vmstat",
        // The argument is a task or its pid, which `globals` looks up.
        reads_tasks: true,
        ..COUNTS
    };
    /// A cgroup was created, at its `mkdir`.
    CgroupMkdir: HookRow {
        tracepoint: "cgroup_mkdir",
        typed: "hr_cg_mkdir",
        raw: "hr_cg_mkdir_raw",
        loss: CGROUP_LOSS,
        ..COUNTS
    };
    /// A cgroup was removed, at its `rmdir`.
    CgroupRmdir: HookRow {
        tracepoint: "cgroup_rmdir",
        typed: "hr_cg_rmdir",
        raw: "hr_cg_rmdir_raw",
        loss: CGROUP_LOSS,
        ..COUNTS
    };
    /// A CPU begins a step towards a hotplug state, such as offline.
    CpuhpEnter: HookRow {
        tracepoint: "cpuhp_enter",
        typed: "hr_hp_enter",
        raw: "hr_hp_enter_raw",
        loss: CPU_LOSS,
        ..COUNTS
    };
    /// A CPU ends a step towards a hotplug state.
    CpuhpExit: HookRow {
        tracepoint: "cpuhp_exit",
        typed: "hr_hp_exit",
        raw: "hr_hp_exit_raw",
        loss: CPU_LOSS,
        ..COUNTS
    };
    /// A sleeping task becomes runnable: the start of a wait.
    SchedWakeup: HookRow {
        tracepoint: "sched_wakeup",
        typed: "hr_wakeup",
        raw: "hr_wakeup_raw",
        loss: WAKE_UP_LOSS,
        reads_tasks: true,
        task_arguments: &[0],
        ..COUNTS
    };
    /// A new task becomes runnable: the start of its first wait.
    SchedWakeupNew: HookRow {
        tracepoint: "sched_wakeup_new",
        typed: "hr_wakenew",
        raw: "hr_wakenew_raw",
        loss: WAKE_UP_LOSS,
        reads_tasks: true,
        task_arguments: &[0],
        ..COUNTS
    };
    /// A context switch: busy time, and the end of each sampled wait.
    SchedSwitch: HookRow {
        tracepoint: "sched_switch",
        typed: "hr_switch",
        raw: "hr_switch_raw",
        loss: "busy time and run-queue latency",
        is_mandatory: true,
        reads_tasks: true,
        task_arguments: &[1, 2],
        ..COUNTS
    };
}

const RECLAIM_LOSS: &str = "time in direct reclaim, so the memory brake uses pressure alone";
const CGROUP_LOSS: &str = "pods that start within a frame are detected only at its end";
const CPU_LOSS: &str = "CPUs that go offline and online between two polls";
const WAKE_UP_LOSS: &str = "waits of tasks that wake up, so the CPU brake may be late";

/// An optional hook whose program only counts: it follows no pointer and feeds no metric.
const COUNTS: HookRow = HookRow {
    tracepoint: "",
    typed: "",
    raw: "",
    loss: "",
    is_mandatory: false,
    reads_tasks: false,
    task_arguments: &[],
    metric: None,
};

headroom_kit::metrics! {
    pub static REATTACHED: Counter = Counter::new(
        "headroom_agent_bpf_reattach_total",
        Unit::Count,
        &[],
        "Times that the kernel programs lost a link or stopped counting and were attached again; if \
         that fails, the mode is PROC.",
    );

    pub static DIRECT_RECLAIM: CountedTime = CountedTime::new(
        "headroom_agent_direct_reclaim_seconds_total",
        "Time that tasks spent in direct reclaim for the whole machine. 0 from procfs.",
        &DIRECT_RECLAIM_CELLS,
    );
}

static DIRECT_RECLAIM_CELLS: Cells = Cells::new();

#[derive(Debug)]
struct HookRow {
    /// The kernel's name of the tracepoint.
    tracepoint: &'static str,
    /// Name of the BTF tracepoint program in the object.
    typed: &'static str,
    /// Name of its raw fallback.
    raw: &'static str,
    /// Loss without the hook, as the end of a sentence.
    loss: &'static str,
    /// True if there is no kernel source without it.
    is_mandatory: bool,
    /// True if its programs read fields of a task, at offsets that the agent has looked up.
    reads_tasks: bool,
    /// Positions of the arguments that its programs use as a `struct task_struct *`.
    task_arguments: &'static [usize],
    /// Metric of its counter, if it feeds one.
    metric: Option<HookMetric>,
}

/// Metric that shows the counter of a hook.
#[derive(Debug)]
struct HookMetric {
    /// The counter since the programs were attached.
    counter: fn(&EventCounters) -> u64,
    /// Adds the counter's growth to the metric.
    add: fn(u64),
}

/// Counters of all hooks of rare events, summed over the CPUs. A hook that is not attached stays at zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounters {
    /// Direct reclaim and OOM victims.
    pub memory: Memory,
    /// Changes of cgroups and CPUs.
    pub changes: Changes,
}

/// Type of an attached program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Flavour {
    /// BTF tracepoint (`tp_btf`): the verifier checks its loads. Cheaper than [`Flavour::Raw`].
    Typed,
    /// Raw tracepoint (`raw_tp`): a helper reads at the same offsets, unchecked.
    Raw,
}

impl Hook {
    /// The hooks at which waits begin. They are detached if tasks switch too often, and while no CPU is nearly full.
    pub const WAKE_UPS: [Self; 2] = [Self::SchedWakeup, Self::SchedWakeupNew];

    /// The kernel's name of the tracepoint.
    pub fn tracepoint(self) -> &'static str {
        self.row().tracepoint
    }

    /// Name of the program for this hook, as the kernel lists it.
    pub fn program(self, flavour: Flavour) -> &'static str {
        match flavour {
            Flavour::Typed => self.row().typed,
            Flavour::Raw => self.row().raw,
        }
    }

    /// Loss without the hook, as the end of a sentence.
    pub fn loss(self) -> &'static str {
        self.row().loss
    }

    /// Returns true if there is no kernel source without this hook.
    pub fn is_mandatory(self) -> bool {
        self.row().is_mandatory
    }

    /// Returns true if its programs read fields of a task, at offsets that the agent has looked up.
    pub fn reads_tasks(self) -> bool {
        self.row().reads_tasks
    }

    /// Positions of the arguments that its programs use as a `struct task_struct *`.
    pub(super) fn task_arguments(self) -> &'static [usize] {
        self.row().task_arguments
    }
}

impl EventCounters {
    /// Adds the growth since `earlier` to the metrics of all hooks. A counter that went back adds nothing.
    pub fn add_to_metrics(&self, earlier: &Self) {
        let metrics = Hook::ALL
            .into_iter()
            .filter_map(|hook| hook.row().metric.as_ref());
        for HookMetric { counter, add } in metrics {
            add(counter(self).saturating_sub(counter(earlier)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_of_programs_are_unique_and_fit_the_fifteen_characters_the_kernel_keeps() {
        let names = Hook::ALL.map(|hook| [Flavour::Typed, Flavour::Raw].map(|flavour| hook.program(flavour)));
        let names = names.as_flattened();
        assert!(names.iter().all(|name| !name.is_empty() && name.len() <= 15));
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn only_the_last_hook_is_mandatory() {
        let mandatory: Vec<_> = Hook::ALL.into_iter().filter(|hook| hook.is_mandatory()).collect();
        assert_eq!(mandatory, [Hook::SchedSwitch]);
        assert_eq!(Hook::ALL.last(), Some(&Hook::SchedSwitch));
    }

    #[test]
    fn hooks_with_task_arguments_read_tasks() {
        for hook in Hook::ALL {
            assert!(hook.reads_tasks() || hook.task_arguments().is_empty(), "{hook:?}");
        }
    }
}
