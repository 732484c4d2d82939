//! The margin on the predicted peak, calibrated by what came of earlier ratios: OCM of agent.md, section 2.5.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Timing, snapshot::Shift};

/// M at the start, and its lower bound, in ppm.
pub const MARGIN_PPM: u32 = 100_000;
/// The largest margin that is applied, in ppm; amplification latches off where M reaches it.
pub const LARGEST_MARGIN_PPM: u32 = 1_000_000;
/// M never reaches more than this, in ppm.
pub const LARGEST_ACCUMULATOR_PPM: u32 = 2_225_999;
/// M at or below which a latch lets go, in ppm.
const RELEASE_PPM: u32 = 500_000;
/// What a bad outcome adds to M, in ppm: eta × (1 - alpha), eta = 0.05, alpha = 0.02.
const BAD_PPM: u32 = 49_000;
/// What a good outcome takes from M, in ppm: eta × alpha.
const GOOD_PPM: u32 = 1000;

/// One resource's margin and the decisions that will move it.
///
/// An hour (12 frames) in which the node is amplified is a decision; when it is a day (one ring) old, it was a bad one
/// if any valid frame since had more demand than there is, or an L3 brake fired. For any workload, of the first n
/// outcomes at most 0.02 n + 43 are bad: each moves M by eta × (err - alpha), and M stays below 2.226.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Age in frames at which a decision is judged.
    judged_after: u64,
    /// Frames between two decisions; `None` where the margin is not calibrated.
    every: Option<u64>,
    /// M, in ppm.
    accumulator_ppm: u32,
    is_latched: bool,
    /// Oldest first; at most one ring of frames by hours.
    open: VecDeque<Decision>,
    /// Frame in which a decision was last opened, or an hour under a latch was counted.
    last_hour: Option<u64>,
}

/// A decision to amplify that is not judged yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Decision {
    frame: u64,
    is_bad: bool,
}

impl Outcome {
    /// The margin before any outcome. Where the timing calibrates no margin it stays at that.
    pub fn new(timing: &Timing) -> Self {
        Self {
            judged_after: u64::from(timing.ring_frames),
            every: timing.decision_frames.map(|frames| u64::from(frames.max(1))),
            accumulator_ppm: MARGIN_PPM,
            is_latched: false,
            open: VecDeque::new(),
            last_hour: None,
        }
    }

    /// Forgets all outcomes and open decisions: M is 100,000 again, and the bound counts from here. `is_on` says
    /// whether outcomes count from now on; under a timing that calibrates no margin they never do.
    pub fn reset(&mut self, timing: &Timing, is_on: bool) {
        *self = Self::new(timing);
        if !is_on {
            self.every = None;
        }
    }

    /// M, in ppm: 100,000 to 2,225,000.
    pub const fn accumulator_ppm(&self) -> u32 {
        self.accumulator_ppm
    }

    /// m: the margin to apply, in ppm, 100,000 to 1,000,000.
    pub fn margin_ppm(&self) -> u32 {
        self.accumulator_ppm.min(LARGEST_MARGIN_PPM)
    }

    /// Is amplification latched off?
    pub const fn is_latched(&self) -> bool {
        self.is_latched
    }

    /// An L3 brake fired: every open decision was a bad one.
    pub fn stop_fired(&mut self) {
        for decision in &mut self.open {
            decision.is_bad = true;
        }
    }

    /// Takes the end of a frame: whether its demand exceeded what there is, as far as it is valid. Judges the decisions
    /// that are old enough. Frames come in order, and may be missing.
    pub fn judge(&mut self, frame: u64, has_exceeded: bool) {
        if has_exceeded {
            self.stop_fired();
        }
        while let Some(oldest) = self.open.front().copied() {
            if frame.saturating_sub(oldest.frame) < self.judged_after {
                break;
            }
            self.open.pop_front();
            let was_latched = self.is_latched;
            self.update(oldest.is_bad);
            if self.is_latched && !was_latched {
                // Hours under the latch are counted from here.
                self.last_hour = Some(frame);
            }
        }
    }

    /// Opens a decision in this frame if the node is amplified and the last one is an hour old. Under a latch none is
    /// opened, and each hour counts as a good outcome.
    pub fn decide(&mut self, frame: u64, is_amplified: bool) {
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
        } else if is_amplified {
            self.open.push_back(Decision { frame, is_bad: false });
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
    }

    /// Numbers the frames anew; what was decided before there are numbers is old enough to be judged.
    pub(super) fn shift(&mut self, shift: Shift) {
        for decision in &mut self.open {
            decision.frame = shift.of(decision.frame).unwrap_or(0);
        }
        self.last_hour = self.last_hour.map(|frame| shift.of(frame).unwrap_or(0));
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
impl Outcome {
    /// Bytes of open decisions.
    pub(super) fn bytes(&self) -> usize {
        self.open.capacity() * size_of::<Decision>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::estimate::Profile;

    const DAY: u64 = 288;
    const HOUR: u64 = 12;

    fn outcome() -> Outcome {
        Outcome::new(&Profile::Production.timing())
    }

    fn updates(outcome: &mut Outcome, count: usize, is_bad: bool) -> (u32, bool) {
        for _ in 0..count {
            outcome.update(is_bad);
        }
        (outcome.accumulator_ppm(), outcome.is_latched())
    }

    /// Vector (j) of agent.md, section 2.11.
    #[test]
    fn nineteen_errors_latch_and_seventy_days_without_any_let_go() {
        let mut outcome = outcome();
        assert_eq!(updates(&mut outcome, 18, true), (982_000, false));
        assert_eq!(updates(&mut outcome, 1, true), (1_031_000, true));
        assert_eq!(updates(&mut outcome, 24, true), (2_207_000, true));
        assert_eq!(outcome.margin_ppm(), 1_000_000, "no more is applied");
        assert_eq!(updates(&mut outcome, 1706, false), (501_000, true));
        assert_eq!(updates(&mut outcome, 1, false), (500_000, false));
        assert_eq!(updates(&mut outcome, 9999, false), (100_000, false));
    }

    #[test]
    fn an_hour_is_judged_when_it_is_a_day_old() {
        let mut outcome = outcome();
        outcome.decide(0, true);
        for frame in 1..DAY {
            outcome.judge(frame, frame == 5);
        }
        assert_eq!(outcome.accumulator_ppm(), 100_000, "not a day old yet");
        outcome.judge(DAY, false);
        assert_eq!(outcome.accumulator_ppm(), 149_000);
        outcome.judge(DAY + 1, true);
        assert_eq!(outcome.accumulator_ppm(), 149_000, "judged once");
    }

    #[test]
    fn the_frame_that_ends_the_day_belongs_to_it() {
        let mut outcome = outcome();
        outcome.decide(7, true);
        outcome.judge(7 + DAY, true);
        assert_eq!(outcome.accumulator_ppm(), 149_000);
    }

    #[test]
    fn an_l3_brake_makes_the_decisions_that_are_open_bad_ones() {
        let mut outcome = outcome();
        outcome.decide(0, true);
        outcome.stop_fired();
        outcome.decide(HOUR, true);
        outcome.judge(DAY, false);
        assert_eq!(outcome.accumulator_ppm(), 149_000);
        outcome.judge(DAY + HOUR, false);
        assert_eq!(outcome.accumulator_ppm(), 148_000, "the later one was a good one");
    }

    #[test]
    fn decisions_are_an_hour_apart_and_only_where_the_node_is_amplified() {
        let mut outcome = outcome();
        for frame in 0..30 {
            outcome.decide(frame, frame >= 3);
        }
        let opened: Vec<_> = outcome.open.iter().map(|decision| decision.frame).collect();
        assert_eq!(opened, [3, 15, 27]);
    }

    #[test]
    fn a_day_has_at_most_twenty_four_open_decisions_even_with_frames_missing() {
        let mut outcome = outcome();
        for frame in (0..3000).filter(|frame| frame % 7 != 3 && frame % 300 < 250) {
            outcome.judge(frame, false);
            outcome.decide(frame, true);
            assert!(outcome.open.len() <= 24, "at frame {frame}");
        }
    }

    #[test]
    fn under_a_latch_nothing_is_decided_and_each_hour_is_a_good_one() {
        let mut outcome = outcome();
        updates(&mut outcome, 19, true);
        for frame in 0..=10 * HOUR {
            outcome.judge(frame, true);
            outcome.decide(frame, true);
        }
        assert!(outcome.open.is_empty());
        assert_eq!(outcome.accumulator_ppm(), 1_031_000 - 11_000);
    }

    #[test]
    fn the_demo_and_who_switched_it_off_keep_the_margin() {
        let demo = Outcome::new(&Profile::Demo.timing());
        let mut off = outcome();
        updates(&mut off, 30, true);
        off.reset(&Profile::Production.timing(), false);
        for mut outcome in [demo, off] {
            for frame in 0..1000 {
                outcome.judge(frame, true);
                outcome.decide(frame, true);
            }
            assert_eq!((outcome.margin_ppm(), outcome.is_latched()), (100_000, false));
        }
        let mut on_again = outcome();
        on_again.reset(&Profile::Production.timing(), true);
        assert_eq!(on_again, outcome());
    }

    /// What an adversary does over some hours.
    #[derive(Clone, Copy, Debug)]
    struct Stretch {
        hours: u64,
        is_amplified: bool,
        exceeds_every: u64,
        stops_every: u64,
    }

    fn stretch() -> impl Strategy<Value = Stretch> {
        let hours = prop_oneof![3 => 1..60_u64, 1 => 100..2500_u64];
        let often = prop_oneof![Just(1), 1..60_u64, Just(u64::MAX)];
        (hours, prop::bool::weighted(0.9), often.clone(), often).prop_map(
            |(hours, is_amplified, exceeds_every, stops_every)| Stretch {
                hours,
                is_amplified,
                exceeds_every,
                stops_every,
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        /// One frame an hour, so that 24 decisions are open as in production and a case covers months.
        #[test]
        fn of_n_outcomes_at_most_two_percent_and_43_are_bad(
            stretches in prop::collection::vec(stretch(), 1..6),
        ) {
            let timing = Timing { ring_frames: 24, decision_frames: Some(1), ..Profile::Production.timing() };
            let mut outcome = Outcome::new(&timing);
            let (mut outcomes, mut bad, mut frame) = (0_u64, 0_u64, 0);
            for Stretch { hours, is_amplified, exceeds_every, stops_every } in stretches {
                for hour in 0..hours {
                    if hour % stops_every == 0 {
                        outcome.stop_fired();
                    }
                    let (before, open) = (outcome.accumulator_ppm(), outcome.open.len());
                    outcome.judge(frame, hour % exceeds_every == 0);
                    // With a frame an hour there is one decision at most to judge.
                    outcomes += u64::try_from(open - outcome.open.len()).unwrap();
                    bad += u64::from(outcome.accumulator_ppm() > before);
                    outcomes += u64::from(outcome.is_latched());
                    outcome.decide(frame, is_amplified);
                    frame += 1;
                    prop_assert!(outcome.open.len() <= 24);
                    prop_assert!((MARGIN_PPM..=LARGEST_ACCUMULATOR_PPM).contains(&outcome.accumulator_ppm()));
                    prop_assert!(bad * 50 <= outcomes + 43 * 50, "{bad} of {outcomes}");
                }
            }
        }
    }
}
