//! Seconds and memory samples gathered into frames: F of agent.md, section 2.3, and whether it counts.

use std::{mem, time::Duration};

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
    memory: Option<u64>,
    pods: PodFrame,
    suspended_ns: u64,
    cpus: u32,
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
        }
    }

    /// Takes a memory sample: U.
    pub(super) fn take_memory(&mut self, charged: u64) {
        if let Some(open) = &mut self.open {
            open.memory = open.memory.max(Some(charged));
        }
    }

    /// Takes what the pods used in the frame that is about to end.
    pub(super) fn take_pods(&mut self, pods: PodFrame) {
        if let Some(open) = &mut self.open {
            open.pods = pods;
        }
    }

    /// Takes a poll; the frame, if the poll completes one.
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
        self.second.add(&Tally::of(poll));
        if self.second.length_ns() >= self.least_second_ns {
            let second = mem::take(&mut self.second);
            open.demands.push(second.demand_milli(poll.cpus));
            open.mean.add(&second);
        }
        let index = poll.at.boottime_ns / self.frame_ns;
        if index == open.index {
            return None;
        }
        let next = Open {
            index,
            suspended_ns,
            cpus: poll.cpus,
            ..Open::default()
        };
        let ended = mem::replace(open, next);
        Some(ended.close(&self.timing))
    }
}

impl Open {
    fn close(self, timing: &Timing) -> Ended {
        let Self {
            index,
            demands,
            mean,
            memory,
            pods,
            suspended_ns: _,
            cpus: _,
            is_void,
        } = self;
        let seconds = u32::try_from(demands.len()).unwrap_or(u32::MAX);
        let frame = Frame {
            index,
            is_valid: !is_void && seconds >= timing.valid_seconds && memory.is_some(),
            peak: PerResource {
                cpu: nearest_rank_p99(&demands),
                memory: memory.unwrap_or(0),
            },
            pods: pods.used,
        };
        Ended { frame, mean }
    }
}

#[cfg(test)]
mod tests {
    use headroom_domain::estimate::Profile;

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
