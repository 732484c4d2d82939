//! [`MarginCalibrator`]: calibrates the margin on the predicted peak by the outcomes of earlier ratios (OCM,
//! outcome-calibrated margin).

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Timing, frame_renumbering::Shift};

/// Initial value and lower bound of M, in ppm.
pub const MARGIN_PPM: u32 = 50_000;
/// M without calibration, in ppm; no outcome corrects it.
pub const UNCALIBRATED_PPM: u32 = 100_000;
/// Largest margin that is applied, in ppm; amplification latches off when M reaches it.
pub const LARGEST_MARGIN_PPM: u32 = 1_000_000;
/// Largest M of any agent version, in ppm; reports and checkpoints with a larger value are rejected.
pub const LARGEST_ACCUMULATOR_PPM: u32 = 2_225_999;
/// Largest M under the rules below, in ppm: one bad outcome above the largest value that does not latch.
const MOST_PPM: u32 = LARGEST_MARGIN_PPM - 1 + BAD_PPM;
/// A latch is released when M is at or below this value, in ppm.
const RELEASE_PPM: u32 = 500_000;
/// Increase of M by a bad outcome, in ppm: eta × (1 - alpha), eta = 0.05, alpha = 0.02.
const BAD_PPM: u32 = 49_000;
/// Decrease of M by a good outcome, in ppm: eta × alpha.
const GOOD_PPM: u32 = 1000;

/// Margin of one resource, and the open decisions that will change it.
///
/// A decision is an hour (12 frames) in which pods hold more than raw allocatable, so that amplification is in use.
/// An incident is a frame whose demand exceeds its limit, or an L3 brake; incidents less than an hour apart count as
/// one.
///
/// An incident is one bad outcome, counted at once, however many decisions of the last day (one ring) it overlaps. It
/// counts only if at least one of them is not yet overlapped by an earlier incident. A decision that becomes a day
/// old without an incident is a good outcome. A decision that an incident overlapped is no outcome of its own. No
/// decision is opened during an incident. An incident that outlasts all overlapped decisions, which takes a day,
/// counts again while amplification is in use.
///
/// **Bound.** For any workload, at most 0.02 n + 20 of the first n outcomes are bad: each moves M by eta × (err -
/// alpha), the lower bound only adds, and from M = 1 on no decision is open, so M stays below 1.049; (1.049 - 0.05) /
/// 0.05 is less than 20. In other words, while amplification is in use a node has at most 20 incidents more than one
/// for each 49 hours without one. The bound limits incidents, not their duration: during an incident the peak itself
/// leaves no slack, and pods that were admitted before end at their own time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarginCalibrator {
    /// Age in frames at which a decision is evaluated.
    judged_after: u64,
    /// Frames between two decisions; `None` if the margin is not calibrated.
    every: Option<u64>,
    /// M, in ppm: 50,000 to 1,048,999.
    #[serde(with = "stored")]
    accumulator_ppm: u32,
    is_latched: bool,
    /// Open decisions, oldest first; at most one per hour of the ring.
    open: VecDeque<PendingOutcome>,
    /// Frame of the last opened decision, of the last incident, or of the last hour counted under a latch.
    last_hour: Option<u64>,
}

/// Serialized form of M, shifted so that its least value is 100,000 as in the first version, which can read it.
mod stored {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::MARGIN_PPM;

    /// Shift of the serialized value, in ppm.
    const ABOVE_PPM: u32 = 100_000 - MARGIN_PPM;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    pub(super) fn serialize<S: Serializer>(accumulator_ppm: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        accumulator_ppm.saturating_add(ABOVE_PPM).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        Ok(u32::deserialize(deserializer)?.saturating_sub(ABOVE_PPM))
    }
}

/// An hour in which amplification was in use, less than a day old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct PendingOutcome {
    frame: u64,
    /// True if an incident has overlapped it.
    is_hit: bool,
}

impl MarginCalibrator {
    /// Margin before any outcome. It stays at [`UNCALIBRATED_PPM`] if the timing calibrates no margin.
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

    /// Drops all outcomes and open decisions: M returns to its initial value and the bound starts again. If `is_on`,
    /// outcomes count from now on, unless the timing calibrates no margin.
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

    /// m: margin to apply, in ppm, 50,000 to 1,000,000.
    pub fn margin_ppm(&self) -> u32 {
        self.accumulator_ppm.min(LARGEST_MARGIN_PPM)
    }

    /// Returns true while amplification is latched off.
    pub const fn is_latched(&self) -> bool {
        self.is_latched
    }

    /// Records an incident in this frame: demand beyond its limit, or an L3 brake.
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

    /// Records the end of a frame and evaluates the decisions that are old enough. `has_exceeded` is true if the
    /// measured demand exceeded its limit. Frames must arrive in order; some may be missing.
    pub fn evaluate(&mut self, frame: u64, has_exceeded: bool) {
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

    /// Opens a decision in this frame if amplification is in use: pods hold more than raw allocatable. The last
    /// decision and the last incident must be an hour old. Under a latch no decision is opened, and each hour counts
    /// as a good outcome.
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

    /// Returns true if this state is possible under that timing, with no frame later than `last`.
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

    /// Adopts the interval of the timing; outcomes may not have counted before.
    pub(super) fn resume(&mut self, timing: &Timing) {
        self.every = Self::new(timing).every;
        self.accumulator_ppm = self.accumulator_ppm.min(MOST_PPM);
    }

    /// Renumbers the frames; a decision without a number is old enough to be evaluated.
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
    /// Size of the open decisions, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.open.capacity() * size_of::<PendingOutcome>()
    }
}

#[cfg(test)]
mod tests;
