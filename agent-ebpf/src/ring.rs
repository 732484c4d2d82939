//! [`CpuRing`]: the busy time of one CPU, as totals and a ring of 256 windows of 8.39 ms. The kernel program at
//! `sched_switch` writes it; the agent reads copies.
//!
//! The ring changes only when the CPU turns from idle to busy or back, and when a sampled wait ends. A window in which
//! neither happened has no slot. A slot records the CPU's state before and after it, from which the agent derives the
//! windows without a slot around it.
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
/// Windows in the ring: 2.147 s. The agent reads the ring at least once a second, so one reading may be a second late. The
/// number is a power of two: the index is a mask, which the verifier accepts as a bound.
pub const SLOTS: usize = 256;

/// [`CpuRing::state`] until the first switch after attach: it is not known yet whether the CPU is busy.
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

/// Counters and windows of one CPU, written by the kernel program at `sched_switch`.
///
/// The agent reads copies while the kernel may be writing; the [`guard`] detects copies with half of an update. The kernel
/// copies 8 bytes at a time, from start to end: `closed` is in the first 8 bytes and `opened` in the last, so one copy is
/// enough on machines that keep the order of loads and stores ([`CpuRing::is_whole`]).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuRing {
    /// [`UNKNOWN`], [`IDLE`] or [`BUSY`], since `last`.
    pub state: u32,
    /// Number of updates that have ended, modulo 2^32.
    pub closed: u32,
    /// CLOCK_MONOTONIC nanoseconds of the last transition (of the start of its window for the first switch seen).
    pub last: u64,
    /// Busy nanoseconds up to `last`, from the start of the window in which the first switch was seen.
    pub busy: u64,
    /// Context switches since attach.
    pub nsw: u64,
    /// Sampled run-queue waits in ticks of 1.024 us. Multiply by the sampling factor for all waits.
    pub wait: u64,
    /// The windows; window `w` is in slot `w % 256`.
    pub slots: [Slot; SLOTS],
    /// Detected switches at which the kernel did not call the program.
    pub missed: u32,
    /// Number of updates that have begun, modulo 2^32.
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

/// Keeps the compiler from moving stores. That is enough on machines whose stores become visible to other CPUs in order.
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
    /// Returns true if the CPU was busy before the first transition of this window.
    pub const fn is_busy_before(&self) -> bool {
        self.end & BUSY_BEFORE != 0
    }

    /// Returns true if the CPU was busy after the last transition of this window.
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
    /// Returns true if this copy contains no half-done update. Valid only for a copy made from start to end on a machine that
    /// keeps the order of loads and of stores, such as x86-64.
    pub const fn is_whole(&self) -> bool {
        guard::is_whole(self.closed, self.opened)
    }

    /// Records the first switch since attach: until `now` the CPU was busy, or idle.
    ///
    /// The slot then gives the state of all windows back to the attachment.
    #[inline(always)]
    pub fn settle(&mut self, now: u64, was_busy: bool) {
        self.last = now >> W_SHIFT << W_SHIFT;
        self.state = if was_busy { BUSY } else { IDLE };
        let _rolled = self.slot_at(now);
    }

    /// Returns true if the ring's state is known and equal to `was_busy`.
    #[inline(always)]
    pub const fn agrees(&self, was_busy: bool) -> bool {
        self.state == if was_busy { BUSY } else { IDLE }
    }

    /// Corrects the state up to `now` after a missed switch. The task that leaves now has run for `ran_ns`; if the idle task
    /// leaves, `ran_ns` is ignored.
    ///
    /// Time before that task counts as idle. So does the time since the last transition if the idle task leaves a CPU that
    /// was recorded as busy. The agent corrects the busy time that this omits by `/proc/stat`.
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

    /// The slot of the window that contains `now`. A slot of an older window is reset.
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
