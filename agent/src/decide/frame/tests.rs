//! Tests of `Frames` on made-up polls: a frame counts as a whole, as a bound, or not at all.

use headroom_domain::estimate::{PodUse, Profile};

use super::*;
use crate::{
    decide::fixtures::{POLL, QUARTER, poll},
    sample::clock::Clocks,
};

fn frames() -> Frames {
    Frames::new(Profile::Demo.timing(), POLL)
}

/// Runs polls with this many busy milli-cores each, from quarter `first` on; returns the ended frames.
fn run(frames: &mut Frames, first: u64, busy: &[u64]) -> Vec<Frame> {
    let mut ended = Vec::new();
    for (quarter, busy) in (first..).zip(busy) {
        frames.record_memory(1000 + *busy);
        ended.extend(frames.observe(&poll(quarter, *busy)).map(|ended| ended.frame));
    }
    ended
}

#[test]
fn a_frame_is_the_peak_of_its_seconds() {
    let mut frames = frames();
    run(&mut frames, 4, &[100]);
    let ended = run(&mut frames, 5, &[500, 900, 300, 200]);
    assert_eq!(
        (ended[0].index, ended[0].is_valid),
        (1, false),
        "its beginning was not seen"
    );
    let ended = run(&mut frames, 9, &[500, 900, 300, 200]);
    assert_eq!(ended.len(), 1);
    assert_eq!((ended[0].index, ended[0].is_valid), (2, true));
    assert_eq!(
        ended[0].peak,
        PerResource {
            cpu: 900,
            memory: 1900
        }
    );
}

#[test]
fn a_frame_with_too_few_seconds_does_not_count() {
    let mut frames = frames();
    run(&mut frames, 4, &[1; 5]);
    let mut late = poll(12, 100);
    late.counts.from_ns -= QUARTER;
    frames.record_memory(1);
    frames.observe(&poll(9, 100));
    // One poll for three quarters: two seconds in all.
    let ended = frames.observe(&late).unwrap().frame;
    assert_eq!((ended.index, ended.is_valid), (2, false));
}

#[test]
fn a_frame_that_lost_more_than_a_few_windows_does_not_count() {
    // A second has 119 windows that were seen; a fifth of all may be lost.
    let is_valid_with = |lost: u64| {
        let mut frames = frames();
        run(&mut frames, 4, &[1; 5]);
        let ended = (9..=12).filter_map(|quarter| {
            let mut poll = poll(quarter, 100);
            poll.counts.lost_windows = if quarter == 10 { lost } else { 0 };
            frames.record_memory(1);
            frames.observe(&poll)
        });
        ended.last().unwrap().frame.is_valid
    };
    assert!(is_valid_with(0) && is_valid_with(28));
    assert!(!is_valid_with(32) && !is_valid_with(1000));
}

#[test]
fn a_frame_without_memory_samples_does_not_count() {
    let mut frames = frames();
    run(&mut frames, 4, &[1; 5]);
    let ended = (9..=12)
        .filter_map(|quarter| frames.observe(&poll(quarter, 1)))
        .last()
        .unwrap();
    assert!(!ended.frame.is_valid);
}

/// True if a production frame with this number of memory samples is valid, of 60 that were due.
fn is_valid_with(memory_samples: u32) -> bool {
    let mut frames = Frames::new(Profile::Production.timing(), POLL);
    let mut due = 0;
    // One poll before the frame, so that its beginning is seen.
    let ended = (2399..=3600).filter_map(|quarter| {
        if quarter > 2400 && quarter % 20 == 0 {
            due += 1;
            if due <= memory_samples {
                frames.record_memory(1);
            }
        }
        frames.observe(&poll(quarter, 1))
    });
    let ended = ended.last().unwrap().frame;
    assert_eq!((ended.index, due), (2, 60), "of the frame");
    ended.is_valid
}

#[test]
fn a_frame_with_too_few_memory_samples_does_not_count() {
    assert!(!is_valid_with(47), "235 of 300 seconds");
    assert!(is_valid_with(48), "240 of 300 seconds");
}

#[test]
fn demo_timing_requires_three_of_four_memory_samples() {
    let ended = [2, 3].map(|samples| {
        let mut frames = frames();
        run(&mut frames, 4, &[1; 5]);
        let ended = (9..=12).filter_map(|quarter| {
            if quarter < 9 + samples {
                frames.record_memory(1);
            }
            frames.observe(&poll(quarter, 1))
        });
        ended.last().map(|ended| ended.frame.is_valid)
    });
    assert_eq!(ended, [Some(false), Some(true)]);
}

#[test]
fn pods_that_cannot_be_read_have_not_left() {
    let mut frames = frames();
    run(&mut frames, 4, &[1; 4]);
    let pods = PodFrame {
        used: [("a".to_owned(), PodUse::default())].into(),
        unmeasured: ["b".to_owned()].into(),
        ..PodFrame::default()
    };
    frames.record_pods(pods);
    let read = run(&mut frames, 8, &[1]);
    assert_eq!((read[0].pods.len(), read[0].unmeasured.len()), (1, 1));
    let unread = run(&mut frames, 9, &[1; 4]);
    assert_eq!((unread[0].pods.len(), unread[0].unmeasured.len()), (0, 2));
}

#[test]
fn a_suspend_voids_only_the_frame_it_is_in() {
    let mut frames = frames();
    run(&mut frames, 4, &[1; 6]);
    let hours = 2 * 3600;
    let mut awake = |quarter: u64| {
        let mut poll = poll(quarter, 1);
        poll.at = Clocks {
            boottime_ns: poll.at.boottime_ns + hours * 4 * QUARTER,
            ..poll.at
        };
        frames.record_memory(1);
        frames
            .observe(&poll)
            .map(|ended| (ended.frame.index, ended.frame.is_valid))
    };
    let ended: Vec<_> = (10..=20).filter_map(&mut awake).collect();
    assert_eq!(
        ended,
        [
            (2, false),
            (2 + hours, false),
            (3 + hours, true),
            (4 + hours, true)
        ]
    );
}

#[test]
fn a_poll_of_an_earlier_frame_ends_nothing_and_voids_the_frame() {
    let mut frames = frames();
    run(&mut frames, 4, &[1; 6]);
    // Quarter 10 was of frame 2: back to frame 1, and on.
    let mut early = poll(10, 1);
    early.at = poll(5, 1).at;
    frames.record_memory(1);
    assert!(frames.observe(&early).is_none());
    let ended: Vec<_> = run(&mut frames, 11, &[1; 6])
        .iter()
        .map(|frame| (frame.index, frame.is_valid))
        .collect();
    assert_eq!(ended, [(2, false), (3, true)], "each once");
}

#[test]
fn a_change_of_cpus_voids_the_frame() {
    let mut frames = frames();
    run(&mut frames, 4, &[1; 5]);
    let ended: Vec<_> = (9..=16)
        .filter_map(|quarter| {
            let mut poll = poll(quarter, 1);
            poll.cpus = if quarter >= 10 { 2 } else { 4 };
            frames.record_memory(1);
            frames.observe(&poll).map(|ended| ended.frame.is_valid)
        })
        .collect();
    assert_eq!(ended, [false, true]);
}

#[test]
fn the_p99_of_a_production_frame_leaves_three_seconds_out() {
    let timing = Profile::Production.timing();
    let mut frames = Frames::new(timing, POLL);
    let mut ended = Vec::new();
    for quarter in 1200..=3600 {
        let busy = if (2000..2012).contains(&quarter) {
            3000
        } else {
            1000
        };
        frames.record_memory(5);
        ended.extend(frames.observe(&poll(quarter, busy)));
    }
    let frames: Vec<_> = ended
        .iter()
        .map(|ended| (ended.frame.is_valid, ended.frame.peak.cpu))
        .collect();
    assert_eq!(frames, [(false, 1000), (true, 1000)]);
    assert_eq!(ended[1].mean.busy_milli(), 1000);
}

#[test]
fn a_poll_of_more_than_two_seconds_and_three_turns_voids_its_frame() {
    let is_valid_with = |more_ns: u64| {
        let mut frames = Frames::new(Profile::Production.timing(), POLL);
        let long = 11;
        let polls = (1200..3000).chain(3000 + long - 1..=3600);
        let ended = polls.filter_map(|quarter| {
            let mut poll = poll(quarter, 1000);
            if quarter == 3000 + long - 1 {
                poll.counts.from_ns -= (long - 1) * QUARTER + more_ns;
                poll.counts.busy_ns *= long;
            }
            frames.record_memory(5);
            frames.observe(&poll)
        });
        ended.last().unwrap().frame.is_valid
    };
    assert!(is_valid_with(0));
    assert!(!is_valid_with(1));
}

/// A machine so starved that polls are three seconds apart: the observed part of the frame is a bound.
#[test]
fn a_frame_with_missing_polls_bounds_its_peak_from_below() {
    let timing = Profile::Production.timing();
    let mut frames = Frames::new(timing, POLL);
    let mut last = None;
    let starved = |quarter: u64, busy: u64| {
        let mut poll = poll(quarter, busy);
        poll.counts.from_ns -= 11 * QUARTER;
        poll.counts.busy_ns *= 12;
        poll.counts.lost_windows = 300;
        poll
    };
    for quarter in (1200..=3600).step_by(12) {
        // Four of its stretches were full, as were many before.
        let busy = if (2412..2460).contains(&quarter) {
            4000
        } else {
            700
        };
        frames.record_memory(busy);
        last = frames.observe(&starved(quarter, busy)).or(last);
    }
    let frame = last.unwrap().frame;
    assert!(!frame.is_valid && frame.is_bound);
    assert_eq!(
        frame.peak,
        PerResource {
            cpu: 4000,
            memory: 4000
        }
    );
}

#[test]
fn a_bound_covers_the_whole_frame() {
    assert_eq!(
        least_p99(vec![9, 8, 7, 6, 5], 300),
        6,
        "three seconds may be more"
    );
    assert_eq!(least_p99(vec![9, 8, 7], 300), 0);
    assert_eq!(least_p99(vec![9], 4), 9, "the largest of four counts");
    let all: Vec<u64> = (1..=300).collect();
    assert_eq!(least_p99(all.clone(), 300), nearest_rank_p99(&all));
}

/// Measurements under a clock that goes back bound nothing.
#[test]
fn a_frame_in_which_time_went_back_bounds_nothing() {
    let mut frames = frames();
    run(&mut frames, 4, &[1; 6]);
    let mut early = poll(10, 4000);
    early.at = poll(5, 4000).at;
    frames.observe(&early);
    let ended = run(&mut frames, 11, &[1; 2]);
    assert_eq!((ended[0].is_valid, ended[0].is_bound), (false, false));
}

/// A clock that stands still ends no frame, and the one that follows the pause does not count.
#[test]
fn a_machine_that_stood_still_has_no_valid_frame_of_that_minute() {
    let mut frames = frames();
    run(&mut frames, 4, &[1; 6]);
    for _ in 0..240 {
        let mut still = poll(9, 0);
        still.counts.from_ns = still.counts.until_ns;
        frames.record_memory(1);
        assert!(frames.observe(&still).is_none(), "no time has passed");
    }
    // Then it jumps: the stretch is as long as the pause.
    let mut jump = poll(10 + 240, 1);
    jump.counts.from_ns = poll(9, 0).counts.until_ns;
    frames.record_memory(1);
    let ended = frames.observe(&jump).unwrap().frame;
    assert!(!ended.is_valid);
    let after = run(&mut frames, 251, &[1; 10]);
    let valid: Vec<_> = after.iter().map(|frame| frame.is_valid).collect();
    assert_eq!(
        valid,
        [false, true, true],
        "the frame of the jump, and those after it"
    );
}
