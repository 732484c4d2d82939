//! Keeps the agent's heap small: `bound` limits the freed memory that the allocator keeps, and `trim` returns it to the
//! system.
//!
//! Both call glibc. With musl, in images, there is nothing to set: it has one heap for all threads, maps each block of 128 KiB
//! or more by itself and unmaps it when freed, and unmaps a group of smaller blocks when the last one is freed.
#![cfg_attr(
    target_env = "gnu",
    expect(unsafe_code, reason = "the allocator has no safe interface for this")
)]

#[cfg(target_env = "gnu")]
use libc::{M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, c_int};

/// Limit in bytes of free memory at the end of the heap, and size from which blocks are mapped one by one. By default the
/// allocator raises both to the largest block that was ever freed, here the kernel's BTF.
#[cfg(target_env = "gnu")]
const KEPT_BYTES: c_int = 1 << 20;
/// Number of heaps, each with freed memory of its own. By default a thread has its own heap; the agent's threads allocate too
/// little to contend for one.
#[cfg(target_env = "gnu")]
const HEAPS: c_int = 1;

/// Limits the freed memory that the allocator keeps. Call it while the process has one thread.
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

/// Returns free pages of the heap to the system; loading the kernel programs leaves megabytes of them.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers and may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
