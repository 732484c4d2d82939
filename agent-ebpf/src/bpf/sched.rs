//! Bodies of the scheduler hooks: `switch` runs at a context switch, `wakeup` at a wake-up.
//!
//! These hooks run hundreds of thousands of times a second, so the code handles the most frequent cases first. Maps are
//! looked up before arguments are read, because a lookup leaves the compiler few registers. A switch with nothing to record
//! returns after a dozen loads without a call: returns are expensive on kernels that mitigate speculation at them. The clock
//! is read last.

use aya_ebpf::helpers::generated::bpf_ktime_get_ns;
use headroom_agent_ebpf::{
    Config, CpuRing,
    ring::UNKNOWN,
    stamp::{pack, ticks},
};

use super::{maps, task::Task};

/// Marks a switch at which no sampled task begins to run. It is a value and not an `Option`: the stack slot of `None` stays
/// unwritten, the compiler reads the slot before the tag, and Linux 5.10 refuses such a program.
const NO_WAIT: u64 = u64::MAX;

/// CLOCK_MONOTONIC in nanoseconds. It is the most expensive call here, so every early return comes before it.
#[inline(always)]
pub(super) fn now_ns() -> u64 {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { bpf_ktime_get_ns() }
}

/// Body of `sched_switch`: `prev` leaves this CPU and `next` enters it. `is_preempted` returns true if `prev` did not yield; it
/// is a closure so that the argument is loaded only for sampled tasks.
#[inline(always)]
pub(super) fn switch<T: Task>(
    ring: &mut CpuRing,
    config: &Config,
    is_preempted: impl Fn() -> bool,
    prev: T,
    next: T,
) {
    // Outside `open` and `close`: one aligned word is never half-written, and it is the only store of most switches.
    ring.nsw = ring.nsw.wrapping_add(1);
    if passes_by(ring, config, prev, next) {
        return;
    }
    // Read again: values kept from above would occupy registers in the switches that end there.
    let (prev_pid, next_pid) = T::pids(prev, next);
    // The idle tasks share pid 0 and with it one cell: they are never stamped.
    let (was_busy, is_busy) = (prev_pid != 0, next_pid != 0);
    let leaves = was_busy && config.watches(prev_pid);
    let enters = is_busy && config.watches(next_pid);

    let requeued = leaves && config.samples(prev_pid) && (is_preempted() || prev.is_runnable());
    if leaves && !requeued {
        // A wake-up may have stamped it while it ran. A sleeping task must not keep that stamp.
        maps::take_stamp(prev_pid);
    }
    let stamped = if enters { maps::take_stamp(next_pid) } else { 0 };
    let turns = was_busy != is_busy || !ring.agrees(was_busy);
    if !(turns || requeued || stamped != 0) {
        return;
    }

    let now = now_ns();
    if requeued {
        // After `next`'s stamp was consumed: both tasks may share one cell.
        maps::set_stamp(prev_pid, pack(prev_pid, ticks(now)));
    }
    let wait = if stamped == 0 {
        NO_WAIT
    } else {
        config.waited(stamped, next_pid, ticks(now)).unwrap_or(NO_WAIT)
    };
    if !turns && wait == NO_WAIT {
        return;
    }
    maps::open(ring);
    if turns {
        if !ring.agrees(was_busy) {
            catch_up(ring, config, now, prev, was_busy);
        }
        if was_busy != is_busy {
            ring.turn(now, is_busy);
        }
    }
    if wait != NO_WAIT {
        ring.add_wait(now, wait);
        maps::count_wait(config.hist_idx, wait);
    }
    maps::close(ring);
}

/// Returns true if the CPU stays busy and both tasks have no stamp. This holds for most switches, which record nothing else.
#[inline(always)]
fn passes_by<T: Task>(ring: &CpuRing, config: &Config, prev: T, next: T) -> bool {
    let (prev, next) = T::pids(prev, next);
    prev != 0 && next != 0 && ring.agrees(true) && !config.watches(prev) && !config.watches(next)
}

/// Sets the ring's state up to `now`: at the first switch, and after a missed one. Some hypervisors run old address spaces on
/// old kernel text, where tracepoints are never switched on. The function is not inlined, as it is long and rarely called.
#[inline(never)]
fn catch_up<T: Task>(ring: &mut CpuRing, config: &Config, now: u64, prev: T, was_busy: bool) {
    if ring.state == UNKNOWN {
        ring.settle(now, was_busy);
    } else {
        let ran_ns = if config.trusts_books == 0 {
            0
        } else {
            prev.ran_ns()
        };
        ring.correct(now, was_busy, ran_ns);
    }
}

/// Body of the wake-up hooks: stamps `task` if it is sampled.
#[inline(always)]
pub(super) fn wakeup<T: Task>(config: &Config, task: T) {
    let pid = task.pid();
    if pid != 0 && config.samples(pid) {
        maps::set_stamp(pid, pack(pid, ticks(now_ns())));
    }
}
