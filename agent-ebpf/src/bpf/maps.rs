//! The BPF maps of the scheduler programs, and the only functions that turn their memory into references.

use aya_ebpf::{
    macros::map,
    maps::{Array, PerCpuArray},
};
use headroom_agent_ebpf::{
    Config, CpuRing, ENQ_CAPACITY, RQH_GENERATIONS, histogram,
    ring::guard::{self, Guard},
    stamp::owner,
};

/// True for machines that may reorder stores, such as arm64: a ring's guard needs a barrier instruction there. It is decided
/// at build time because verifiers before Linux 5.12 refuse that instruction in any program.
const REORDERS_STORES: bool = cfg!(not(bpf_target_arch = "x86_64"));

#[map]
static CFG: Array<Config> = Array::with_max_entries(1, 0);
#[map]
static CPU: PerCpuArray<CpuRing> = PerCpuArray::with_max_entries(1, 0);
/// An array instead of a hash: its lookup is inlined and takes no lock. A context switch
/// costs 774 ns more than without the program if a hash and `bpf_probe_read` are used, and 158 ns more with this array
/// (docs/journal/agent-overhead.md). Two tasks that share a cell lose samples; no
/// sample is ever wrong.
#[map]
static ENQ: Array<u64> = Array::with_max_entries(ENQ_CAPACITY, 0);
#[map]
static RQH: PerCpuArray<[u64; histogram::BUCKETS]> = PerCpuArray::with_max_entries(RQH_GENERATIONS, 0);
/// Sampling configuration that the agent wrote last.
#[inline(always)]
pub(super) fn config() -> Option<&'static Config> {
    CFG.get(0)
}

/// The ring of the current CPU.
#[inline(always)]
pub(super) fn ring() -> Option<&'static mut CpuRing> {
    // SAFETY: only `sched_switch` uses it, once per run, with interrupts off: no other reference exists on this CPU.
    unsafe { CPU.get_ptr_mut(0)?.as_mut() }
}

/// A ring whose guard issues a barrier, for machines that reorder stores.
struct Ordered<'r>(&'r mut CpuRing);

impl Guard for Ordered<'_> {
    #[inline(always)]
    fn opened(&self) -> u32 {
        self.0.opened()
    }

    #[inline(always)]
    fn set_opened(&mut self, updates: u32) {
        self.0.set_opened(updates);
    }

    #[inline(always)]
    fn set_closed(&mut self, updates: u32) {
        self.0.set_closed(updates);
    }

    /// Atomic exchange is the BPF instruction that orders stores before and after it, like the kernel's own atomic operations
    /// that return a value. Rust has no intrinsic for it on this target.
    #[inline(always)]
    fn order_stores(&mut self) {
        let mut switches = self.0.nsw;
        // SAFETY: stores the same value into an aligned word of the map, which only this program writes, one run at a time on
        // this CPU.
        unsafe {
            core::arch::asm!(
                "{value} = xchg_64({word} + 0, {value})",
                value = inout(reg) switches,
                word = in(reg) &raw mut self.0.nsw,
                options(nostack),
            );
        }
        self.0.nsw = switches;
    }
}

/// Begins an update of a ring.
#[inline(always)]
pub(super) fn open(ring: &mut CpuRing) {
    if REORDERS_STORES {
        guard::open(&mut Ordered(ring));
    } else {
        guard::open(ring);
    }
}

/// Ends an update of a ring.
#[inline(always)]
pub(super) fn close(ring: &mut CpuRing) {
    if REORDERS_STORES {
        guard::close(&mut Ordered(ring));
    } else {
        guard::close(ring);
    }
}

/// Clears the cell of `pid` and returns its stamp; zero if the cell has no stamp of `pid`.
#[inline(always)]
pub(super) fn take_stamp(pid: u32) -> u64 {
    let Some(cell) = ENQ.get_ptr_mut(pid % ENQ_CAPACITY) else {
        return 0;
    };
    // SAFETY: aligned and within the map; other CPUs write whole values only. Two writes at once lose one sample.
    unsafe {
        let stamp = cell.read_volatile();
        if owner(stamp) != pid {
            return 0;
        }
        cell.write_volatile(0);
        stamp
    }
}

/// Sets the stamp in the cell of `pid`.
#[inline(always)]
pub(super) fn set_stamp(pid: u32, stamp: u64) {
    if let Some(cell) = ENQ.get_ptr_mut(pid % ENQ_CAPACITY) {
        // SAFETY: as above.
        unsafe { cell.write_volatile(stamp) }
    }
}

/// Counts a wait of `ticks` on this CPU, in the generation that the agent is not reading.
#[inline(always)]
pub(super) fn count_wait(generation: u32, ticks: u64) {
    let Some(counters) = RQH.get_ptr_mut(generation % RQH_GENERATIONS) else {
        return;
    };
    // The compiler can prove that a bucket is in bounds and would drop the check; the verifier cannot and needs it.
    let bucket = core::hint::black_box(histogram::bucket(ticks));
    // SAFETY: per-CPU memory, written by `sched_switch` alone.
    if let Some(counter) = unsafe { (*counters).get_mut(bucket) } {
        *counter += 1;
    }
}
