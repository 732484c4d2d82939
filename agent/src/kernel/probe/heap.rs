//! Returns free heap pages to the system at the start, after the loading of the kernel programs.
#![expect(unsafe_code, reason = "the allocator has no safe interface for this")]

/// Returns free heap pages to the system. Parsing the kernel's BTF leaves tens of megabytes of them behind, which the
/// allocator would keep for the life of the process.
pub(super) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers and may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
