//! The ABI between Headroom's kernel programs and the agent: names, sizes, layouts and the pure rules on them.
//!
//! ```text
//!   sched_wakeup(_new) ── stamp ──> ENQ ──┐ wait = switch-in - stamp
//!   sched_switch ── idle <-> busy ────────┴──> CPU (one ring of windows per CPU) + RQH (histogram of waits)
//!   direct reclaim begin, end ── stamp, DRS ──> MEM;  mark_victim ──> MEM + OOM;  cgroup and CPU changes ──> CHG
//!   agent ── salt, mask, generation ──> CFG;  agent <── reads CPU and RQH once to four times a second, MEM, OOM and CHG four times
//! ```
//!
//! The rules that both sides must agree on ([`ring`], [`stamp`], [`histogram`]) are ordinary Rust, compiled into the
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
/// Per-CPU array of one [`Memory`].
pub const MAP_MEM: &str = "MEM";
/// Array of [`DRS_CAPACITY`] stamps of direct reclaims that are under way.
pub const MAP_DRS: &str = "DRS";
/// Ring buffer of [`Victim`]s, [`OOM_BYTES`] long.
pub const MAP_OOM: &str = "OOM";
/// Per-CPU array of one [`Changes`].
pub const MAP_CHG: &str = "CHG";

/// Cells of the stamp array, half a MiB; a task uses cell `pid % ENQ_CAPACITY`, and two tasks that meet there lose samples.
pub const ENQ_CAPACITY: u32 = 1 << 16;
/// Histogram generations: the kernel fills one while the agent reads the other.
pub const RQH_GENERATIONS: u32 = 2;
/// Cells of the stamps of direct reclaims; a task uses cell `pid % DRS_CAPACITY`. Fewer than of waits: few tasks reclaim at
/// the same time.
pub const DRS_CAPACITY: u32 = 1 << 12;
/// Bytes of the ring buffer of victims: a page, so some 170 of them.
pub const OOM_BYTES: u32 = 1 << 12;

/// Byte offset of `task_struct.pid`, set by the loader.
pub const GLOBAL_OFF_PID: &str = "OFF_PID";
/// Byte offset of `task_struct.__state` (`state` before Linux 5.14), set by the loader.
pub const GLOBAL_OFF_STATE: &str = "OFF_STATE";
/// Width in bytes, 4 or 8, of the field at [`GLOBAL_OFF_STATE`], set by the loader.
pub const GLOBAL_STATE_W: &str = "STATE_W";
/// 1 where the kernel has the three fields below, which serve to make good switches that it does not tell of; set by the
/// loader.
pub const GLOBAL_HAS_BOOKS: &str = "HAS_BOOKS";
/// Byte offset of `task_struct.prio`, set by the loader.
pub const GLOBAL_OFF_PRIO: &str = "OFF_PRIO";
/// Byte offset of `task_struct.se.sum_exec_runtime`, set by the loader.
pub const GLOBAL_OFF_RUNTIME: &str = "OFF_RUNTIME";
/// Byte offset of `task_struct.se.prev_sum_exec_runtime`, set by the loader.
pub const GLOBAL_OFF_RUNTIME_AT_PICK: &str = "OFF_RUNTIME_PICK";
/// 1 where `mark_victim` hands over a `task_struct`, 0 where a pid, set by the loader.
pub const GLOBAL_VICTIM_IS_TASK: &str = "VICTIM_IS_TASK";

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
/// `mark_victim` as a BTF tracepoint.
pub const PROGRAM_VICTIM: &str = "hr_victim";
/// `mark_victim` as a raw tracepoint.
pub const PROGRAM_VICTIM_RAW: &str = "hr_victim_raw";
/// `mm_vmscan_direct_reclaim_begin` as a BTF tracepoint.
pub const PROGRAM_RECLAIM_BEGIN: &str = "hr_dr_begin";
/// `mm_vmscan_direct_reclaim_begin` as a raw tracepoint.
pub const PROGRAM_RECLAIM_BEGIN_RAW: &str = "hr_dr_begin_raw";
/// `mm_vmscan_direct_reclaim_end` as a BTF tracepoint.
pub const PROGRAM_RECLAIM_END: &str = "hr_dr_end";
/// `mm_vmscan_direct_reclaim_end` as a raw tracepoint.
pub const PROGRAM_RECLAIM_END_RAW: &str = "hr_dr_end_raw";
/// `cgroup_mkdir` as a BTF tracepoint.
pub const PROGRAM_CGROUP_MKDIR: &str = "hr_cg_mkdir";
/// `cgroup_mkdir` as a raw tracepoint.
pub const PROGRAM_CGROUP_MKDIR_RAW: &str = "hr_cg_mkdir_raw";
/// `cgroup_rmdir` as a BTF tracepoint.
pub const PROGRAM_CGROUP_RMDIR: &str = "hr_cg_rmdir";
/// `cgroup_rmdir` as a raw tracepoint.
pub const PROGRAM_CGROUP_RMDIR_RAW: &str = "hr_cg_rmdir_raw";
/// `cpuhp_enter` as a BTF tracepoint.
pub const PROGRAM_CPUHP_ENTER: &str = "hr_hp_enter";
/// `cpuhp_enter` as a raw tracepoint.
pub const PROGRAM_CPUHP_ENTER_RAW: &str = "hr_hp_enter_raw";
/// `cpuhp_exit` as a BTF tracepoint.
pub const PROGRAM_CPUHP_EXIT: &str = "hr_hp_exit";
/// `cpuhp_exit` as a raw tracepoint.
pub const PROGRAM_CPUHP_EXIT_RAW: &str = "hr_hp_exit_raw";

#[cfg(feature = "user")]
#[expect(unsafe_code, reason = "aya reads map values as plain bytes")]
mod plain {
    use super::{Changes, Config, CpuRing, Memory};

    // SAFETY: `repr(C)` of integers without padding (the tests below add up the fields), so every bit pattern is a
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

    #[test]
    fn structures_of_rare_events_have_no_padding() {
        let Memory {
            dr_cnt,
            dr_ns,
            oom_cnt,
            last_oom_ts,
            last_oom_pid,
            pad,
        } = Memory::default();
        let longs =
            size_of_val(&dr_cnt) + size_of_val(&dr_ns) + size_of_val(&oom_cnt) + size_of_val(&last_oom_ts);
        assert_eq!(
            size_of::<Memory>(),
            longs + size_of_val(&last_oom_pid) + size_of_val(&pad)
        );
        let Victim { at_ns, pid, pad } = Victim::default();
        assert_eq!(
            size_of::<Victim>(),
            size_of_val(&at_ns) + size_of_val(&pid) + size_of_val(&pad)
        );
        let Changes {
            cgroup_mkdir,
            cgroup_rmdir,
            cpuhp,
        } = Changes::default();
        assert_eq!(
            size_of::<Changes>(),
            size_of_val(&cgroup_mkdir) + size_of_val(&cgroup_rmdir) + size_of_val(&cpuhp)
        );
    }

    #[test]
    fn kernel_names_fit_the_fifteen_characters_the_kernel_keeps() {
        let names = [
            MAP_CPU,
            MAP_CFG,
            MAP_ENQ,
            MAP_RQH,
            MAP_MEM,
            MAP_DRS,
            MAP_OOM,
            MAP_CHG,
            PROGRAM_SWITCH,
            PROGRAM_SWITCH_RAW,
            PROGRAM_WAKEUP,
            PROGRAM_WAKEUP_RAW,
            PROGRAM_WAKENEW,
            PROGRAM_WAKENEW_RAW,
            PROGRAM_VICTIM,
            PROGRAM_VICTIM_RAW,
            PROGRAM_RECLAIM_BEGIN,
            PROGRAM_RECLAIM_BEGIN_RAW,
            PROGRAM_RECLAIM_END,
            PROGRAM_RECLAIM_END_RAW,
            PROGRAM_CGROUP_MKDIR,
            PROGRAM_CGROUP_MKDIR_RAW,
            PROGRAM_CGROUP_RMDIR,
            PROGRAM_CGROUP_RMDIR_RAW,
            PROGRAM_CPUHP_ENTER,
            PROGRAM_CPUHP_ENTER_RAW,
            PROGRAM_CPUHP_EXIT,
            PROGRAM_CPUHP_EXIT_RAW,
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
