//! What is read of the kernel's types for the programs: the constants that they are loaded with, and what typed ones are
//! attached by.

use std::path::Path;

use headroom_agent_ebpf as abi;
use tracing::warn;

use super::Hook;
use crate::kernel::btf::{BtfError, KernelTypes, VMLINUX};

/// What typed programs are attached by: a BTF file of our tracepoints under the running kernel's own numbers, even where
/// offsets come from elsewhere. `None` where it does not describe itself.
pub(super) fn tracepoints(read: KernelTypes, from: &Path) -> Option<Vec<u8>> {
    let own = if from == Path::new(VMLINUX) {
        read
    } else {
        // Not both at the same time.
        drop(read);
        KernelTypes::read(VMLINUX.as_ref()).ok()?
    };
    own.excerpt(&Hook::ALL.map(Hook::tracepoint)).ok()
}

/// What the programs must know of this kernel, by the names of their constants.
pub(super) fn constants(kernel: &KernelTypes) -> Result<[(&'static str, u64); 8], BtfError> {
    let task = |paths: &[&str]| kernel.field("task_struct", paths);
    // Renamed in Linux 5.14.
    let state = task(&["__state", "state"])?;
    let books = books(kernel)
        .inspect_err(|error| {
            warn!(
                %error,
                "switches that this kernel does not tell of are not made good: of a virtual machine that hides some, \
                 /proc/stat alone says what CPUs did meanwhile"
            );
        })
        .ok();
    let [prio, ran, ran_at_pick] = books.unwrap_or_default();
    // A pid before Linux 6.8. Where the tracepoint is not there at all, its program is not tried either.
    let victim_is_task = kernel
        .check_arguments(Hook::MarkVictim.tracepoint(), &[0], "task_struct")
        .is_ok();
    Ok([
        (abi::GLOBAL_VICTIM_IS_TASK, u64::from(victim_is_task)),
        (abi::GLOBAL_OFF_PID, task(&["pid"])?.offset),
        (abi::GLOBAL_OFF_STATE, state.offset),
        (abi::GLOBAL_STATE_W, state.width),
        (abi::GLOBAL_HAS_BOOKS, u64::from(books.is_some())),
        (abi::GLOBAL_OFF_PRIO, prio),
        (abi::GLOBAL_OFF_RUNTIME, ran),
        (abi::GLOBAL_OFF_RUNTIME_AT_PICK, ran_at_pick),
    ])
}

/// Where the scheduler's books are of how long a task has run since it was picked: of its priority, its run time, and its
/// run time when it was picked. They serve to make good what is hidden by switches that the kernel does not tell of, and
/// nothing else: busy time is exact without them.
fn books(kernel: &KernelTypes) -> Result<[u64; 3], BtfError> {
    let offset = |path: &str, width| {
        let field = kernel.field("task_struct", &[path])?;
        if field.width == width {
            return Ok(field.offset);
        }
        Err(BtfError::NotAnInteger {
            structure: "task_struct".to_owned(),
            field: path.to_owned(),
        })
    };
    Ok([
        offset("prio", 4)?,
        offset("se.sum_exec_runtime", 8)?,
        offset("se.prev_sum_exec_runtime", 8)?,
    ])
}
