//! The guard of a structure that one CPU updates while others copy it: two words that tell whether a copy holds half of an
//! update.
//!
//! It is a sequence lock (Linux: `Documentation/locking/seqlock.rst`) whose one number is split in two. A writer raises
//! `opened`, updates, and sets `closed` to the same. A reader copies `closed`, then everything, then `opened`. If both are
//! equal, what it copied is the state after that many updates: `closed` says that the last of them had ended before, and
//! `opened` that no further one had begun after. Stores of the writer and copies of the reader must keep that order, which not
//! every machine does by itself; the tests try all that a machine may do.
#![expect(
    clippy::inline_always,
    reason = "part of the switch path in the kernel, where a call costs more than the code"
)]

/// The words of a guard, at the side that writes.
pub trait Guard {
    /// Updates begun, modulo 2^32.
    fn opened(&self) -> u32;

    /// Sets the updates begun.
    fn set_opened(&mut self, updates: u32);

    /// Sets the updates completed.
    fn set_closed(&mut self, updates: u32);

    /// Other CPUs see all stores before this one before any store after it.
    fn order_stores(&mut self);
}

/// Begins an update.
#[inline(always)]
pub fn open(guard: &mut impl Guard) {
    guard.set_opened(guard.opened().wrapping_add(1));
    guard.order_stores();
}

/// Ends an update.
#[inline(always)]
pub fn close(guard: &mut impl Guard) {
    guard.order_stores();
    guard.set_closed(guard.opened());
}

/// Does what was copied after `closed` and before `opened` hold no half-done update?
pub const fn is_whole(closed: u32, opened: u32) -> bool {
    closed == opened
}
