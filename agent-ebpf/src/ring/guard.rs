//! The guard of a structure that one CPU updates while others copy it: two words that reveal a copy with half of an update.
//!
//! It is a sequence lock (Linux: `Documentation/locking/seqlock.rst`) whose number is split in two. A writer increments
//! `opened`, updates, and sets `closed` to the same number. A reader copies `closed`, then everything else, then `opened`. If
//! both are equal, the copy is the state after that many updates: the last of them had ended before the copy began, and no
//! further one had begun when it ended. Stores of the writer and loads of the reader must keep that order, which some machines
//! do only with barriers. The tests try every order that a machine may produce.
#![expect(
    clippy::inline_always,
    reason = "part of the switch path in the kernel, where a call costs more than the code"
)]

/// The words of a guard on the writer's side. Both count updates modulo 2^32.
pub trait Guard {
    /// Number of updates that have begun.
    fn opened(&self) -> u32;

    /// Sets the number of updates that have begun.
    fn set_opened(&mut self, updates: u32);

    /// Sets the number of updates that have ended.
    fn set_closed(&mut self, updates: u32);

    /// Store barrier: all stores before it become visible to other CPUs before any store after it.
    fn order_stores(&mut self);
}

/// Begins an update. Copies are not whole until [`close`].
#[inline(always)]
pub fn open(guard: &mut impl Guard) {
    guard.set_opened(guard.opened().wrapping_add(1));
    guard.order_stores();
}

/// Ends the update that [`open`] began.
#[inline(always)]
pub fn close(guard: &mut impl Guard) {
    guard.order_stores();
    guard.set_closed(guard.opened());
}

/// Returns true if data copied after `closed` and before `opened` contains no half-done update.
pub const fn is_whole(closed: u32, opened: u32) -> bool {
    closed == opened
}
