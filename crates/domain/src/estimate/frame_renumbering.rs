//! Renumbers the frames of an earlier boot when a snapshot is resumed on another boot.

/// Moves frame numbers: `last` becomes `new_last`, and each frame before it stays at its distance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shift {
    pub(super) last: u64,
    pub(super) new_last: u64,
}

impl Shift {
    /// The new number; `None` of a frame before all numbers.
    pub(super) fn apply(self, frame: u64) -> Option<u64> {
        self.new_last.checked_sub(self.last.saturating_sub(frame))
    }
}
