//! Reads the kernel's types for the programs: the constants that they are loaded with, and the BTF excerpt that attaches typed
//! programs.

use std::path::Path;

use headroom_agent_ebpf as abi;
use headroom_kit::log::chain;
use tracing::warn;

use super::Hook;
use crate::kernel::btf::{BtfError, KernelTypes, VMLINUX};

/// BTF excerpt with our tracepoints under the running kernel's own type ids, even if offsets come from another file. `None`
/// if the running kernel has no BTF.
pub(super) fn tracepoints(read: KernelTypes, from: &Path) -> Option<Vec<u8>> {
    let own = if from == Path::new(VMLINUX) {
        read
    } else {
        // Frees the first file before the second is read.
        drop(read);
        KernelTypes::read(VMLINUX.as_ref()).ok()?
    };
    Some(own.excerpt(&Hook::ALL.map(Hook::tracepoint)))
}

/// Constants of the programs for this kernel, by name.
pub(super) fn constants(kernel: &KernelTypes) -> Result<[(&'static str, u64); 8], BtfError> {
    let task = |paths: &[&str]| kernel.field("task_struct", paths);
    // Renamed in Linux 5.14.
    let state = task(&["__state", "state"])?;
    let books = books(kernel)
        .inspect_err(|error| {
            warn!(
                error = %chain(error),
                "cannot correct busy time after missed context switches, which occur on some virtual machines; only \
                 /proc/stat corrects it there"
            );
        })
        .ok();
    let [prio, ran, ran_at_pick] = books.unwrap_or_default();
    // A pid before Linux 6.8. Without the tracepoint its program is not loaded.
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

/// Offsets of the fields from which the run time since a task was picked follows: its priority, its run time, and its run time
/// when it was picked. They only correct busy time after missed switches; it is exact without them otherwise.
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
