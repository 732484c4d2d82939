//! [`History`] of one resource: a ring of node peaks, the use of departed pods in each frame, and the conditioned
//! peak.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{frame_renumbering::Shift, pods::Forecast};
use crate::{resource::Resource, workload::SLOTS};

/// One frame of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Slot {
    index: u64,
    /// F, if the frame is valid.
    peak: Option<u64>,
    /// Lower bound of F, if the frame is invalid. It is not serialized, because the layout of a saved slot is older:
    /// see [`super::Snapshot::bounds`].
    #[serde(skip)]
    least: Option<u64>,
    /// Dep: low estimates, in this frame, of pods that have left since.
    departed: u64,
}

/// A pod that does not appear in some frames of the ring, and its long-term peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Newcomer {
    /// First frame in which it was observed.
    pub(super) birth: u64,
    /// e: its own observed peak.
    pub(super) peak: u64,
}

/// Conditioned peak of a history and its terms, in milli-cores or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Peak {
    /// max H: highest conditioned peak. Frames measured in part count with their lower bound.
    pub highest: u64,
    /// Frames between that peak and the last frame; of equal peaks the latest counts.
    pub frames_ago: u64,
    /// H\[t-1\]: conditioned peak of the last valid frame.
    pub last: u64,
    /// G: worst climb of memory over [`Timing::climb_frames`](super::Timing::climb_frames) frames; 0 for CPU.
    pub climb: u64,
}

impl Peak {
    /// P0: highest conditioned peak; for memory at least the last one plus the worst climb.
    ///
    /// More use in a frame never lowers it, with one exception: more memory use in an earlier frame raises the start
    /// of a climb, so the worst climb may shrink. The peaks 10, 50 and 100 give 190; the peaks 60, 50 and 100 give
    /// 150. More use in all frames alike, or in the last one, never lowers it.
    pub fn expected(&self) -> u64 {
        self.highest.max(self.last.saturating_add(self.climb))
    }
}

/// Node peaks (F) and departures (Dep) of one resource over the last frames. See docs/estimator.md#peak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    capacity: usize,
    /// Ascending by frame, because departures use binary search; a missing frame is invalid.
    slots: VecDeque<Slot>,
}

impl History {
    /// Empty ring of `frames` frames.
    pub fn new(frames: u32) -> Self {
        let capacity = usize::try_from(frames).unwrap_or(usize::MAX);
        Self {
            capacity,
            slots: VecDeque::with_capacity(capacity),
        }
    }

    /// Records the peak of frame `index`; duplicate and late frames are ignored.
    pub fn push(&mut self, index: u64, peak: u64, is_valid: bool) {
        self.append(index, is_valid.then_some(peak), None);
    }

    /// Records a frame that was measured in part: its peak was at least `least`. The frame is invalid, and never
    /// lowers the expected peak.
    pub fn push_bound(&mut self, index: u64, least: u64) {
        self.append(index, None, Some(least));
    }

    fn append(&mut self, index: u64, peak: Option<u64>, least: Option<u64>) {
        if self.last_frame().is_some_and(|last| last >= index) {
            return;
        }
        let oldest = index.saturating_sub(u64::try_from(self.capacity).unwrap_or(u64::MAX).saturating_sub(1));
        while self.slots.front().is_some_and(|first| first.index < oldest) {
            self.slots.pop_front();
        }
        self.slots.push_back(Slot {
            index,
            peak,
            least,
            departed: 0,
        });
    }

    /// Frames measured in part, with the lower bounds of their peaks.
    pub(super) fn bounds(&self) -> Vec<(u64, u64)> {
        let bounds = self.slots.iter().map(|slot| Some((slot.index, slot.least?)));
        bounds.flatten().collect()
    }

    /// Restores the result of [`Self::bounds`]; frames that are valid or missing are skipped.
    pub(super) fn restore_bounds(&mut self, bounds: &[(u64, u64)]) {
        for &(index, least) in bounds {
            let found = self.slots.binary_search_by_key(&index, |slot| slot.index);
            let slot = found.ok().and_then(|at| self.slots.get_mut(at));
            if let Some(slot) = slot.filter(|slot| slot.peak.is_none()) {
                slot.least = Some(least);
            }
        }
    }

    /// Subtracts the use of a departed pod from each frame: `uses` are (frame, low estimate).
    pub fn depart(&mut self, uses: impl Iterator<Item = (u64, u64)>) {
        self.change_departed(uses, u64::saturating_add);
    }

    /// Takes back what [`Self::depart`] added for a pod: another pod continues it.
    pub(super) fn take_back(&mut self, uses: impl Iterator<Item = (u64, u64)>) {
        self.change_departed(uses, u64::saturating_sub);
    }

    fn change_departed(&mut self, uses: impl Iterator<Item = (u64, u64)>, change: fn(u64, u64) -> u64) {
        for (index, low) in uses {
            let found = self.slots.binary_search_by_key(&index, |slot| slot.index);
            if let Some(slot) = found.ok().and_then(|at| self.slots.get_mut(at)) {
                slot.departed = change(slot.departed, low);
            }
        }
    }

    /// Last recorded frame; `None` in an empty ring.
    pub fn last_frame(&self) -> Option<u64> {
        self.slots.back().map(|slot| slot.index)
    }

    /// Number of frames from the first to the last, inclusive.
    pub(super) fn span(&self) -> u64 {
        let ends = self.slots.front().zip(self.slots.back());
        ends.map_or(0, |(first, last)| last.index.saturating_sub(first.index) + 1)
    }

    /// Number of valid frames in the ring.
    pub fn valid_frames(&self) -> u32 {
        u32::try_from(self.slots.iter().filter(|slot| slot.peak.is_some()).count()).unwrap_or(u32::MAX)
    }

    /// [`Self::peak_with`] without a forecast.
    #[cfg(test)]
    pub(super) fn peak(&self, resource: Resource, newcomers: Vec<Newcomer>, climb: u32) -> Option<Peak> {
        self.peak_with(resource, newcomers, &Forecast::default(), climb)
    }

    /// Conditioned peak; `None` without any valid frame. Pods of the forecast are added to the frames before their
    /// birth as they are expected to use in that hour. `climb` is the number of frames over which memory may climb.
    /// For the effect of more use see [`Peak::expected`].
    pub(super) fn peak_with(
        &self,
        resource: Resource,
        newcomers: Vec<Newcomer>,
        forecast: &Forecast,
        climb: u32,
    ) -> Option<Peak> {
        let bounds = self.conditioned(newcomers.clone(), forecast, |slot| slot.least);
        let conditioned = self.conditioned(newcomers, forecast, |slot| slot.peak);
        let (newest, last) = conditioned.first().copied()?;
        let (at, highest) = conditioned
            .iter()
            .chain(&bounds)
            .copied()
            .max_by_key(|&(index, value)| (value, index))
            .unwrap_or((newest, last));
        Some(Peak {
            highest,
            frames_ago: self.last_frame().unwrap_or(at).saturating_sub(at),
            last,
            climb: match resource {
                Resource::Cpu => 0,
                Resource::Memory => worst_climb(&conditioned, climb),
            },
        })
    }

    /// Returns true if this is a possible ring of `frames` frames, none later than `last`.
    pub(super) fn is_sound(&self, frames: u32, last: u64) -> bool {
        let numbers = self.slots.iter().map(|slot| slot.index);
        let first = numbers.clone().next().unwrap_or(last);
        let span = u64::from(frames).saturating_sub(1);
        self.capacity == usize::try_from(frames).unwrap_or(usize::MAX)
            && numbers.is_sorted_by(|one, other| one < other)
            && self
                .last_frame()
                .is_none_or(|own| own <= last && own - first.min(own) <= span)
    }

    /// Renumbers the frames; frames without a number are dropped.
    pub(super) fn shift(&mut self, shift: Shift) {
        self.slots.retain_mut(|slot| {
            let moved = shift.apply(slot.index);
            slot.index = moved.unwrap_or(0);
            moved.is_some()
        });
    }

    /// Hour slots of a forecast in which the ring has a valid frame.
    pub(super) fn measured_slots(&self, forecast: &Forecast) -> [bool; SLOTS] {
        let mut measured = [false; SLOTS];
        for slot in self.slots.iter().filter(|slot| slot.peak.is_some()) {
            if let Some(measured) = measured.get_mut(forecast.slot(slot.index)) {
                *measured = true;
            }
        }
        measured
    }

    /// (f, H\[f\]) of the frames with such a peak, newest first: the node's peak without pods that have left, plus
    /// pods that did not exist yet.
    fn conditioned(
        &self,
        mut newcomers: Vec<Newcomer>,
        forecast: &Forecast,
        peak: impl Fn(&Slot) -> Option<u64>,
    ) -> Vec<(u64, u64)> {
        newcomers.sort_unstable_by_key(|newcomer| newcomer.birth);
        let mut expected = forecast.unborn();
        let (mut unborn, mut added) = (newcomers.into_iter().rev().peekable(), 0_u64);
        let mut conditioned = Vec::with_capacity(self.slots.len());
        for slot in self.slots.iter().rev() {
            while let Some(newcomer) = unborn.next_if(|newcomer| newcomer.birth > slot.index) {
                added = added.saturating_add(newcomer.peak);
            }
            if let Some(peak) = peak(slot) {
                let value = peak.saturating_sub(slot.departed).saturating_add(added);
                let value = value.saturating_add(expected.at(slot.index));
                conditioned.push((slot.index, value));
            }
        }
        conditioned
    }
}

/// G: largest rise from a frame to one at most `climb` frames later. `conditioned` is newest first.
fn worst_climb(conditioned: &[(u64, u64)], climb: u32) -> u64 {
    let rises = conditioned.iter().enumerate().flat_map(|(at, &(to, high))| {
        conditioned
            .iter()
            .skip(at + 1)
            .take_while(move |&&(from, _)| to - from <= u64::from(climb))
            .map(move |&(_, low)| high.saturating_sub(low))
    });
    rises.max().unwrap_or_default()
}

#[cfg(test)]
impl History {
    /// Size of the ring, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(peaks: &[u64]) -> History {
        let mut history = History::new(288);
        for (index, &peak) in (100..).zip(peaks) {
            history.push(index, peak, true);
        }
        history
    }

    fn expected(history: &History, resource: Resource, newcomers: &[Newcomer]) -> u64 {
        history.peak(resource, newcomers.to_vec(), 6).unwrap().expected()
    }

    #[test]
    fn memory_expects_the_worst_climb_again() {
        let history = history(&[68_608, 72_704, 69_632]);
        assert_eq!(expected(&history, Resource::Memory, &[]), 69_632 + 4096);
        assert_eq!(expected(&history, Resource::Cpu, &[]), 72_704);
    }

    /// The one exception to "more use never lowers the expected peak"; see `Peak::expected`.
    #[test]
    fn more_memory_in_an_earlier_frame_may_lower_the_expected_peak() {
        let expect = |peaks: &[u64], resource| expected(&history(peaks), resource, &[]);
        let (plain, earlier) = ([10, 50, 100], [60, 50, 100]);
        assert_eq!(expect(&plain, Resource::Memory), 100 + 90);
        assert_eq!(expect(&earlier, Resource::Memory), 100 + 50);
        assert_eq!(expect(&[60, 100, 150], Resource::Memory), 150 + 90, "all frames");
        assert_eq!(
            expect(&[10, 50, 150], Resource::Memory),
            150 + 140,
            "the last one"
        );
        assert_eq!(
            [plain, earlier].map(|peaks| expect(&peaks, Resource::Cpu)),
            [100, 100]
        );
    }

    #[test]
    fn a_peak_has_its_distance_to_the_last_frame() {
        let mut history = history(&[5, 900, 30, 900, 20, 10]);
        history.push(106, 9999, false);
        let peak = Peak {
            highest: 900,
            frames_ago: 3,
            last: 10,
            climb: 0,
        };
        assert_eq!(history.peak(Resource::Cpu, Vec::new(), 6), Some(peak));
        assert_eq!(
            history.peak(Resource::Memory, Vec::new(), 2),
            Some(Peak { climb: 895, ..peak })
        );
        assert_eq!(History::new(3).peak(Resource::Cpu, Vec::new(), 6), None);
    }

    #[test]
    fn a_ring_spans_at_most_its_number_of_frames() {
        let from = |first: u64| {
            let mut history = History::new(3);
            for index in [100, 101, 102] {
                history.push(index, 1, true);
            }
            history.slots[0].index = first;
            history
        };
        assert!(from(100).is_sound(3, 102));
        assert!(!from(99).is_sound(3, 102));
        assert!(!from(100).is_sound(3, 101), "a future frame");
        assert!(!from(100).is_sound(4, 102), "another ring");
    }

    #[test]
    fn a_climb_over_more_frames_than_given_does_not_count() {
        let mut peaks = vec![10_u64];
        peaks.extend([20; 7]);
        peaks.push(100);
        assert_eq!(expected(&history(&peaks), Resource::Memory, &[]), 100 + 80);
    }

    /// The measured part of a frame disturbed by starvation is a lower bound of its peak.
    #[test]
    fn a_frame_measured_in_part_raises_the_expected_peak_and_adds_no_coverage() {
        let mut history = history(&[500, 600]);
        history.push_bound(102, 9000);
        history.push_bound(103, 10);
        assert_eq!(history.valid_frames(), 2);
        let expected = Peak {
            highest: 9000,
            frames_ago: 1,
            last: 600,
            climb: 100,
        };
        assert_eq!(history.peak(Resource::Memory, Vec::new(), 6), Some(expected));
        let newcomer = Newcomer {
            birth: 103,
            peak: 300,
        };
        history.depart([(102, 1000)].into_iter());
        let peak = history.peak(Resource::Cpu, vec![newcomer], 6).unwrap();
        assert_eq!(peak.highest, 9000 - 1000 + 300);
        let mut unseen = History::new(3);
        unseen.push_bound(7, 9000);
        assert_eq!(
            unseen.peak(Resource::Cpu, Vec::new(), 6),
            None,
            "no frame is valid"
        );
    }

    #[test]
    fn departures_lower_only_the_frames_they_were_in() {
        let mut history = history(&[1000, 900]);
        history.depart([(100, 400), (7, 99)].into_iter());
        assert_eq!(expected(&history, Resource::Cpu, &[]), 900);
    }

    #[test]
    fn a_newcomer_is_added_to_the_frames_before_it() {
        let newcomer = Newcomer {
            birth: 101,
            peak: 300,
        };
        assert_eq!(
            expected(&history(&[1000, 1100]), Resource::Cpu, &[newcomer]),
            1300
        );
    }

    #[test]
    fn the_ring_forgets_by_frame_number_and_skips_repeats() {
        let mut history = History::new(3);
        for index in [5, 6, 6, 4, 7] {
            history.push(index, index, true);
        }
        assert_eq!(history.valid_frames(), 3);
        history.push(20, 1, false);
        assert_eq!(
            (history.valid_frames(), history.peak(Resource::Cpu, Vec::new(), 6)),
            (0, None)
        );
    }
}
