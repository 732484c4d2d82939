//! Kernel programs that `headroom-bench` compares with the agent's own. Some do nothing; the others measure run-queue latency
//! as most tools do, with a hash of start times and task fields read by a helper.
#![expect(
    unsafe_code,
    reason = "kernel memory is read and map memory shared through pointers"
)]

use aya_ebpf::{
    Global,
    helpers::{bpf_probe_read_kernel, generated::bpf_ktime_get_ns},
    macros::{btf_tracepoint, map},
    maps::{HashMap, PerCpuArray},
    programs::BtfTracePointContext,
};

/// Tasks that may wait at the same time: the usual default of run-queue latency tools.
const WAITING: u32 = 10_240;
/// Powers of two of microseconds.
const SLOTS: u32 = 32;

// Set by the loader under the same names as in the agent's programs.
#[unsafe(no_mangle)]
static OFF_PID: Global<u64> = Global::new(0);
#[unsafe(no_mangle)]
static OFF_STATE: Global<u64> = Global::new(0);
#[unsafe(no_mangle)]
static STATE_W: Global<u64> = Global::new(0);

/// Start time of each wait by pid, in nanoseconds.
#[map]
static SINCE: HashMap<u32, u64> = HashMap::with_max_entries(WAITING, 0);
#[map]
static WAITS: PerCpuArray<u64> = PerCpuArray::with_max_entries(SLOTS, 0);

#[btf_tracepoint(function = "sched_switch")]
fn empty_switch(_ctx: BtfTracePointContext) -> i32 {
    0
}

#[btf_tracepoint(function = "sched_wakeup")]
fn empty_wakeup(_ctx: BtfTracePointContext) -> i32 {
    0
}

#[btf_tracepoint(function = "sched_wakeup_new")]
fn empty_wakenew(_ctx: BtfTracePointContext) -> i32 {
    0
}

#[btf_tracepoint(function = "sched_switch")]
fn hash_switch(ctx: BtfTracePointContext) -> i32 {
    let (prev, next) = (ctx.arg(1), ctx.arg(2));
    if is_runnable(prev) {
        queued(prev);
    }
    let pid = pid(next);
    // SAFETY: an entry belongs to one task, which becomes runnable once before it runs.
    let Some(since) = (unsafe { SINCE.get(pid) }).copied() else {
        return 0;
    };
    let waited_us = now_ns().saturating_sub(since) / 1_000;
    let slot = (u64::BITS - waited_us.leading_zeros()).min(SLOTS - 1);
    if let Some(count) = WAITS.get_ptr_mut(slot) {
        // SAFETY: per-CPU memory, written by `sched_switch` alone.
        unsafe { *count += 1 };
    }
    // Another CPU may have removed it already.
    let _gone = SINCE.remove(pid);
    0
}

#[btf_tracepoint(function = "sched_wakeup")]
fn hash_wakeup(ctx: BtfTracePointContext) -> i32 {
    queued(ctx.arg(0));
    0
}

#[btf_tracepoint(function = "sched_wakeup_new")]
fn hash_wakenew(ctx: BtfTracePointContext) -> i32 {
    queued(ctx.arg(0));
    0
}

/// Records that `task` waits from now on.
#[inline(always)]
fn queued(task: *const u8) {
    let pid = pid(task);
    if pid != 0 {
        // A full map loses the sample.
        let _lost = SINCE.insert(pid, now_ns(), 0);
    }
}

#[inline(always)]
fn pid(task: *const u8) -> u32 {
    field(task, OFF_PID.load())
}

#[inline(always)]
fn is_runnable(task: *const u8) -> bool {
    if STATE_W.load() == 8 {
        field::<u64>(task, OFF_STATE.load()) == 0
    } else {
        field::<u32>(task, OFF_STATE.load()) == 0
    }
}

/// A field of a task; zero if memory cannot be read.
#[inline(always)]
fn field<T: Default>(task: *const u8, offset: u64) -> T {
    // SAFETY: the helper survives any address, and the types are integers.
    unsafe { bpf_probe_read_kernel(task.wrapping_add(offset as usize).cast()) }.unwrap_or_default()
}

#[inline(always)]
fn now_ns() -> u64 {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { bpf_ktime_get_ns() }
}

/// The kernel offers tracing helpers only to GPL-compatible programs.
#[unsafe(no_mangle)]
#[unsafe(link_section = "license")]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

/// Never reached: the programs neither index nor unwrap, and the verifier would refuse the loop.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
