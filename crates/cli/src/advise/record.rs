//! [`Record`]: hourly sums of a replayed node, and its last day frame by frame.

use std::collections::{BTreeMap, VecDeque};

use headroom_domain::estimate::{Estimate, FRAMES_A_DAY, FRAMES_AN_HOUR};

use super::span::FRAME_S;

pub(super) const HOUR_FRAMES: u64 = FRAMES_AN_HOUR as u64;
const DAY_FRAMES: usize = FRAMES_A_DAY as usize;

/// One frame of one resource of a node; CPU in milli-cores, memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedFrame {
    /// Start, in seconds since 1970.
    pub at_s: u64,
    /// Highest use in the frame.
    pub demand: u64,
    /// P: predicted peak at the end of the frame.
    pub predicted: u64,
    pub capacity: u64,
    /// A: raw allocatable of the node.
    pub raw: u64,
    /// Allocatable that Headroom would have set.
    pub advised: u64,
    /// R: requests of the pods present.
    pub bound: u64,
}

/// Record of a node during the replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    pub(super) hours: BTreeMap<u64, Sum>,
    pub(super) last: VecDeque<RecordedFrame>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) frames: u64,
    pub(super) raw: u128,
    pub(super) gained: u128,
}

impl Record {
    /// Adds a frame: its use and its estimate.
    pub fn record(&mut self, frame: u64, demand: u64, given: &Estimate) {
        let share = u128::from(given.raw) * u128::from(given.published.0) / 100;
        let advised = u64::try_from(share).unwrap_or(u64::MAX);
        let hour = self.hours.entry(frame / HOUR_FRAMES).or_default();
        hour.frames += 1;
        hour.raw += u128::from(given.raw);
        hour.gained += u128::from(advised.saturating_sub(given.raw));
        self.last.push_back(RecordedFrame {
            at_s: frame.saturating_mul(FRAME_S),
            demand,
            predicted: given.slack.predicted_peak,
            capacity: given.capacity,
            raw: given.raw,
            advised,
            bound: given.slack.bound,
        });
        while self.last.len() > DAY_FRAMES {
            self.last.pop_front();
        }
    }

    /// Highest use of the last day as a share of capacity, in ppm.
    pub(super) fn fullest_ppm(&self) -> u128 {
        let shares = self
            .last
            .iter()
            .map(|moment| u128::from(moment.demand) * 1_000_000 / u128::from(moment.capacity.max(1)));
        shares.max().unwrap_or_default()
    }
}
