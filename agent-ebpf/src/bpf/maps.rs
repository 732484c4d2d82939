//! The maps, and the only places that turn their memory into references.

use aya_ebpf::{
    macros::map,
    maps::{Array, PerCpuArray},
};
use headroom_agent_ebpf::{Config, CpuRing, ENQ_CAPACITY, RQH_GENERATIONS, histogram};

#[map]
static CFG: Array<Config> = Array::with_max_entries(1, 0);
#[map]
static CPU: PerCpuArray<CpuRing> = PerCpuArray::with_max_entries(1, 0);
#[map]
static ENQ: Array<u64> = Array::with_max_entries(ENQ_CAPACITY, 0);
#[map]
static RQH: PerCpuArray<[u64; histogram::BUCKETS]> = PerCpuArray::with_max_entries(RQH_GENERATIONS, 0);

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

/// The stamp of `pid`, or of the task it shares a cell with.
#[inline(always)]
pub(super) fn stamp(pid: u32) -> Option<u64> {
    // SAFETY: aligned and within the map; other CPUs write whole values only.
    Some(unsafe { ENQ.get_ptr(pid % ENQ_CAPACITY)?.read_volatile() })
}

/// Sets the stamp in the cell of `pid`; zero clears it.
#[inline(always)]
pub(super) fn set_stamp(pid: u32, stamp: u64) {
    if let Some(cell) = ENQ.get_ptr_mut(pid % ENQ_CAPACITY) {
        // SAFETY: as above. Two CPUs that write at once lose one sample.
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
