//! Tests of the margin calibrator: events that change the margin and events that do not, and the bound on bad
//! outcomes under random and correlated incidents.

use proptest::prelude::*;

use super::*;
use crate::estimate::Profile;

const DAY: u64 = 288;
const HOUR: u64 = 12;

fn outcome() -> MarginCalibrator {
    MarginCalibrator::new(&Profile::Production.timing())
}

fn updates(outcome: &mut MarginCalibrator, count: usize, is_bad: bool) -> (u32, bool) {
    for _ in 0..count {
        outcome.update(is_bad);
    }
    (outcome.accumulator_ppm(), outcome.is_latched())
}

/// Runs frames in which amplification is in use; frames for which `exceeded` returns true exceed their limit.
fn run(outcome: &mut MarginCalibrator, frames: std::ops::Range<u64>, exceeded: impl Fn(u64) -> bool) {
    for frame in frames {
        outcome.evaluate(frame, exceeded(frame));
        outcome.decide(frame, true);
    }
}

#[test]
fn twenty_bad_outcomes_latch_and_three_good_weeks_release() {
    let mut outcome = outcome();
    assert_eq!(updates(&mut outcome, 19, true), (981_000, false));
    assert_eq!(updates(&mut outcome, 1, true), (1_030_000, true));
    assert_eq!(outcome.margin_ppm(), 1_000_000, "no more is applied");
    assert_eq!(updates(&mut outcome, 529, false), (501_000, true));
    assert_eq!(updates(&mut outcome, 1, false), (500_000, false));
    assert_eq!(updates(&mut outcome, 9999, false), (50_000, false));
}

#[test]
fn a_day_without_incident_after_a_decision_is_a_good_outcome() {
    let mut outcome = outcome();
    updates(&mut outcome, 1, true);
    outcome.decide(0, true);
    (1..DAY).for_each(|frame| outcome.evaluate(frame, false));
    assert_eq!(outcome.accumulator_ppm(), 99_000, "not a day old yet");
    outcome.evaluate(DAY, false);
    assert_eq!(outcome.accumulator_ppm(), 98_000);
    outcome.evaluate(DAY + 1, true);
    assert_eq!(outcome.accumulator_ppm(), 98_000, "judged once");
}

#[test]
fn an_incident_counts_at_once_and_the_frame_that_ends_the_day_belongs_to_it() {
    let mut outcome = outcome();
    outcome.decide(7, true);
    outcome.evaluate(7 + DAY, true);
    assert_eq!(outcome.accumulator_ppm(), 99_000);
    let mut early = self::outcome();
    early.decide(7, true);
    early.evaluate(8, true);
    assert_eq!(early.accumulator_ppm(), 99_000);
    early.evaluate(7 + DAY, false);
    assert_eq!(early.accumulator_ppm(), 99_000, "it is no good outcome besides");
}

/// Twenty-four decisions are open when the CPUs are saturated for half a minute: one outcome, not twenty-four.
#[test]
fn one_incident_is_one_outcome_for_any_overlap() {
    let mut outcome = outcome();
    run(&mut outcome, 0..DAY, |_| false);
    assert_eq!(outcome.open.len(), 24);
    for _ in 0..3 {
        outcome.incident(DAY);
    }
    run(&mut outcome, DAY..2 * DAY, |_| false);
    assert_eq!((outcome.accumulator_ppm(), outcome.is_latched()), (99_000, false));
}

#[test]
fn frames_less_than_an_hour_apart_are_one_incident() {
    let mut outcome = outcome();
    run(&mut outcome, 0..DAY, |_| false);
    // Three hours in which every tenth frame exceeds its limit.
    run(&mut outcome, DAY..DAY + 3 * HOUR, |frame| frame % 10 == 0);
    assert_eq!(outcome.accumulator_ppm(), 99_000);
    let mut apart = self::outcome();
    run(&mut apart, 0..DAY, |_| false);
    run(&mut apart, DAY..DAY + 3 * HOUR, |frame| {
        frame == DAY || frame == DAY + HOUR + 1
    });
    assert_eq!(apart.accumulator_ppm(), 148_000, "an hour lies between");
}

/// A lasting incident is counted again each day.
#[test]
fn a_lasting_incident_counts_again_each_day() {
    let mut outcome = outcome();
    run(&mut outcome, 0..DAY, |_| false);
    let before = outcome.accumulator_ppm();
    run(&mut outcome, DAY..8 * DAY, |_| true);
    let counted = (outcome.accumulator_ppm() - before) / BAD_PPM;
    assert!((6..=7).contains(&counted), "{counted} in a week");
}

#[test]
fn decisions_are_an_hour_apart_and_only_while_amplification_is_in_use() {
    let mut outcome = outcome();
    for frame in 0..30 {
        outcome.decide(frame, frame >= 3);
    }
    let opened: Vec<_> = outcome.open.iter().map(|decision| decision.frame).collect();
    assert_eq!(opened, [3, 15, 27]);
    let mut unused = self::outcome();
    for frame in 0..2 * DAY {
        unused.evaluate(frame, true);
        unused.decide(frame, false);
    }
    assert_eq!(unused, self::outcome(), "raw would have let in as much");
}

#[test]
fn a_day_has_at_most_twenty_four_open_decisions_even_with_frames_missing() {
    let mut outcome = outcome();
    for frame in (0..3000).filter(|frame| frame % 7 != 3 && frame % 300 < 250) {
        outcome.evaluate(frame, false);
        outcome.decide(frame, true);
        assert!(outcome.open.len() <= 24, "at frame {frame}");
    }
}

#[test]
fn a_latch_opens_no_decision_and_each_hour_is_a_good_outcome() {
    let mut outcome = outcome();
    updates(&mut outcome, 19, true);
    outcome.decide(0, true);
    outcome.evaluate(1, true);
    assert!(outcome.open.is_empty(), "what was open ends with the latch");
    run(&mut outcome, 2..2 + 10 * HOUR, |_| true);
    assert!(outcome.open.is_empty());
    assert_eq!(outcome.accumulator_ppm(), 1_030_000 - 10_000);
}

#[test]
fn the_demo_profile_and_disabled_calibration_keep_the_margin() {
    let demo = MarginCalibrator::new(&Profile::Demo.timing());
    let mut off = outcome();
    updates(&mut off, 30, true);
    off.reset(&Profile::Production.timing(), false);
    for mut outcome in [demo, off] {
        run(&mut outcome, 0..1000, |_| true);
        assert_eq!(
            (outcome.margin_ppm(), outcome.is_latched()),
            (UNCALIBRATED_PPM, false)
        );
    }
    let mut on_again = outcome();
    on_again.reset(&Profile::Production.timing(), true);
    assert_eq!(on_again, outcome());
}

#[test]
fn an_earlier_versions_margin_is_adopted_up_to_the_maximum() {
    let mut outcome = outcome();
    outcome.accumulator_ppm = LARGEST_ACCUMULATOR_PPM;
    outcome.is_latched = true;
    assert!(outcome.is_sound(&Profile::Production.timing(), 0));
    outcome.resume(&Profile::Production.timing());
    assert_eq!(
        (outcome.accumulator_ppm(), outcome.is_latched()),
        (1_048_999, true)
    );
}

#[test]
fn checkpoints_store_the_margin_in_the_first_versions_scale() {
    let mut first = serde_json::to_value(outcome()).unwrap();
    assert_eq!(first["accumulator_ppm"], 100_000);
    assert_eq!(
        serde_json::from_value::<MarginCalibrator>(first.clone()).unwrap(),
        outcome()
    );
    first["accumulator_ppm"] = 0.into();
    let forged: MarginCalibrator = serde_json::from_value(first).unwrap();
    assert!(!forged.is_sound(&Profile::Production.timing(), 0));
}

/// Action of an adversary for some hours: incidents of `frames` frames that begin at a fixed distance.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    hours: u64,
    is_in_use: bool,
    every: u64,
    lasts: u64,
    is_stop: bool,
}

fn stretch() -> impl Strategy<Value = Stretch> {
    let hours = prop_oneof![3 => 1..60_u64, 1 => 100..1500_u64];
    let every = prop_oneof![1..40_u64, 40..600_u64, 600..6000_u64, Just(u64::MAX)];
    let lasts = prop_oneof![Just(1), 1..40_u64, 40..600_u64];
    (hours, prop::bool::weighted(0.9), every, lasts, any::<bool>()).prop_map(
        |(hours, is_in_use, every, lasts, is_stop)| Stretch {
            hours,
            is_in_use,
            every,
            lasts,
            is_stop,
        },
    )
}

/// Good and bad outcomes of one frame.
fn frame(outcome: &mut MarginCalibrator, frame: u64, is_incident: bool, stretch: &Stretch) -> (u64, u64) {
    let is_ripe = |decision: &&PendingOutcome| !decision.is_hit && frame - decision.frame >= DAY;
    let ripe = outcome.open.iter().filter(is_ripe).count();
    let before = outcome.accumulator_ppm();
    if is_incident && stretch.is_stop {
        outcome.incident(frame);
    }
    let has_counted = outcome.accumulator_ppm() > before;
    outcome.evaluate(frame, is_incident);
    let bad = u64::from(has_counted || outcome.accumulator_ppm() > before);
    let (was_latched, hour) = (outcome.is_latched(), outcome.last_hour);
    outcome.decide(frame, stretch.is_in_use);
    let latched_hours = u64::from(was_latched && outcome.last_hour != hour);
    let good = if is_incident {
        0
    } else {
        u64::try_from(ripe).unwrap()
    };
    (good + latched_hours, bad)
}

/// Counts incidents by their frames alone: those less than an hour apart are one, and a long one counts again when
/// the youngest overlapped decision, which was at most an hour old, is a day old.
#[derive(Debug, Default)]
struct Incidents {
    count: u64,
    began: Option<u64>,
    last: Option<u64>,
}

impl Incidents {
    fn record(&mut self, frame: u64) {
        let is_within = |since: Option<u64>, span| since.is_some_and(|since| frame - since < span);
        if !is_within(self.last, HOUR) || !is_within(self.began, DAY - HOUR) {
            self.count += 1;
            self.began = Some(frame);
        }
        self.last = Some(frame);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Outcomes are counted here from the changes to decisions.
    #[test]
    fn at_most_two_percent_plus_20_of_n_outcomes_are_bad(
        stretches in prop::collection::vec(stretch(), 1..6),
    ) {
        let mut outcome = outcome();
        let (mut outcomes, mut bad, mut now) = (0_u64, 0_u64, 0_u64);
        for stretch in stretches {
            for at in 0..stretch.hours * HOUR {
                let came = frame(&mut outcome, now, at % stretch.every < stretch.lasts, &stretch);
                outcomes += came.0 + came.1;
                bad += came.1;
                now += 1;
                prop_assert!(outcome.open.len() <= 24);
                prop_assert!((MARGIN_PPM..=MOST_PPM).contains(&outcome.accumulator_ppm()));
                prop_assert!(bad * 50 <= outcomes + 20 * 50, "{bad} of {outcomes}");
            }
        }
    }

    /// Correlated incidents: bursts of related frames count at most once, for any overlap.
    #[test]
    fn bad_outcomes_are_at_most_incidents(
        stretches in prop::collection::vec(stretch(), 1..6),
    ) {
        let mut outcome = outcome();
        let (mut incidents, mut bad, mut now) = (Incidents::default(), 0_u64, 0_u64);
        for stretch in stretches {
            let in_use = Stretch { is_in_use: true, ..stretch };
            for at in 0..stretch.hours * HOUR {
                let is_incident = at % stretch.every < stretch.lasts;
                if is_incident {
                    incidents.record(now);
                }
                bad += frame(&mut outcome, now, is_incident, &in_use).1;
                now += 1;
                prop_assert!(bad <= incidents.count, "{bad} outcomes of {incidents:?}");
            }
        }
    }
}
