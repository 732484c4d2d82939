//! The kernel programs: for each hook one typed BTF tracepoint and one raw tracepoint, which share their body.
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
// mark_victim(int pid) up to 6.7, mark_victim(task, uid) from 6.8.

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

#[btf_tracepoint(function = "mark_victim")]
fn hr_victim(ctx: BtfTracePointContext) -> i32 {
    event_counters::victim_chosen(&ctx, ctx.arg::<u64>(0), Typed(ctx.arg(0)));
    0
}

#[raw_tracepoint(tracepoint = "mark_victim")]
fn hr_victim_raw(ctx: RawTracePointContext) -> i32 {
    event_counters::victim_chosen(&ctx, ctx.arg::<u64>(0), Probed(ctx.arg(0)));
    0
}

/// A hook whose arguments are of no interest: its typed program and the raw fallback.
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

counted!(
    "mm_vmscan_direct_reclaim_begin",
    hr_dr_begin,
    hr_dr_begin_raw,
    event_counters::reclaim_begins
);
counted!(
    "mm_vmscan_direct_reclaim_end",
    hr_dr_end,
    hr_dr_end_raw,
    event_counters::reclaim_ends
);
counted!(
    "cgroup_mkdir",
    hr_cg_mkdir,
    hr_cg_mkdir_raw,
    event_counters::cgroup_made
);
counted!(
    "cgroup_rmdir",
    hr_cg_rmdir,
    hr_cg_rmdir_raw,
    event_counters::cgroup_removed
);

/// A hook that looks at its second argument: its typed program and the raw fallback.
macro_rules! stepped {
    ($tracepoint:literal, $typed:ident, $raw:ident) => {
        #[btf_tracepoint(function = $tracepoint)]
        fn $typed(ctx: BtfTracePointContext) -> i32 {
            event_counters::cpu_steps(ctx.arg::<u64>(1));
            0
        }

        #[raw_tracepoint(tracepoint = $tracepoint)]
        fn $raw(ctx: RawTracePointContext) -> i32 {
            event_counters::cpu_steps(ctx.arg::<u64>(1));
            0
        }
    };
}

// cpuhp_enter(cpu, int target, ..), cpuhp_exit(cpu, int state, ..).
stepped!("cpuhp_enter", hr_hp_enter, hr_hp_enter_raw);
stepped!("cpuhp_exit", hr_hp_exit, hr_hp_exit_raw);

/// Tracing helpers are offered to GPL-compatible programs only.
#[unsafe(no_mangle)]
#[unsafe(link_section = "license")]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

/// Never reached: the programs neither index nor unwrap, and the verifier would refuse the loop.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
