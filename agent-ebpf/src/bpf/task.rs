//! `Task` reads a `task_struct` at offsets that the loader injects: typed loads in BTF programs, probe reads in raw
//! ones.

use aya_ebpf::{Global, helpers::bpf_probe_read_kernel};

// Frozen by the loader, so the verifier knows the values, folds them, and checks a typed load against the kernel's
// own BTF: a wrong offset is refused at load, not read.
#[unsafe(no_mangle)]
static OFF_PID: Global<u64> = Global::new(0);
#[unsafe(no_mangle)]
static OFF_STATE: Global<u64> = Global::new(0);
#[unsafe(no_mangle)]
static STATE_W: Global<u64> = Global::new(0);
/// Does the kernel have the fields below? The verifier then never sees the loads of those that are not there.
#[unsafe(no_mangle)]
static HAS_BOOKS: Global<u64> = Global::new(0);
#[unsafe(no_mangle)]
static OFF_PRIO: Global<u64> = Global::new(0);
#[unsafe(no_mangle)]
static OFF_RUNTIME: Global<u64> = Global::new(0);
#[unsafe(no_mangle)]
static OFF_RUNTIME_PICK: Global<u64> = Global::new(0);
/// Does `mark_victim` hand over the task? It handed over its pid before Linux 6.8.
#[unsafe(no_mangle)]
pub(super) static VICTIM_IS_TASK: Global<u64> = Global::new(0);

/// Priorities below this one are of classes (real time, deadline, stop) that do not note when a task was picked.
const MAX_RT_PRIO: i32 = 100;

/// A task, as one kind of program may look at it.
pub(super) trait Task: Copy {
    /// The 32 bits at a byte offset.
    fn word(self, offset: u64) -> u32;
    /// The 64 bits at a byte offset.
    fn long(self, offset: u64) -> u64;

    /// The task's id; 0 for every CPU's idle task.
    #[inline(always)]
    fn pid(self) -> u32 {
        self.word(OFF_PID.load())
    }

    /// The ids of two tasks.
    #[inline(always)]
    fn pids(self, other: Self) -> (u32, u32) {
        let offset = OFF_PID.load();
        (self.word(offset), other.word(offset))
    }

    /// Is the task's state `TASK_RUNNING`: runnable or running?
    #[inline(always)]
    fn is_runnable(self) -> bool {
        let offset = OFF_STATE.load();
        if STATE_W.load() == 8 {
            self.long(offset) == 0
        } else {
            self.word(offset) == 0
        }
    }

    /// Nanoseconds that a task which is being switched out has run since it was switched in, by the scheduler's own
    /// books; 0 where it keeps none.
    #[inline(always)]
    fn ran_ns(self) -> u64 {
        if HAS_BOOKS.load() == 0 {
            return 0;
        }
        // The priority is an `int`, and below zero for deadline tasks.
        if (self.word(OFF_PRIO.load()) as i32) < MAX_RT_PRIO {
            return 0;
        }
        self.long(OFF_RUNTIME.load())
            .wrapping_sub(self.long(OFF_RUNTIME_PICK.load()))
    }
}

/// A `task_struct` pointer the verifier tracks the type of.
#[derive(Clone, Copy)]
pub(super) struct Typed(pub(super) *const u8);

/// A `task_struct` pointer that is only a number to the verifier.
#[derive(Clone, Copy)]
pub(super) struct Probed(pub(super) *const u8);

impl Task for Typed {
    #[inline(always)]
    fn word(self, offset: u64) -> u32 {
        // SAFETY: the verifier admits only loads that stay within a field of the kernel's `task_struct`, and the
        // kernel resolves faults of such loads to zero.
        unsafe { self.0.add(offset as usize).cast::<u32>().read_volatile() }
    }

    #[inline(always)]
    fn long(self, offset: u64) -> u64 {
        // SAFETY: as above.
        unsafe { self.0.add(offset as usize).cast::<u64>().read_volatile() }
    }
}

impl Task for Probed {
    #[inline(always)]
    fn word(self, offset: u64) -> u32 {
        // SAFETY: the helper survives any address; unreadable memory yields an error, hence zero: the idle task.
        unsafe { bpf_probe_read_kernel(self.0.wrapping_add(offset as usize).cast()).unwrap_or(0) }
    }

    #[inline(always)]
    fn long(self, offset: u64) -> u64 {
        // SAFETY: as above.
        unsafe { bpf_probe_read_kernel(self.0.wrapping_add(offset as usize).cast()).unwrap_or(0) }
    }
}
