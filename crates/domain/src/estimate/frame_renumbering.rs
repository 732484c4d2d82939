//! Renumbers the frames of an earlier boot when a snapshot is resumed on another boot.

/// Shift of frame numbers: `last` becomes `new_last`, and earlier frames keep their distance to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shift {
    pub(super) last: u64,
    pub(super) new_last: u64,
}

impl Shift {
    /// New number of a frame; `None` if it would be below zero.
    pub(super) fn apply(self, frame: u64) -> Option<u64> {
        self.new_last.checked_sub(self.last.saturating_sub(frame))
    }
}
