//! Bodies of the rare hooks: they count direct reclaim, OOM victims, cgroup changes and CPUs going offline. An OOM
//! victim is also sent to the agent at once, through a ring buffer.

use aya_ebpf::{EbpfContext, helpers::bpf_get_current_pid_tgid};
use aya_log_ebpf::debug;
use headroom_agent_ebpf::{
    Victim,
    stamp::{pack, ticks},
};

use super::{
    maps,
    sched::now_ns,
    task::{Task, VICTIM_IS_TASK},
};

/// The running thread; 0 in the idle task, which never reclaims.
#[inline(always)]
fn current() -> u32 {
    bpf_get_current_pid_tgid() as u32
}

/// The running task begins to reclaim memory for the whole machine.
#[inline(always)]
pub(super) fn reclaim_begins() {
    let pid = current();
    maps::set_reclaim_stamp(pid, pack(pid, ticks(now_ns())));
}

/// It has reclaimed enough, or given up.
#[inline(always)]
pub(super) fn reclaim_ends() {
    let pid = current();
    if let (Some(memory), Some(stamp)) = (maps::memory(), maps::reclaim_stamp(pid)) {
        memory.end_reclaim(stamp, pid, ticks(now_ns()));
        // Left there, it would count once more at an end whose beginning was not seen.
        maps::set_reclaim_stamp(pid, 0);
    }
}

/// The OOM killer chooses a task. `argument` is the task, or its pid before Linux 6.8.
#[inline(always)]
pub(super) fn victim_chosen<T: Task>(ctx: &impl EbpfContext, argument: u64, task: T) {
    let pid = if VICTIM_IS_TASK.load() == 0 {
        argument as u32
    } else {
        task.pid()
    };
    let now = now_ns();
    if let Some(memory) = maps::memory() {
        memory.add_victim(pid, now);
    }
    maps::tell_victim(&Victim {
        at_ns: now,
        pid,
        pad: 0,
    });
    debug!(ctx, "the oom killer chose pid {}", pid);
}

/// A cgroup is there.
#[inline(always)]
pub(super) fn cgroup_made() {
    if let Some(changes) = maps::changes() {
        changes.cgroup_mkdir = changes.cgroup_mkdir.wrapping_add(1);
    }
}

/// A cgroup is gone.
#[inline(always)]
pub(super) fn cgroup_removed() {
    if let Some(changes) = maps::changes() {
        changes.cgroup_rmdir = changes.cgroup_rmdir.wrapping_add(1);
    }
}

/// The kernel's number for a CPU that is off, in all versions.
const CPUHP_OFFLINE: u32 = 0;

/// A CPU takes a step towards a state. Modules that are loaded run their callbacks as steps of CPUs that are online and
/// stay so; only those on the way down count.
#[inline(always)]
pub(super) fn cpu_steps(state: u64) {
    if state as u32 != CPUHP_OFFLINE {
        return;
    }
    if let Some(changes) = maps::changes() {
        changes.cpuhp = changes.cpuhp.wrapping_add(1);
    }
}
