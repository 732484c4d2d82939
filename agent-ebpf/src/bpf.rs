//! The kernel programs: for each hook one typed BTF tracepoint and one raw tracepoint, which share their body. Hooks of the
//! scheduler are here, hooks of rare events in `event_counters`.
#![expect(
    unsafe_code,
    reason = "kernel memory is read and map memory shared through pointers"
)]

mod event_counters;
mod maps;
mod sched;
mod task;

use aya_ebpf::{
    macros::{btf_tracepoint, raw_tracepoint},
    programs::{BtfTracePointContext, RawTracePointContext},
};

use self::task::{Probed, Typed};

// Arguments, Linux 5.8 to 6.18: sched_switch(bool preempt, prev, next, ..), sched_wakeup(task), sched_wakeup_new(task).

#[btf_tracepoint(function = "sched_switch")]
fn hr_switch(ctx: BtfTracePointContext) -> i32 {
    if let Some(ring) = maps::ring()
        && let Some(config) = maps::config()
    {
        let (prev, next) = (Typed(ctx.arg(1)), Typed(ctx.arg(2)));
        sched::switch(ring, config, || ctx.arg::<u64>(0) as u8 != 0, prev, next);
    }
    0
}

#[raw_tracepoint(tracepoint = "sched_switch")]
fn hr_switch_raw(ctx: RawTracePointContext) -> i32 {
    if let Some(ring) = maps::ring()
        && let Some(config) = maps::config()
    {
        let (prev, next) = (Probed(ctx.arg(1)), Probed(ctx.arg(2)));
        sched::switch(ring, config, || ctx.arg::<u64>(0) as u8 != 0, prev, next);
    }
    0
}

#[btf_tracepoint(function = "sched_wakeup")]
fn hr_wakeup(ctx: BtfTracePointContext) -> i32 {
    if let Some(config) = maps::config() {
        sched::wakeup(config, Typed(ctx.arg(0)));
    }
    0
}

#[raw_tracepoint(tracepoint = "sched_wakeup")]
fn hr_wakeup_raw(ctx: RawTracePointContext) -> i32 {
    if let Some(config) = maps::config() {
        sched::wakeup(config, Probed(ctx.arg(0)));
    }
    0
}

#[btf_tracepoint(function = "sched_wakeup_new")]
fn hr_wakenew(ctx: BtfTracePointContext) -> i32 {
    if let Some(config) = maps::config() {
        sched::wakeup(config, Typed(ctx.arg(0)));
    }
    0
}

#[raw_tracepoint(tracepoint = "sched_wakeup_new")]
fn hr_wakenew_raw(ctx: RawTracePointContext) -> i32 {
    if let Some(config) = maps::config() {
        sched::wakeup(config, Probed(ctx.arg(0)));
    }
    0
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
