//! [`LowRing`]: a pod's low estimates over the last frames. They are subtracted from the node's peaks after the pod
//! has left.

use serde::{Deserialize, Serialize};

use super::frame_renumbering::Shift;
use crate::resource::Resource;

/// Low estimates of one resource, one cell per frame of the ring, in milli-cores or KiB. See docs/estimator.md#pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Packed", into = "Packed")]
pub(super) struct LowRing {
    /// Cell of frame f: f modulo the number of cells. 32 bits hold 4 TiB in KiB; 512 pods then need 1.2 MB, half of
    /// what 64 bits would.
    cells: Box<[u32]>,
    /// Last written frame; `None` in an empty ring.
    last: Option<u64>,
}

/// Serialized form: four bytes per cell, whatever its value, so that the size is known.
#[derive(Serialize, Deserialize)]
struct Packed {
    cells: Vec<u8>,
    last: Option<u64>,
}

impl From<LowRing> for Packed {
    fn from(ring: LowRing) -> Self {
        let LowRing { cells, last } = ring;
        let cells = cells.iter().flat_map(|cell| cell.to_le_bytes()).collect();
        Self { cells, last }
    }
}

impl From<Packed> for LowRing {
    fn from(packed: Packed) -> Self {
        let Packed { cells, last } = packed;
        let (cells, _) = cells.as_chunks();
        let cells = cells.iter().map(|cell| u32::from_le_bytes(*cell)).collect();
        Self { cells, last }
    }
}

/// Milli-cores or bytes per count of a cell.
const fn unit(resource: Resource) -> u64 {
    match resource {
        Resource::Cpu => 1,
        Resource::Memory => 1024,
    }
}

impl LowRing {
    /// Ring of `frames` frames without use.
    pub(super) fn new(frames: u32) -> Self {
        let cells = vec![0; usize::try_from(frames.max(1)).unwrap_or(1)];
        Self {
            cells: cells.into_boxed_slice(),
            last: None,
        }
    }

    /// Records the use in a frame, rounded down and at most the largest value of a cell: too little may be
    /// subtracted, never too much. Frames must arrive in order; skipped frames count as zero.
    pub(super) fn push(&mut self, resource: Resource, frame: u64, low: u64) {
        let first_missing = self.last.map_or(frame, |last| last.saturating_add(1));
        let first_kept = frame.saturating_sub(self.frames().saturating_sub(1));
        for missing in first_missing.max(first_kept)..frame {
            self.set(missing, 0);
        }
        self.set(frame, u32::try_from(low / unit(resource)).unwrap_or(u32::MAX));
        self.last = Some(frame);
    }

    /// (frame, low estimate in milli-cores or bytes) of the frames with use.
    pub(super) fn uses(&self, resource: Resource) -> impl Iterator<Item = (u64, u64)> + '_ {
        let until = self.last.map_or(0, |last| last.saturating_add(1));
        let frames = until.saturating_sub(self.frames())..until;
        frames.filter_map(move |frame| {
            let low = self
                .cells
                .get(self.cell(frame)?)
                .copied()
                .filter(|low| *low > 0)?;
            Some((frame, u64::from(low) * unit(resource)))
        })
    }

    /// Returns true if this is a possible ring of `frames` frames, none later than `last`.
    pub(super) fn is_sound(&self, frames: u32, last: u64) -> bool {
        self.frames() == u64::from(frames) && self.last.is_none_or(|own| own <= last)
    }

    /// Renumbers the frames; frames without a number are dropped.
    pub(super) fn shift(&mut self, resource: Resource, shift: Shift) {
        let mut moved = Self {
            cells: vec![0; self.cells.len()].into_boxed_slice(),
            last: None,
        };
        for (frame, low) in self.uses(resource) {
            if let Some(frame) = shift.apply(frame) {
                moved.push(resource, frame, low);
            }
        }
        *self = moved;
    }

    fn frames(&self) -> u64 {
        u64::try_from(self.cells.len()).unwrap_or(u64::MAX)
    }

    fn cell(&self, frame: u64) -> Option<usize> {
        usize::try_from(frame.checked_rem(self.frames())?).ok()
    }

    fn set(&mut self, frame: u64, value: u32) {
        if let Some(cell) = self.cell(frame).and_then(|cell| self.cells.get_mut(cell)) {
            *cell = value;
        }
    }
}

#[cfg(test)]
impl LowRing {
    /// Size of the cells, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val::<[u32]>(&self.cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(ring: &LowRing, resource: Resource) -> Vec<(u64, u64)> {
        ring.uses(resource).collect()
    }

    #[test]
    fn memory_is_kept_in_whole_kib_and_no_cell_overflows() {
        let mut ring = LowRing::new(3);
        ring.push(Resource::Memory, 7, 5000);
        ring.push(Resource::Memory, 8, u64::MAX);
        assert_eq!(
            uses(&ring, Resource::Memory),
            [(7, 4096), (8, u64::from(u32::MAX) * 1024)]
        );
    }

    #[test]
    fn a_ring_keeps_only_the_last_frames() {
        let mut ring = LowRing::new(3);
        for frame in 10..15 {
            ring.push(Resource::Cpu, frame, frame * 100);
        }
        assert_eq!(uses(&ring, Resource::Cpu), [(12, 1200), (13, 1300), (14, 1400)]);
    }

    #[test]
    fn skipped_frames_are_zero() {
        let mut ring = LowRing::new(4);
        for frame in [8, 9, 10, 11, 13] {
            ring.push(Resource::Cpu, frame, 1);
        }
        assert_eq!(uses(&ring, Resource::Cpu), [(10, 1), (11, 1), (13, 1)]);
        ring.push(Resource::Cpu, 1000, 5);
        assert_eq!(uses(&ring, Resource::Cpu), [(1000, 5)]);
        assert_eq!(uses(&LowRing::new(4), Resource::Cpu), []);
    }
}
