//! The ABI between Headroom's kernel programs and the agent: names, sizes, layouts and the pure rules on them.
//!
//! ```text
//!   sched_wakeup(_new) ── stamp ──> ENQ ──┐ wait = switch-in - stamp
//!   sched_switch ── idle <-> busy ────────┴──> CPU (one ring of windows per CPU) + RQH (histogram of waits)
//!   agent ── salt, mask, generation ──> CFG;  agent <── reads CPU and RQH, four times a second
//! ```
//!
//! The rules that both sides must agree on ([`ring`], [`stamp`], [`histogram`]) are ordinary Rust, compiled into the
//! kernel programs and tested on the host.
//!
//! The kernel programs (the binary of this package) are dual licensed, MIT or GPL-2.0-only, because tracing helpers
//! are offered to GPL-compatible programs only; see `LICENSE-MIT` and `LICENSE-GPL`.
#![no_std]

pub mod histogram;
pub mod ring;
pub mod stamp;

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

/// Cells of the stamp array; a task uses cell `pid % ENQ_CAPACITY`, and two tasks that meet there lose samples.
pub const ENQ_CAPACITY: u32 = 1 << 16;
/// Histogram generations: the kernel fills one while the agent reads the other.
pub const RQH_GENERATIONS: u32 = 2;

/// Byte offset of `task_struct.pid`, set by the loader.
pub const GLOBAL_OFF_PID: &str = "OFF_PID";
/// Byte offset of `task_struct.__state` (`state` before Linux 5.14), set by the loader.
pub const GLOBAL_OFF_STATE: &str = "OFF_STATE";
/// Width in bytes, 4 or 8, of the field at [`GLOBAL_OFF_STATE`], set by the loader.
pub const GLOBAL_STATE_W: &str = "STATE_W";
/// Byte offset of `task_struct.prio`, set by the loader.
pub const GLOBAL_OFF_PRIO: &str = "OFF_PRIO";
/// Byte offset of `task_struct.se.sum_exec_runtime`, set by the loader.
pub const GLOBAL_OFF_RUNTIME: &str = "OFF_RUNTIME";
/// Byte offset of `task_struct.se.prev_sum_exec_runtime`, set by the loader.
pub const GLOBAL_OFF_RUNTIME_AT_PICK: &str = "OFF_RUNTIME_PICK";

/// `sched_switch` as a BTF tracepoint.
pub const PROGRAM_SWITCH: &str = "hr_switch";
/// `sched_switch` as a raw tracepoint.
pub const PROGRAM_SWITCH_RAW: &str = "hr_switch_raw";
/// `sched_wakeup` as a BTF tracepoint.
pub const PROGRAM_WAKEUP: &str = "hr_wakeup";
/// `sched_wakeup` as a raw tracepoint.
pub const PROGRAM_WAKEUP_RAW: &str = "hr_wakeup_raw";
/// `sched_wakeup_new` as a BTF tracepoint.
pub const PROGRAM_WAKENEW: &str = "hr_wakenew";
/// `sched_wakeup_new` as a raw tracepoint.
pub const PROGRAM_WAKENEW_RAW: &str = "hr_wakenew_raw";

#[cfg(feature = "user")]
#[expect(unsafe_code, reason = "aya reads map values as plain bytes")]
mod plain {
    use super::{Config, CpuRing};

    // SAFETY: `repr(C)` of integers without padding (the tests below add up the fields), so every bit pattern is a
    // value and every value is a bit pattern.
    unsafe impl aya::Pod for CpuRing {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Config {}
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
            last,
            state,
            closed,
            busy,
            nsw,
            wait,
            slots,
            opened,
            missed,
        } = CpuRing::default();
        let header = size_of_val(&last) + size_of_val(&state) + size_of_val(&closed);
        let counters = size_of_val(&busy) + size_of_val(&nsw) + size_of_val(&wait);
        let tail = size_of_val(&opened) + size_of_val(&missed);
        assert_eq!(
            size_of::<CpuRing>(),
            header + counters + size_of_val(&slots) + tail
        );
        assert_eq!((size_of::<CpuRing>(), align_of::<CpuRing>()), (1072, 8));

        let Config {
            salt,
            mask,
            hist_idx,
            former_salt,
            since,
        } = Config::default();
        let words =
            size_of_val(&salt) + size_of_val(&mask) + size_of_val(&hist_idx) + size_of_val(&former_salt);
        assert_eq!(size_of::<Config>(), words + size_of_val(&since));
        assert_eq!((size_of::<Config>(), align_of::<Config>()), (24, 8));
    }

    #[test]
    fn kernel_names_fit_the_fifteen_characters_the_kernel_keeps() {
        let names = [
            MAP_CPU,
            MAP_CFG,
            MAP_ENQ,
            MAP_RQH,
            PROGRAM_SWITCH,
            PROGRAM_SWITCH_RAW,
            PROGRAM_WAKEUP,
            PROGRAM_WAKEUP_RAW,
            PROGRAM_WAKENEW,
            PROGRAM_WAKENEW_RAW,
        ];
        for (index, name) in names.iter().enumerate() {
            assert!(name.len() <= 15, "{name}");
            assert!(
                !names.iter().take(index).any(|other| other == name),
                "{name} twice"
            );
        }
    }
}
