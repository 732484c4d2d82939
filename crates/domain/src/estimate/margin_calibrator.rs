//! Calibrates the margin on the predicted peak by the outcomes of earlier ratios (OCM, outcome-calibrated margin).

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Timing, frame_renumbering::Shift};

/// M at the start, and its lower bound, in ppm.
pub const MARGIN_PPM: u32 = 50_000;
/// M where nothing calibrates it, in ppm: nothing corrects it there.
pub const UNCALIBRATED_PPM: u32 = 100_000;
/// The largest margin that is applied, in ppm; amplification latches off where M reaches it.
pub const LARGEST_MARGIN_PPM: u32 = 1_000_000;
/// What M never reaches, in ppm, by the rules of any version: what a report or a checkpoint may say.
pub const LARGEST_ACCUMULATOR_PPM: u32 = 2_225_999;
/// The largest M that the rules below lead to, in ppm: one bad outcome above the last one that does not latch.
const MOST_PPM: u32 = LARGEST_MARGIN_PPM - 1 + BAD_PPM;
/// M at or below which a latch lets go, in ppm.
const RELEASE_PPM: u32 = 500_000;
/// What a bad outcome adds to M, in ppm: eta × (1 - alpha), eta = 0.05, alpha = 0.02.
const BAD_PPM: u32 = 49_000;
/// What a good outcome takes from M, in ppm: eta × alpha.
const GOOD_PPM: u32 = 1000;

/// One resource's margin and the decisions that will move it.
///
/// An hour (12 frames) in which pods hold more than raw allocatable is a decision: amplification is in use. A frame whose
/// demand exceeds what there is, or an L3 brake, is an incident; those less than an hour apart are one. An incident is one
/// bad outcome, at once, whatever number of decisions of the last day (one ring) it overlaps. At least one of them must be
/// new: not overlapped by an earlier incident. A decision that becomes a day old without any incident is a good outcome.
/// A decision that an incident overlapped is no outcome of its own. No decision is opened while an incident lasts. An
/// incident that outlasts all decisions that it overlapped, which takes a day, counts again while amplification is in use.
///
/// **Bound.** For any workload, of the first n outcomes at most 0.02 n + 20 are bad: each moves M by eta × (err - alpha),
/// the lower bound only adds, and from M = 1 on no decision is open, so that M stays below 1.049; (1.049 - 0.05) / 0.05
/// is less than 20. In other words, while amplification is in use a node has at most 20 incidents more than one for
/// each 49 hours without. It is a bound on incidents, not on how long they last: while one does, the peak itself leaves
/// no slack, and what was let in before leaves at its own time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarginCalibrator {
    /// Age in frames at which a decision is judged.
    judged_after: u64,
    /// Frames between two decisions; `None` where the margin is not calibrated.
    every: Option<u64>,
    /// M, in ppm.
    #[serde(with = "stored")]
    accumulator_ppm: u32,
    is_latched: bool,
    /// Oldest first; at most one ring of frames by hours.
    open: VecDeque<PendingOutcome>,
    /// Frame in which a decision was last opened, an incident was last seen, or an hour under a latch was counted.
    last_hour: Option<u64>,
}

/// M as a checkpoint has it: as if its least value were 100,000, as it was in the first version, which can read it so.
mod stored {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::MARGIN_PPM;

    /// What is added.
    const ABOVE_PPM: u32 = 100_000 - MARGIN_PPM;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    pub(super) fn serialize<S: Serializer>(accumulator_ppm: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        accumulator_ppm.saturating_add(ABOVE_PPM).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        Ok(u32::deserialize(deserializer)?.saturating_sub(ABOVE_PPM))
    }
}

/// An hour in which amplification was in use, not a day old yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct PendingOutcome {
    frame: u64,
    /// Has an incident overlapped it?
    is_hit: bool,
}

impl MarginCalibrator {
    /// The margin before any outcome. Where the timing calibrates no margin it stays at [`UNCALIBRATED_PPM`].
    pub fn new(timing: &Timing) -> Self {
        let start_ppm = timing.decision_frames.map_or(UNCALIBRATED_PPM, |_| MARGIN_PPM);
        Self {
            judged_after: u64::from(timing.ring_frames),
            every: timing.decision_frames.map(|frames| u64::from(frames.max(1))),
            accumulator_ppm: start_ppm,
            is_latched: false,
            open: VecDeque::new(),
            last_hour: None,
        }
    }

    /// Forgets all outcomes and open decisions: M is at its start again, and the bound counts from here. `is_on` says
    /// whether outcomes count from now on; under a timing that calibrates no margin they never do.
    pub fn reset(&mut self, timing: &Timing, is_on: bool) {
        *self = Self::new(timing);
        if !is_on {
            self.every = None;
            self.accumulator_ppm = UNCALIBRATED_PPM;
        }
    }

    /// M, in ppm: 50,000 to 1,048,999.
    pub const fn accumulator_ppm(&self) -> u32 {
        self.accumulator_ppm
    }

    /// m: the margin to apply, in ppm, 50,000 to 1,000,000.
    pub fn margin_ppm(&self) -> u32 {
        self.accumulator_ppm.min(LARGEST_MARGIN_PPM)
    }

    /// Is amplification latched off?
    pub const fn is_latched(&self) -> bool {
        self.is_latched
    }

    /// Records an incident in this frame: demand beyond what there is, or an L3 brake.
    pub fn incident(&mut self, frame: u64) {
        if self.open.is_empty() {
            return;
        }
        let is_news = self.open.iter().any(|decision| !decision.is_hit);
        for decision in &mut self.open {
            decision.is_hit = true;
        }
        self.last_hour = Some(self.last_hour.unwrap_or(frame).max(frame));
        if is_news {
            self.update(true);
        }
        if self.is_latched {
            self.open.clear();
        }
    }

    /// Records the end of a frame: whether its demand exceeded what there is, as far as it is valid. Judges the decisions
    /// that are old enough. Frames come in order, and may be missing.
    pub fn judge(&mut self, frame: u64, has_exceeded: bool) {
        if has_exceeded {
            self.incident(frame);
        }
        while let Some(oldest) = self.open.front().copied() {
            if frame.saturating_sub(oldest.frame) < self.judged_after {
                break;
            }
            self.open.pop_front();
            if !oldest.is_hit {
                self.update(false);
            }
        }
    }

    /// Opens a decision in this frame if amplification is in use: pods hold more than raw allocatable. The last decision and
    /// the last incident must be an hour old. Under a latch none is opened, and each hour counts as a good outcome.
    pub fn decide(&mut self, frame: u64, is_in_use: bool) {
        let Some(every) = self.every else { return };
        let is_due = self
            .last_hour
            .is_none_or(|last| frame.saturating_sub(last) >= every);
        if !is_due {
            return;
        }
        if self.is_latched {
            self.update(false);
            self.last_hour = Some(frame);
        } else if is_in_use {
            self.open.push_back(PendingOutcome { frame, is_hit: false });
            self.last_hour = Some(frame);
        }
    }

    /// Could this have come to be under that timing, with no frame later than `last`?
    pub(super) fn is_sound(&self, timing: &Timing, last: u64) -> bool {
        let most = self.judged_after / self.every.unwrap_or(1).max(1);
        let is_open = u64::try_from(self.open.len()).is_ok_and(|open| open <= most.max(1));
        let frames = || self.open.iter().map(|decision| decision.frame);
        self.judged_after == u64::from(timing.ring_frames)
            && self
                .every
                .is_none_or(|every| Some(every) == Self::new(timing).every)
            && (MARGIN_PPM..=LARGEST_ACCUMULATOR_PPM).contains(&self.accumulator_ppm)
            && is_open
            && frames().is_sorted()
            && frames().chain(self.last_hour).all(|frame| frame <= last)
    }

    /// Takes the timing's intervals over: outcomes may not have counted before.
    pub(super) fn resume(&mut self, timing: &Timing) {
        self.every = Self::new(timing).every;
        self.accumulator_ppm = self.accumulator_ppm.min(MOST_PPM);
    }

    /// Numbers the frames anew; what was decided before there are numbers is old enough to be judged.
    pub(super) fn shift(&mut self, shift: Shift) {
        for decision in &mut self.open {
            decision.frame = shift.apply(decision.frame).unwrap_or(0);
        }
        self.last_hour = self.last_hour.map(|frame| shift.apply(frame).unwrap_or(0));
    }

    fn update(&mut self, is_bad: bool) {
        self.accumulator_ppm = if is_bad {
            self.accumulator_ppm.saturating_add(BAD_PPM)
        } else {
            self.accumulator_ppm.saturating_sub(GOOD_PPM).max(MARGIN_PPM)
        };
        if self.accumulator_ppm >= LARGEST_MARGIN_PPM {
            self.is_latched = true;
        } else if self.accumulator_ppm <= RELEASE_PPM {
            self.is_latched = false;
        }
    }
}

#[cfg(test)]
impl MarginCalibrator {
    /// Bytes of open decisions.
    pub(super) fn bytes(&self) -> usize {
        self.open.capacity() * size_of::<PendingOutcome>()
    }
}

#[cfg(test)]
mod tests;
