//! Seconds and memory samples gathered into frames: F of agent.md, section 2.3, and whether it counts.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::Duration,
};

use headroom_domain::{
    estimate::{Frame, Timing, nearest_rank_p99},
    resource::PerResource,
};

use super::tally::Tally;
use crate::{
    gather::{PodFrame, nanoseconds},
    sample::Poll,
};

/// A jump of suspended time larger than this voids a frame.
const LONGEST_SUSPEND_NS: u64 = 1_000_000_000;
/// A frame that lost more than one window in so many is void.
const WINDOWS_TO_A_LOST_ONE: u64 = 5;
/// A poll that covers more than this voids a frame: the machine, or the agent, stood still.
const LONGEST_POLL_NS: u64 = 2_000_000_000;

/// What a frame has been so far.
#[derive(Debug)]
pub(super) struct Frames {
    timing: Timing,
    frame_ns: u64,
    /// A stretch of at least this makes a second.
    least_second_ns: u64,
    second: Tally,
    open: Option<Open>,
    /// Pods that were there when they were last read.
    there: BTreeSet<String>,
}

/// A frame that ended, with the mean over it.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) frame: Frame,
    pub(super) mean: Tally,
}

#[derive(Debug, Default)]
struct Open {
    index: u64,
    demands: Vec<u64>,
    mean: Tally,
    /// The largest memory sample: U.
    memory: u64,
    memory_samples: u32,
    /// `None` if they could not be read.
    pods: Option<PodFrame>,
    suspended_ns: u64,
    cpus: u32,
    windows: u64,
    lost_windows: u64,
    is_void: bool,
}

impl Frames {
    /// Frames and seconds of this timing, from polls that come every `poll`.
    pub(super) fn new(timing: Timing, poll: Duration) -> Self {
        Self {
            timing,
            frame_ns: nanoseconds(timing.frame()).max(1),
            // Polls are not exactly one interval apart; half of one keeps a second from swallowing the next poll.
            least_second_ns: nanoseconds(timing.second.saturating_sub(poll / 2)).max(1),
            second: Tally::default(),
            open: None,
            there: BTreeSet::new(),
        }
    }

    /// Takes a memory sample: U.
    pub(super) fn take_memory(&mut self, charged: u64) {
        if let Some(open) = &mut self.open {
            open.memory = open.memory.max(charged);
            open.memory_samples = open.memory_samples.saturating_add(1);
        }
    }

    /// Takes what the pods used in the frame that is about to end.
    pub(super) fn take_pods(&mut self, pods: PodFrame) {
        if let Some(open) = &mut self.open {
            self.there = pods.used.keys().chain(&pods.unmeasured).cloned().collect();
            open.pods = Some(pods);
        }
    }

    /// Takes CPU time that pods with CPUs of their own left unused since the poll before.
    pub(super) const fn take_unused(&mut self, unused_ns: u64) {
        self.second.add_unused(unused_ns);
    }

    /// Voids the frame that is under way.
    pub(super) const fn void(&mut self) {
        if let Some(open) = &mut self.open {
            open.is_void = true;
        }
    }

    /// Takes a poll; the frame, if the poll completes one.
    ///
    /// Time since boot never goes back. Should a poll say that it did, it ends nothing and opens no frame a second
    /// time: its frame is void, and goes on until time is past it.
    pub(super) fn take(&mut self, poll: &Poll) -> Option<Ended> {
        let suspended_ns = poll.at.suspended_ns();
        let open = self.open.get_or_insert_with(|| Open {
            index: poll.at.boottime_ns / self.frame_ns,
            suspended_ns,
            cpus: poll.cpus,
            // Nobody watched its beginning.
            is_void: true,
            ..Open::default()
        });
        let poll_ns = poll.counts.until_ns.saturating_sub(poll.counts.from_ns);
        open.is_void |= suspended_ns.abs_diff(open.suspended_ns) > LONGEST_SUSPEND_NS
            || poll.cpus != open.cpus
            || poll_ns > LONGEST_POLL_NS;
        open.lost_windows = open.lost_windows.saturating_add(poll.counts.lost_windows);
        open.windows = open
            .windows
            .saturating_add(poll.counts.lost_windows + poll.counts.windows.windows.len() as u64);
        self.second.add(&Tally::of(poll));
        if self.second.length_ns() >= self.least_second_ns {
            let second = mem::take(&mut self.second);
            open.demands.push(second.demand_milli(poll.cpus));
            open.mean.add(&second);
        }
        let index = poll.at.boottime_ns / self.frame_ns;
        if index <= open.index {
            open.is_void |= index < open.index;
            return None;
        }
        let next = Open {
            index,
            suspended_ns,
            cpus: poll.cpus,
            ..Open::default()
        };
        let ended = mem::replace(open, next);
        Some(ended.close(&self.timing, &self.there))
    }
}

impl Open {
    /// The frame; where pods could not be read, those that were there before have not left.
    fn close(self, timing: &Timing, there: &BTreeSet<String>) -> Ended {
        let Self {
            index,
            demands,
            mean,
            memory,
            memory_samples,
            pods,
            suspended_ns: _,
            cpus: _,
            windows,
            lost_windows,
            is_void,
        } = self;
        let is_void = is_void || lost_windows.saturating_mul(WINDOWS_TO_A_LOST_ONE) > windows;
        let (used, unmeasured) = match pods {
            Some(PodFrame { used, unmeasured, .. }) => (used, unmeasured),
            None => (BTreeMap::new(), there.clone()),
        };
        let seconds = u32::try_from(demands.len()).unwrap_or(u32::MAX);
        // Each memory sample stands for the interval it is taken at.
        let sampled = timing.memory_sample.saturating_mul(memory_samples);
        let has_memory = sampled >= timing.second.saturating_mul(timing.valid_seconds);
        let frame = Frame {
            index,
            is_valid: !is_void && seconds >= timing.valid_seconds && has_memory,
            peak: PerResource {
                cpu: nearest_rank_p99(&demands),
                memory,
            },
            pods: used,
            unmeasured,
        };
        Ended { frame, mean }
    }
}

#[cfg(test)]
mod tests {
    use headroom_domain::estimate::{PodUse, Profile};

    use super::*;
    use crate::{
        decide::fake::{POLL, QUARTER, poll},
        sample::clock::Clocks,
    };

    fn frames() -> Frames {
        Frames::new(Profile::Demo.timing(), POLL)
    }

    /// Polls with this many busy milli-cores each, from quarter `first` on; what ended.
    fn run(frames: &mut Frames, first: u64, busy: &[u64]) -> Vec<Frame> {
        let mut ended = Vec::new();
        for (quarter, busy) in (first..).zip(busy) {
            frames.take_memory(1000 + *busy);
            ended.extend(frames.take(&poll(quarter, *busy)).map(|ended| ended.frame));
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
        frames.take_memory(1);
        frames.take(&poll(9, 100));
        // One poll for three quarters: two seconds in all.
        let ended = frames.take(&late).unwrap().frame;
        assert_eq!((ended.index, ended.is_valid), (2, false));
    }

    #[test]
    fn a_frame_without_memory_samples_does_not_count() {
        let mut frames = frames();
        run(&mut frames, 4, &[1; 5]);
        let ended = (9..=12)
            .filter_map(|quarter| frames.take(&poll(quarter, 1)))
            .last()
            .unwrap();
        assert!(!ended.frame.is_valid);
    }

    /// Is a production frame valid in which so many memory samples were taken, of 60 that were due?
    fn is_valid_with(memory_samples: u32) -> bool {
        let mut frames = Frames::new(Profile::Production.timing(), POLL);
        let mut due = 0;
        // One poll before the frame, so that its beginning is seen.
        let ended = (2399..=3600).filter_map(|quarter| {
            if quarter > 2400 && quarter % 20 == 0 {
                due += 1;
                if due <= memory_samples {
                    frames.take_memory(1);
                }
            }
            frames.take(&poll(quarter, 1))
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
    fn a_demonstration_wants_three_memory_samples_of_four() {
        let ended = [2, 3].map(|samples| {
            let mut frames = frames();
            run(&mut frames, 4, &[1; 5]);
            let ended = (9..=12).filter_map(|quarter| {
                if quarter < 9 + samples {
                    frames.take_memory(1);
                }
                frames.take(&poll(quarter, 1))
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
        frames.take_pods(pods);
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
            frames.take_memory(1);
            frames
                .take(&poll)
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
        frames.take_memory(1);
        assert!(frames.take(&early).is_none());
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
                frames.take_memory(1);
                frames.take(&poll).map(|ended| ended.frame.is_valid)
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
            frames.take_memory(5);
            ended.extend(frames.take(&poll(quarter, busy)));
        }
        let frames: Vec<_> = ended
            .iter()
            .map(|ended| (ended.frame.is_valid, ended.frame.peak.cpu))
            .collect();
        assert_eq!(frames, [(false, 1000), (true, 1000)]);
        assert_eq!(ended[1].mean.busy_milli(), 1000);
    }
}
