//! `Task` reads a `task_struct` at offsets that the loader injects: typed loads in BTF programs, probe reads in raw
//! ones.

use aya_ebpf::{Global, helpers::bpf_probe_read_kernel};

// The loader freezes these, so the verifier folds their values and checks a typed load against the kernel's own BTF: a wrong
// offset is refused at load, not read.
#[unsafe(no_mangle)]
static OFF_PID: Global<u64> = Global::new(0);
#[unsafe(no_mangle)]
static OFF_STATE: Global<u64> = Global::new(0);
#[unsafe(no_mangle)]
static STATE_W: Global<u64> = Global::new(0);
/// 1 if the kernel has the fields below; with 0 the verifier never sees their loads.
#[unsafe(no_mangle)]
static HAS_BOOKS: Global<u64> = Global::new(0);
#[unsafe(no_mangle)]
static OFF_PRIO: Global<u64> = Global::new(0);
#[unsafe(no_mangle)]
static OFF_RUNTIME: Global<u64> = Global::new(0);
#[unsafe(no_mangle)]
static OFF_RUNTIME_PICK: Global<u64> = Global::new(0);
/// 1 if the argument of `mark_victim` is a task; before Linux 6.8 it was a pid.
#[unsafe(no_mangle)]
pub(super) static VICTIM_IS_TASK: Global<u64> = Global::new(0);

/// Priorities below this one belong to classes (real time, deadline, stop) that do not record the time of the pick.
const MAX_RT_PRIO: i32 = 100;

/// A `task_struct` as one type of program can read it.
pub(super) trait Task: Copy {
    /// Reads 32 bits at a byte offset.
    fn word(self, offset: u64) -> u32;
    /// Reads 64 bits at a byte offset.
    fn long(self, offset: u64) -> u64;

    /// The task's id; 0 for every CPU's idle task.
    #[inline(always)]
    fn pid(self) -> u32 {
        self.word(OFF_PID.load())
    }

    #[inline(always)]
    fn pids(self, other: Self) -> (u32, u32) {
        let offset = OFF_PID.load();
        (self.word(offset), other.word(offset))
    }

    /// Returns true if the task's state is `TASK_RUNNING`: runnable or running.
    #[inline(always)]
    fn is_runnable(self) -> bool {
        let offset = OFF_STATE.load();
        if STATE_W.load() == 8 {
            self.long(offset) == 0
        } else {
            self.word(offset) == 0
        }
    }

    /// Run time, in nanoseconds, of a task that is being switched out, since it was switched in. It comes from the scheduler's
    /// own accounting; 0 without it.
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

/// A `task_struct` pointer whose type the verifier tracks.
#[derive(Clone, Copy)]
pub(super) struct Typed(pub(super) *const u8);

/// A `task_struct` pointer that is a plain number to the verifier.
#[derive(Clone, Copy)]
pub(super) struct Probed(pub(super) *const u8);

impl Task for Typed {
    #[inline(always)]
    fn word(self, offset: u64) -> u32 {
        // SAFETY: the verifier accepts only loads within a field of the kernel's `task_struct`, and a faulting load
        // yields zero.
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
        // SAFETY: the helper accepts any address; unreadable memory yields an error and so zero, the pid of the idle task.
        unsafe { bpf_probe_read_kernel(self.0.wrapping_add(offset as usize).cast()).unwrap_or(0) }
    }

    #[inline(always)]
    fn long(self, offset: u64) -> u64 {
        // SAFETY: as above.
        unsafe { bpf_probe_read_kernel(self.0.wrapping_add(offset as usize).cast()).unwrap_or(0) }
    }
}
