//! Programs, bodies and maps of the hooks of rare events: direct reclaim, OOM victims, cgroups created or removed, CPUs
//! going offline. Each counts in a per-CPU map. OOM victims are also sent to the agent through a ring buffer.

use aya_ebpf::{
    EbpfContext,
    helpers::bpf_get_current_pid_tgid,
    macros::{btf_tracepoint, map, raw_tracepoint},
    maps::{Array, PerCpuArray, RingBuf},
    programs::{BtfTracePointContext, RawTracePointContext},
};
use aya_log_ebpf::debug;
use headroom_agent_ebpf::{
    Changes, Memory, Victim,
    events::OOM_BYTES,
    stamp::{pack, ticks},
};

use super::{
    sched::now_ns,
    task::{Probed, Task, Typed, VICTIM_IS_TASK},
};

/// Cells of the start times of direct reclaims; a task uses cell `pid % DRS_CAPACITY`. The map is smaller than that of
/// waits: few tasks reclaim at the same time.
const DRS_CAPACITY: u32 = 1 << 12;

#[map]
static MEM: PerCpuArray<Memory> = PerCpuArray::with_max_entries(1, 0);
#[map]
static DRS: Array<u64> = Array::with_max_entries(DRS_CAPACITY, 0);
#[map]
static OOM: RingBuf = RingBuf::with_byte_size(OOM_BYTES, 0);
#[map]
static CHG: PerCpuArray<Changes> = PerCpuArray::with_max_entries(1, 0);

/// Declares the typed program of a hook and its raw fallback. The body gets no argument of the tracepoint.
macro_rules! counted {
    ($tracepoint:literal, $typed:ident, $raw:ident, $body:path) => {
        #[btf_tracepoint(function = $tracepoint)]
        fn $typed(_ctx: BtfTracePointContext) -> i32 {
            $body();
            0
        }

        #[raw_tracepoint(tracepoint = $tracepoint)]
        fn $raw(_ctx: RawTracePointContext) -> i32 {
            $body();
            0
        }
    };
}

/// Declares the typed program of a hook and its raw fallback. The body gets the second argument of the tracepoint.
macro_rules! stepped {
    ($tracepoint:literal, $typed:ident, $raw:ident) => {
        #[btf_tracepoint(function = $tracepoint)]
        fn $typed(ctx: BtfTracePointContext) -> i32 {
            cpu_steps(ctx.arg::<u64>(1));
            0
        }

        #[raw_tracepoint(tracepoint = $tracepoint)]
        fn $raw(ctx: RawTracePointContext) -> i32 {
            cpu_steps(ctx.arg::<u64>(1));
            0
        }
    };
}

counted!(
    "mm_vmscan_direct_reclaim_begin",
    hr_dr_begin,
    hr_dr_begin_raw,
    reclaim_begins
);
counted!(
    "mm_vmscan_direct_reclaim_end",
    hr_dr_end,
    hr_dr_end_raw,
    reclaim_ends
);

// mark_victim(int pid) up to Linux 6.7, mark_victim(task, uid) from 6.8.

#[btf_tracepoint(function = "mark_victim")]
fn hr_victim(ctx: BtfTracePointContext) -> i32 {
    victim_chosen(&ctx, ctx.arg::<u64>(0), Typed(ctx.arg(0)));
    0
}

#[raw_tracepoint(tracepoint = "mark_victim")]
fn hr_victim_raw(ctx: RawTracePointContext) -> i32 {
    victim_chosen(&ctx, ctx.arg::<u64>(0), Probed(ctx.arg(0)));
    0
}

counted!("cgroup_mkdir", hr_cg_mkdir, hr_cg_mkdir_raw, cgroup_created);
counted!("cgroup_rmdir", hr_cg_rmdir, hr_cg_rmdir_raw, cgroup_removed);

// cpuhp_enter(cpu, int target, ..), cpuhp_exit(cpu, int state, ..).
stepped!("cpuhp_enter", hr_hp_enter, hr_hp_enter_raw);
stepped!("cpuhp_exit", hr_hp_exit, hr_hp_exit_raw);

/// Memory counters of this CPU.
#[inline(always)]
fn memory() -> Option<&'static mut Memory> {
    // SAFETY: the hooks that use it run in task context with preemption off, so no other reference exists on this CPU.
    unsafe { MEM.get_ptr_mut(0)?.as_mut() }
}

/// Counters of cgroup and CPU changes of this CPU.
#[inline(always)]
fn changes() -> Option<&'static mut Changes> {
    // SAFETY: as above.
    unsafe { CHG.get_ptr_mut(0)?.as_mut() }
}

/// Start of the reclaim of `pid`, or of a task that shares its cell.
#[inline(always)]
fn reclaim_stamp(pid: u32) -> Option<u64> {
    // SAFETY: aligned and within the map; other CPUs write whole values only.
    Some(unsafe { DRS.get_ptr(pid % DRS_CAPACITY)?.read_volatile() })
}

/// Sets the stamp in the cell of `pid`; zero clears it.
#[inline(always)]
fn set_reclaim_stamp(pid: u32, stamp: u64) {
    if let Some(cell) = DRS.get_ptr_mut(pid % DRS_CAPACITY) {
        // SAFETY: as above. Two CPUs that write at once lose one sample.
        unsafe { cell.write_volatile(stamp) }
    }
}

/// Thread id of the running task; 0 in the idle task, which never reclaims.
#[inline(always)]
fn current() -> u32 {
    bpf_get_current_pid_tgid() as u32
}

/// The running task begins to reclaim memory for the whole machine.
#[inline(always)]
fn reclaim_begins() {
    let pid = current();
    set_reclaim_stamp(pid, pack(pid, ticks(now_ns())));
}

/// The running task has reclaimed enough, or given up.
#[inline(always)]
fn reclaim_ends() {
    let pid = current();
    if let (Some(memory), Some(stamp)) = (memory(), reclaim_stamp(pid)) {
        memory.end_reclaim(stamp, pid, ticks(now_ns()));
        // Without this, an end whose begin was missed would count the old stamp again.
        set_reclaim_stamp(pid, 0);
    }
}

/// The OOM killer chooses a task. `argument` is the task, or its pid before Linux 6.8.
#[inline(always)]
fn victim_chosen<T: Task>(ctx: &impl EbpfContext, argument: u64, task: T) {
    let pid = if VICTIM_IS_TASK.load() == 0 {
        argument as u32
    } else {
        task.pid()
    };
    let now = now_ns();
    if let Some(memory) = memory() {
        memory.add_victim(pid, now);
    }
    let victim = Victim {
        at_ns: now,
        pid,
        pad: 0,
    };
    // A full buffer drops the victim's pid; the counter above still includes it.
    let _is_sent = OOM.output::<Victim>(&victim, 0).is_ok();
    debug!(ctx, "the oom killer chose pid {}", pid);
}

#[inline(always)]
fn cgroup_created() {
    if let Some(changes) = changes() {
        changes.cgroup_mkdir = changes.cgroup_mkdir.wrapping_add(1);
    }
}

#[inline(always)]
fn cgroup_removed() {
    if let Some(changes) = changes() {
        changes.cgroup_rmdir = changes.cgroup_rmdir.wrapping_add(1);
    }
}

/// Number of the CPU hotplug state "offline", in all kernel versions.
const CPUHP_OFFLINE: u32 = 0;

/// A CPU takes a step towards a hotplug state. Only steps towards offline count: kernel modules run their callbacks as
/// steps of CPUs that stay online.
#[inline(always)]
fn cpu_steps(state: u64) {
    if state as u32 != CPUHP_OFFLINE {
        return;
    }
    if let Some(changes) = changes() {
        changes.offline_steps = changes.offline_steps.wrapping_add(1);
    }
}
