//! [`Trend`]: figures over time for plots, hour by hour, and one node's last day frame by frame.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{
    record::{HOUR_FRAMES, RecordedFrame},
    replay::Tally,
    span::FRAME_S,
};

/// An hour of one or more nodes: means over its frames, sums over nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hour {
    /// Start, in seconds since 1970.
    pub at_s: u64,
    pub raw: u64,
    /// Amount that the ratio adds.
    pub gained: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Day {
    pub node: String,
    /// Oldest first; frames without a valid measurement are missing.
    pub frames: Vec<RecordedFrame>,
}

/// Figures of one or more nodes over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trend {
    /// Ratio in cents of each frame of each node, ascending.
    pub ratios: Vec<u32>,
    /// Oldest first; hours without a frame are missing.
    pub hours: Vec<Hour>,
    /// The last day of the node with the highest use relative to its capacity in that day.
    pub day: Option<Day>,
}

impl Trend {
    /// Combines the tallies of nodes.
    pub fn join(nodes: &[(&str, &Tally)]) -> Self {
        let given = nodes.iter().flat_map(|(_, tally)| &tally.given);
        let mut ratios: Vec<u32> = given.copied().collect();
        ratios.sort_unstable();
        let mut hours: BTreeMap<u64, Hour> = BTreeMap::new();
        for (hour, sum) in nodes.iter().flat_map(|(_, tally)| &tally.record.hours) {
            let all = hours.entry(*hour).or_insert(Hour {
                at_s: hour * HOUR_FRAMES * FRAME_S,
                raw: 0,
                gained: 0,
            });
            let mean = |total: u128| u64::try_from(total / u128::from(sum.frames.max(1))).unwrap_or(u64::MAX);
            all.raw = all.raw.saturating_add(mean(sum.raw));
            all.gained = all.gained.saturating_add(mean(sum.gained));
        }
        let fullest = nodes
            .iter()
            .map(|(name, tally)| (*name, &tally.record))
            .filter(|(_, record)| !record.last.is_empty())
            .max_by_key(|(name, record)| (record.fullest_ppm(), Reverse(*name)));
        Self {
            ratios,
            hours: hours.into_values().collect(),
            day: fullest.map(|(name, record)| Day {
                node: name.to_owned(),
                frames: record.last.iter().copied().collect(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use headroom_domain::{
        estimate::{Estimate, Estimator, Profile},
        ratio::Cents,
    };

    use super::*;

    /// 32 cores, 30 of them allocatable.
    fn estimate(cents: u32) -> Estimate {
        let mut estimate = Estimator::new(Profile::Production.timing()).estimates().cpu;
        (estimate.capacity, estimate.raw, estimate.published) = (32_000, 30_000, Cents(cents));
        estimate
    }

    fn tally(frames: std::ops::Range<u64>, demand: u64, cents: u32) -> Tally {
        let mut tally = Tally::default();
        for frame in frames {
            tally.given.push(cents);
            tally.record.record(frame, demand, &estimate(cents));
        }
        tally
    }

    #[test]
    fn hours_are_means_over_frames_and_sums_over_nodes() {
        let (whole, half) = (tally(0..24, 1, 120), tally(0..6, 1, 140));
        let course = Trend::join(&[("a", &whole), ("b", &half)]);
        let hour = |at_s, raw, gained| Hour { at_s, raw, gained };
        assert_eq!(course.hours, [hour(0, 60_000, 18_000), hour(3600, 30_000, 6000)]);
        assert_eq!(
            (course.ratios.len(), course.ratios[23], course.ratios[24]),
            (30, 120, 140)
        );
    }

    #[test]
    fn the_day_is_the_last_one_of_the_fullest_node() {
        let (quiet, full, as_full) = (
            tally(0..400, 10_000, 150),
            tally(0..400, 40_000, 90),
            tally(0..10, 40_000, 100),
        );
        let day = Trend::join(&[("b", &full), ("a", &quiet), ("c", &as_full)])
            .day
            .unwrap();
        assert_eq!((day.node.as_str(), day.frames.len()), ("b", 288));
        assert_eq!(
            (day.frames[0].at_s, day.frames[0].advised, day.frames[0].demand),
            (112 * 300, 27_000, 40_000)
        );
        assert_eq!(Trend::join(&[("a", &Tally::default())]).day, None);
    }
}
