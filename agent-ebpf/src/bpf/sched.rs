//! Bodies of the scheduler hooks: `switch` runs at a context switch, `wakeup` at a wake-up.
//!
//! These hooks run hundreds of thousands of times a second, so the code handles the most frequent cases first. Maps are
//! looked up before arguments are read, since a lookup leaves the compiler few registers. A switch with nothing to
//! record returns after a dozen loads and calls nothing, for a return is dear where the kernel guards it. The clock is
//! read last.

use aya_ebpf::helpers::generated::bpf_ktime_get_ns;
use headroom_agent_ebpf::{
    Config, CpuRing,
    ring::UNKNOWN,
    stamp::{pack, ticks},
};

use super::{maps, task::Task};

/// In place of a wait: no task that was sampled begins to run. Not an `Option`, which leaves its place on the stack unwritten where it
/// holds none: the compiler reads the place before it asks, and Linux 5.10 refuses a program that does.
const NO_WAIT: u64 = u64::MAX;

/// CLOCK_MONOTONIC in nanoseconds: the dearest call here, so everything that can return before it does.
#[inline(always)]
pub(super) fn now_ns() -> u64 {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { bpf_ktime_get_ns() }
}

/// `prev` leaves this CPU and `next` enters it; `is_preempted` says that `prev` did not go by its own will. It is a closure,
/// so that the argument is loaded only for tasks that are sampled.
#[inline(always)]
pub(super) fn switch<T: Task>(
    ring: &mut CpuRing,
    config: &Config,
    is_preempted: impl Fn() -> bool,
    prev: T,
    next: T,
) {
    // Outside `open` and `close`: one aligned word is never half-written, and of most switches it is the only store.
    ring.nsw = ring.nsw.wrapping_add(1);
    if passes_by(ring, config, prev, next) {
        return;
    }
    // Read once more: kept from above they would take registers from the switches that end there.
    let (prev_pid, next_pid) = T::pids(prev, next);
    // The idle tasks share pid 0 and with it one cell: they are never stamped.
    let (was_busy, is_busy) = (prev_pid != 0, next_pid != 0);
    let leaves = was_busy && config.watches(prev_pid);
    let enters = is_busy && config.watches(next_pid);

    let requeued = leaves && config.samples(prev_pid) && (is_preempted() || prev.is_runnable());
    if leaves && !requeued {
        // A wake-up may have stamped it while it ran. Asleep it must not keep that stamp.
        maps::take_stamp(prev_pid);
    }
    let stamped = if enters { maps::take_stamp(next_pid) } else { 0 };
    let turns = was_busy != is_busy || !ring.agrees(was_busy);
    if !(turns || requeued || stamped != 0) {
        return;
    }

    let now = now_ns();
    if requeued {
        // After the stamp of `next` was taken: both tasks may use one cell.
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

/// Does the CPU stay busy with tasks that hold no stamps? So it is at most switches, of which nothing is noted.
#[inline(always)]
fn passes_by<T: Task>(ring: &CpuRing, config: &Config, prev: T, next: T) -> bool {
    let (prev, next) = T::pids(prev, next);
    prev != 0 && next != 0 && ring.agrees(true) && !config.watches(prev) && !config.watches(next)
}

/// The ring learns what the CPU did until `now`: at the first switch, and after one the kernel did not tell of. Some
/// hypervisors run old address spaces on old kernel text, where tracepoints are never switched on. Out of line: it is
/// long and rare.
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

/// `task` becomes runnable.
#[inline(always)]
pub(super) fn wakeup<T: Task>(config: &Config, task: T) {
    let pid = task.pid();
    if pid != 0 && config.samples(pid) {
        maps::set_stamp(pid, pack(pid, ticks(now_ns())));
    }
}
