//! The BPF maps of the kernel programs, and the only functions that turn map memory into references.

use aya_ebpf::{
    macros::map,
    maps::{Array, PerCpuArray, RingBuf},
};
use headroom_agent_ebpf::{
    Changes, Config, CpuRing, DRS_CAPACITY, ENQ_CAPACITY, Memory, OOM_BYTES, RQH_GENERATIONS, Victim,
    histogram,
    ring::guard::{self, Guard},
    stamp::owner,
};

/// Machines that promise no order of stores, as arm64: there a ring's guard needs an instruction that makes one. It is known
/// when the programs are built, as verifiers before Linux 5.12 refuse the instruction wherever they see it.
const REORDERS_STORES: bool = cfg!(not(bpf_target_arch = "x86_64"));

#[map]
static CFG: Array<Config> = Array::with_max_entries(1, 0);
#[map]
static CPU: PerCpuArray<CpuRing> = PerCpuArray::with_max_entries(1, 0);
/// An array and no hash: its look-up is inlined and takes no lock. With a hash and probe reads a switch costs 774 ns more,
/// with ours 158 (docs/journal/agent-overhead.md). Two tasks of one cell lose samples; none is ever wrong.
#[map]
static ENQ: Array<u64> = Array::with_max_entries(ENQ_CAPACITY, 0);
#[map]
static RQH: PerCpuArray<[u64; histogram::BUCKETS]> = PerCpuArray::with_max_entries(RQH_GENERATIONS, 0);
#[map]
static MEM: PerCpuArray<Memory> = PerCpuArray::with_max_entries(1, 0);
#[map]
static DRS: Array<u64> = Array::with_max_entries(DRS_CAPACITY, 0);
#[map]
static OOM: RingBuf = RingBuf::with_byte_size(OOM_BYTES, 0);
#[map]
static CHG: PerCpuArray<Changes> = PerCpuArray::with_max_entries(1, 0);

/// What the agent wants.
#[inline(always)]
pub(super) fn config() -> Option<&'static Config> {
    CFG.get(0)
}

/// This CPU's ring.
#[inline(always)]
pub(super) fn ring() -> Option<&'static mut CpuRing> {
    // SAFETY: only `sched_switch` asks for it, once a run, with interrupts off: nothing else on this CPU holds it.
    unsafe { CPU.get_ptr_mut(0)?.as_mut() }
}

/// A ring on a machine that reorders stores.
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

    /// Of BPF's instructions, those that exchange order what stands before them and behind them, as the kernel's own atomic
    /// operations that return a value do. The language has none of them for this target.
    #[inline(always)]
    fn order_stores(&mut self) {
        let mut switches = self.0.nsw;
        // SAFETY: puts the same value into an aligned word of the map, which nothing but this program writes, once at a time
        // on this CPU.
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

/// Empties the cell of `pid` if the stamp in it is its own, and returns that; zero otherwise.
#[inline(always)]
pub(super) fn take_stamp(pid: u32) -> u64 {
    let Some(cell) = ENQ.get_ptr_mut(pid % ENQ_CAPACITY) else {
        return 0;
    };
    // SAFETY: aligned and within the map; other CPUs write whole values only. Two that write at once lose one sample.
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

/// Counts a wait of `ticks` on this CPU, in the generation the agent is not reading.
#[inline(always)]
pub(super) fn count_wait(generation: u32, ticks: u64) {
    let Some(counters) = RQH.get_ptr_mut(generation % RQH_GENERATIONS) else {
        return;
    };
    // The compiler knows that a bucket is always in bounds and would drop the check; the verifier does not and needs
    // to see it.
    let bucket = core::hint::black_box(histogram::bucket(ticks));
    // SAFETY: per-CPU memory, written by `sched_switch` alone.
    if let Some(counter) = unsafe { (*counters).get_mut(bucket) } {
        *counter += 1;
    }
}

/// This CPU's memory counters.
#[inline(always)]
pub(super) fn memory() -> Option<&'static mut Memory> {
    // SAFETY: the hooks that ask for it run in task context with preemption off, so nothing else on this CPU holds it.
    unsafe { MEM.get_ptr_mut(0)?.as_mut() }
}

/// This CPU's counters of changes.
#[inline(always)]
pub(super) fn changes() -> Option<&'static mut Changes> {
    // SAFETY: as above.
    unsafe { CHG.get_ptr_mut(0)?.as_mut() }
}

/// When `pid` began to reclaim, or the task it shares a cell with.
#[inline(always)]
pub(super) fn reclaim_stamp(pid: u32) -> Option<u64> {
    // SAFETY: aligned and within the map; other CPUs write whole values only.
    Some(unsafe { DRS.get_ptr(pid % DRS_CAPACITY)?.read_volatile() })
}

/// Sets the stamp in the cell of `pid`; zero clears it.
#[inline(always)]
pub(super) fn set_reclaim_stamp(pid: u32, stamp: u64) {
    if let Some(cell) = DRS.get_ptr_mut(pid % DRS_CAPACITY) {
        // SAFETY: as above. Two CPUs that write at once lose one sample.
        unsafe { cell.write_volatile(stamp) }
    }
}

/// Tells the agent of a victim. When nobody has read for a hundred of them, the counters still know.
#[inline(always)]
pub(super) fn tell_victim(victim: &Victim) {
    let _is_told = OOM.output::<Victim>(victim, 0).is_ok();
}
