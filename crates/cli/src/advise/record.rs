//! `Record`: sums of each hour of a replayed node, and its last day frame by frame.

use std::collections::{BTreeMap, VecDeque};

use headroom_domain::estimate::{Estimate, FRAMES_A_DAY, FRAMES_AN_HOUR};

use super::span::FRAME_S;

/// Frames of an hour and of a day.
pub(super) const HOUR_FRAMES: u64 = FRAMES_AN_HOUR as u64;
const DAY_FRAMES: usize = FRAMES_A_DAY as usize;

/// One frame of one resource of a node; CPU in milli-cores, memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedFrame {
    /// Its start, in seconds since 1970.
    pub at_s: u64,
    /// The highest use in it.
    pub demand: u64,
    /// P: the highest use that was predicted at its end.
    pub predicted: u64,
    /// C.
    pub capacity: u64,
    /// A: what was advertised.
    pub raw: u64,
    /// What would have been.
    pub advised: u64,
    /// R: requests of the pods that were there.
    pub bound: u64,
}

/// The record of a node while it is replayed.
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
    /// Takes a frame in: what it used, and what was made of it.
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

    /// The highest use of the last day as a share of capacity, in ppm.
    pub(super) fn fullest_ppm(&self) -> u128 {
        let shares = self
            .last
            .iter()
            .map(|moment| u128::from(moment.demand) * 1_000_000 / u128::from(moment.capacity.max(1)));
        shares.max().unwrap_or_default()
    }
}
