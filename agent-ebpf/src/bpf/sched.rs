//! What happens at a context switch and at a wake-up.

use aya_ebpf::{EbpfContext, helpers::generated::bpf_ktime_get_ns};
use aya_log_ebpf::debug;
use headroom_agent_ebpf::{
    CpuRing,
    ring::UNKNOWN,
    stamp::{owner, pack, ticks},
};

use super::{maps, task::Task};

/// CLOCK_MONOTONIC in nanoseconds: the dearest call here, so everything that can return before it does.
#[inline(always)]
fn now_ns() -> u64 {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { bpf_ktime_get_ns() }
}

/// `prev` leaves this CPU and `next` enters it; `preempt` says that `prev` did not go by its own will.
#[inline(always)]
pub(super) fn switch<T: Task>(ctx: &impl EbpfContext, preempt: u64, prev: T, next: T) {
    let (prev_pid, next_pid) = (prev.pid(), next.pid());
    let (Some(ring), Some(config)) = (maps::ring(), maps::config()) else {
        return;
    };
    ring.nsw = ring.nsw.wrapping_add(1);

    // The idle tasks share pid 0 and with it one cell: they are never stamped.
    let (was_busy, is_busy) = (prev_pid != 0, next_pid != 0);
    let leaves = was_busy && config.watches(prev_pid);
    let enters = is_busy && config.watches(next_pid);
    let turns = was_busy != is_busy || !ring.agrees(was_busy);
    if !(turns || leaves || enters) {
        return;
    }

    let requeued = leaves && config.samples(prev_pid) && (preempt as u8 != 0 || prev.is_runnable());
    if leaves && !requeued {
        // A wake-up may have stamped it while it ran. Asleep it must not keep that stamp.
        take_stamp(prev_pid);
    }
    let stamped = if enters { take_stamp(next_pid) } else { 0 };
    if !(turns || requeued || stamped != 0) {
        return;
    }

    let now = now_ns();
    if requeued {
        maps::set_stamp(prev_pid, pack(prev_pid, ticks(now)));
    }
    let wait = if stamped == 0 {
        None
    } else {
        config.waited(stamped, next_pid, ticks(now))
    };
    if let Some(wait) = wait {
        maps::count_wait(config.hist_idx, wait);
    }
    if turns || wait.is_some() {
        let was_unknown = ring.state == UNKNOWN;
        ring.open();
        if turns {
            turn(ring, now, prev, was_busy, is_busy);
        }
        if let Some(wait) = wait {
            ring.add_wait(now, wait);
        }
        ring.close();
        if was_unknown {
            report_first(ctx, prev_pid);
        }
    }
}

#[inline(always)]
fn turn<T: Task>(ring: &mut CpuRing, now: u64, prev: T, was_busy: bool, is_busy: bool) {
    if ring.state == UNKNOWN {
        ring.settle(now, was_busy);
    } else if !ring.agrees(was_busy) {
        // Some hypervisors run old address spaces on old kernel text, where tracepoints are never switched on.
        ring.correct(now, was_busy, prev.ran_ns());
    }
    if was_busy != is_busy {
        ring.turn(now, is_busy);
    }
}

/// `task` becomes runnable.
#[inline(always)]
pub(super) fn wakeup<T: Task>(task: T) {
    let pid = task.pid();
    let Some(config) = maps::config() else { return };
    if pid != 0 && config.samples(pid) {
        maps::set_stamp(pid, pack(pid, ticks(now_ns())));
    }
}

/// The stamp of `pid`, zero if it has none; its cell is empty afterwards. Other tasks' stamps stay.
#[inline(always)]
fn take_stamp(pid: u32) -> u64 {
    match maps::stamp(pid) {
        Some(stamp) if owner(stamp) == pid => {
            maps::set_stamp(pid, 0);
            stamp
        }
        Some(_) | None => 0,
    }
}

/// Once per CPU and attachment. Out of line: it is long, and the switch path should stay in few cache lines.
#[inline(never)]
fn report_first(ctx: &impl EbpfContext, prev_pid: u32) {
    debug!(ctx, "first switch on a cpu: it ran pid {} before", prev_pid);
}
