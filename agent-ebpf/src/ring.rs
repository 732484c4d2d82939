//! [`CpuRing`]: the busy time of one CPU, as totals and a ring of 256 windows of 8.39 ms. The kernel program at
//! `sched_switch` writes it; the agent reads copies.
//!
//! Work is done only when the CPU turns from idle to busy or back, and when a sampled wait ends. A window in which
//! neither happened has no slot. A slot records the CPU's state before and after it, from which the agent derives the
//! silent windows around it.
#![expect(
    clippy::inline_always,
    reason = "part of the switch path in the kernel, where a call costs more than the code"
)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "slots keep the lower halves of window numbers, offsets and ticks"
)]

pub mod guard;

use self::guard::Guard;

/// Windows are 2^23 ns long: no division in the kernel.
pub const W_SHIFT: u32 = 23;
/// Length of a window: 8.388608 ms.
pub const WINDOW_NS: u64 = 1 << W_SHIFT;
/// Windows the ring remembers: 2.147 s. The agent reads it at least once a second, so that one reading may come a second
/// late. A power of two: the index is a mask, which the verifier accepts as a bound.
pub const SLOTS: usize = 256;

/// [`CpuRing::state`] until the first switch after attach: what the CPU does is not known yet.
pub const UNKNOWN: u32 = 0;
/// [`CpuRing::state`]: the idle task runs.
pub const IDLE: u32 = 1;
/// [`CpuRing::state`]: any other task runs.
pub const BUSY: u32 = 2;

const BUSY_AFTER: u32 = 1 << 31;
const BUSY_BEFORE: u32 = 1 << 30;
const OFFSET_MASK: u32 = (1 << W_SHIFT) - 1;

/// One window of one CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Number of the window: CLOCK_MONOTONIC nanoseconds >> [`W_SHIFT`], lower 32 bits.
    pub win: u32,
    /// Busy nanoseconds from the window's start to its last transition.
    pub busy: u32,
    /// Sampled run-queue waits that ended in this window, in ticks of 1.024 us.
    pub wait: u32,
    /// Bit 31: busy after the last transition; bit 30: busy before the first; below: offset of the last, in ns.
    pub end: u32,
}

/// What the kernel knows about one CPU.
///
/// The agent gets copies that the kernel may be writing to; the [`guard`] tells which of them hold half of an update. The
/// kernel copies 8 bytes at a time, from start to end: `closed` is in the first of them and `opened` in the last, so that
/// one copy is enough where loads and stores keep their order ([`CpuRing::is_whole`]).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuRing {
    /// [`UNKNOWN`], [`IDLE`] or [`BUSY`], since `last`.
    pub state: u32,
    /// Updates completed, modulo 2^32.
    pub closed: u32,
    /// CLOCK_MONOTONIC nanoseconds of the last transition (of the start of its window for the first switch seen).
    pub last: u64,
    /// Busy nanoseconds up to `last`, from the start of the window in which the first switch was seen.
    pub busy: u64,
    /// Context switches.
    pub nsw: u64,
    /// Sampled run-queue waits in ticks of 1.024 us; to be multiplied by the sampling factor.
    pub wait: u64,
    /// The windows; window `w` lives in slot `w % 256`.
    pub slots: [Slot; SLOTS],
    /// Switches that the kernel did not tell us of, as far as we noticed.
    pub missed: u32,
    /// Updates begun, modulo 2^32.
    pub opened: u32,
}

impl Default for CpuRing {
    fn default() -> Self {
        Self {
            state: UNKNOWN,
            closed: 0,
            last: 0,
            busy: 0,
            nsw: 0,
            wait: 0,
            slots: [Slot::default(); SLOTS],
            missed: 0,
            opened: 0,
        }
    }
}

/// Keeps the compiler from moving stores, which is enough where the machine shows them to other CPUs in order.
impl Guard for CpuRing {
    #[inline(always)]
    fn opened(&self) -> u32 {
        self.opened
    }

    #[inline(always)]
    fn set_opened(&mut self, updates: u32) {
        self.opened = updates;
    }

    #[inline(always)]
    fn set_closed(&mut self, updates: u32) {
        self.closed = updates;
    }

    #[inline(always)]
    fn order_stores(&mut self) {
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
    }
}

impl Slot {
    /// Was the CPU busy before the first transition of this window?
    pub const fn is_busy_before(&self) -> bool {
        self.end & BUSY_BEFORE != 0
    }

    /// Was the CPU busy after the last transition of this window?
    pub const fn is_busy_after(&self) -> bool {
        self.end & BUSY_AFTER != 0
    }

    /// Busy nanoseconds of the whole window, once it is over.
    pub const fn whole_busy_ns(&self) -> u32 {
        let rest = if self.is_busy_after() {
            (1 << W_SHIFT) - (self.end & OFFSET_MASK)
        } else {
            0
        };
        self.busy.saturating_add(rest)
    }

    #[inline(always)]
    fn turn(&mut self, offset: u32, is_busy: bool) {
        if self.end & BUSY_AFTER != 0 {
            self.busy = self
                .busy
                .wrapping_add(offset.saturating_sub(self.end & OFFSET_MASK));
        }
        self.end = (self.end & BUSY_BEFORE) | offset | if is_busy { BUSY_AFTER } else { 0 };
    }
}

impl CpuRing {
    /// Does this copy hold no half-done update? Only where it ran from start to end and the machine keeps the order of loads
    /// and of stores, as x86-64 does.
    pub const fn is_whole(&self) -> bool {
        guard::is_whole(self.closed, self.opened)
    }

    /// Takes note of the first switch since attach: until `now` the CPU was busy, or idle.
    ///
    /// Whoever reads the slot knows from it what all windows back to the attachment were.
    #[inline(always)]
    pub fn settle(&mut self, now: u64, was_busy: bool) {
        self.last = now >> W_SHIFT << W_SHIFT;
        self.state = if was_busy { BUSY } else { IDLE };
        let _rolled = self.slot_at(now);
    }

    /// Does the ring know whether the CPU is busy, and is that what it was until now?
    #[inline(always)]
    pub const fn agrees(&self, was_busy: bool) -> bool {
        self.state == if was_busy { BUSY } else { IDLE }
    }

    /// Takes note of what the CPU really did until `now`, after a switch that was missed: the task that leaves now
    /// has run for `ran_ns`, or the idle task leaves and `ran_ns` says nothing.
    ///
    /// What came before the task counts as idle; so does the time since the last transition when the idle task
    /// leaves a CPU that was taken for busy. `/proc/stat` is there to correct what this leaves out.
    #[inline(always)]
    pub fn correct(&mut self, now: u64, was_busy: bool, ran_ns: u64) {
        let start = now.saturating_sub(ran_ns);
        let since = if was_busy && start > self.last {
            start
        } else {
            self.last
        };
        self.turn(since, was_busy);
        self.missed = self.missed.wrapping_add(1);
    }

    /// The CPU turns busy, or idle, at `now` (CLOCK_MONOTONIC nanoseconds). The state must be settled.
    #[inline(always)]
    pub fn turn(&mut self, now: u64, is_busy: bool) {
        // The kernel's fast clock may step back by nanoseconds when the time keeper adjusts its rate.
        let now = if now < self.last { self.last } else { now };
        if let Some(slot) = self.slot_at(now) {
            slot.turn(now as u32 & OFFSET_MASK, is_busy);
        }
        if self.state == BUSY {
            self.busy = self.busy.wrapping_add(now.wrapping_sub(self.last));
        }
        self.last = now;
        self.state = if is_busy { BUSY } else { IDLE };
    }

    /// A sampled wait of `ticks` ends at `now`. The state must be settled.
    #[inline(always)]
    pub fn add_wait(&mut self, now: u64, ticks: u64) {
        if let Some(slot) = self.slot_at(now) {
            slot.wait = slot.wait.wrapping_add(ticks as u32);
        }
        self.wait = self.wait.wrapping_add(ticks);
    }

    /// The slot of the window that `now` lies in, begun anew if it still holds an older window.
    #[inline(always)]
    fn slot_at(&mut self, now: u64) -> Option<&mut Slot> {
        let win = (now >> W_SHIFT) as u32;
        let end = if self.state == BUSY {
            BUSY_AFTER | BUSY_BEFORE
        } else {
            0
        };
        // Never out of bounds; `get_mut` compiles to the masked index alone.
        let slot = self.slots.get_mut(win as usize % SLOTS)?;
        if slot.win != win {
            *slot = Slot {
                win,
                busy: 0,
                wait: 0,
                end,
            };
        }
        Some(slot)
    }
}

#[cfg(test)]
mod tests;
