//! Keeps the agent's heap small: `bound` limits what the allocator keeps of what was freed, and `trim` returns it.
#![expect(unsafe_code, reason = "the allocator has no safe interface for this")]

#[cfg(target_env = "gnu")]
use libc::{M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, c_int};

/// The most that the allocator keeps at the end of its heap, and what it takes from the system and returns one by one, in
/// bytes. By itself it would set both by the largest block that was ever freed, which is the kernel's BTF.
#[cfg(target_env = "gnu")]
const KEPT_BYTES: c_int = 1 << 20;
/// Heaps of which each keeps what was freed. A thread would have its own; ours allocate too little to be in each other's way.
#[cfg(target_env = "gnu")]
const HEAPS: c_int = 1;

/// Limits what the allocator keeps of what was freed. To be called while the process has one thread.
pub(crate) fn bound() {
    #[cfg(target_env = "gnu")]
    for (limit, value) in [
        (M_ARENA_MAX, HEAPS),
        (M_MMAP_THRESHOLD, KEPT_BYTES),
        (M_TRIM_THRESHOLD, KEPT_BYTES),
    ] {
        // SAFETY: takes no pointers, and may be called at any time.
        unsafe {
            libc::mallopt(limit, value);
        }
    }
}

/// Returns free pages of the heap to the system. Loading the kernel programs leaves megabytes of them behind.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers and may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
