//! The ABI between Headroom's kernel programs and the agent: names, sizes, layouts and the pure rules on them.
//!
//! ```text
//!   sched_wakeup(_new) ── stamp ──> ENQ ──┐ wait = switch-in - stamp
//!   sched_switch ── idle <-> busy ────────┴──> CPU (one ring of windows per CPU) + RQH (histogram of waits)
//!   rare events (direct reclaim, OOM, cgroups, CPUs) ── counters ──> MEM, CHG; pids of OOM victims ──> OOM
//!   agent ── salt, mask, generation ──> CFG;  agent <── reads CPU and RQH once to four times a second, MEM, OOM and CHG four times
//! ```
//!
//! The rules that both sides share ([`ring`], [`stamp`], [`histogram`], [`events`]) are ordinary Rust, compiled into the
//! kernel programs and tested on the host.
//!
//! The kernel programs (the binary of this package) are dual licensed, MIT or GPL-2.0-only, because tracing helpers
//! are offered to GPL-compatible programs only; see `LICENSE-MIT` and `LICENSE-GPL`.
#![no_std]

pub mod events;
pub mod histogram;
pub mod ring;
pub mod stamp;

pub use events::{Changes, Memory, Victim};
pub use ring::{CpuRing, Slot};
pub use stamp::Config;

/// Per-CPU array of one [`CpuRing`].
pub const MAP_CPU: &str = "CPU";
/// Array of one [`Config`], written by the agent.
pub const MAP_CFG: &str = "CFG";
/// Array of [`ENQ_CAPACITY`] enqueue stamps.
pub const MAP_ENQ: &str = "ENQ";
/// Per-CPU array of [`RQH_GENERATIONS`] histograms of [`histogram::BUCKETS`] counters.
pub const MAP_RQH: &str = "RQH";

/// Cells of the stamp array, half a MiB. A task uses cell `pid % ENQ_CAPACITY`; two tasks that share a cell lose samples.
pub const ENQ_CAPACITY: u32 = 1 << 16;
/// Histogram generations: the kernel fills one while the agent reads the other.
pub const RQH_GENERATIONS: u32 = 2;

/// Byte offset of `task_struct.pid`, set by the loader.
pub const GLOBAL_OFF_PID: &str = "OFF_PID";
/// Byte offset of `task_struct.__state` (`state` before Linux 5.14), set by the loader.
pub const GLOBAL_OFF_STATE: &str = "OFF_STATE";
/// Width in bytes, 4 or 8, of the field at [`GLOBAL_OFF_STATE`], set by the loader.
pub const GLOBAL_STATE_W: &str = "STATE_W";
/// 1 if the kernel has the three fields below, which correct busy time after missed switches; set by the loader.
pub const GLOBAL_HAS_BOOKS: &str = "HAS_BOOKS";
/// Byte offset of `task_struct.prio`, set by the loader.
pub const GLOBAL_OFF_PRIO: &str = "OFF_PRIO";
/// Byte offset of `task_struct.se.sum_exec_runtime`, set by the loader.
pub const GLOBAL_OFF_RUNTIME: &str = "OFF_RUNTIME";
/// Byte offset of `task_struct.se.prev_sum_exec_runtime`, set by the loader.
pub const GLOBAL_OFF_RUNTIME_AT_PICK: &str = "OFF_RUNTIME_PICK";
/// 1 if the argument of `mark_victim` is a `task_struct`, 0 if it is a pid; set by the loader.
pub const GLOBAL_VICTIM_IS_TASK: &str = "VICTIM_IS_TASK";

#[cfg(feature = "user")]
#[expect(unsafe_code, reason = "aya reads map values as plain bytes")]
mod plain {
    use super::{Changes, Config, CpuRing, Memory};

    // SAFETY: `repr(C)` of integers without padding (tests add up the sizes of the fields), so every bit pattern is a
    // value and every value is a bit pattern.
    unsafe impl aya::Pod for CpuRing {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Config {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Memory {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Changes {}
}

#[cfg(test)]
mod tests {
    use core::mem::{align_of, size_of};

    use super::*;

    #[test]
    fn structures_have_no_padding_and_the_size_both_sides_count_on() {
        let Slot { win, busy, wait, end } = Slot::default();
        let slot = size_of_val(&win) + size_of_val(&busy) + size_of_val(&wait) + size_of_val(&end);
        assert_eq!((size_of::<Slot>(), align_of::<Slot>()), (slot, 4));
        assert_eq!(slot, 16);

        let CpuRing {
            state,
            closed,
            last,
            busy,
            nsw,
            wait,
            slots,
            opened,
            missed,
        } = CpuRing::default();
        let header = size_of_val(&state) + size_of_val(&closed) + size_of_val(&last);
        let counters = size_of_val(&busy) + size_of_val(&nsw) + size_of_val(&wait);
        let tail = size_of_val(&opened) + size_of_val(&missed);
        assert_eq!(
            size_of::<CpuRing>(),
            header + counters + size_of_val(&slots) + tail
        );
        assert_eq!((size_of::<CpuRing>(), align_of::<CpuRing>()), (4144, 8));

        let Config {
            salt,
            mask,
            hist_idx,
            former_salt,
            since,
            trusts_books,
            pad,
        } = Config::default();
        let words =
            size_of_val(&salt) + size_of_val(&mask) + size_of_val(&hist_idx) + size_of_val(&former_salt);
        let tail = size_of_val(&trusts_books) + size_of_val(&pad);
        assert_eq!(size_of::<Config>(), words + size_of_val(&since) + tail);
        assert_eq!((size_of::<Config>(), align_of::<Config>()), (32, 8));
    }
}
