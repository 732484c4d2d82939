//! The rings of node peaks and of what departed pods used then, and the conditioned peak that follows.

use std::collections::VecDeque;

use crate::resource::Resource;

/// One frame of the ring.
#[derive(Debug, Clone, Copy)]
struct Slot {
    index: u64,
    /// F, if the frame is valid.
    peak: Option<u64>,
    /// Dep: low estimates, in this frame, of pods that have left since.
    departed: u64,
}

/// A pod that some frames of the ring have not seen, and its long peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Newcomer {
    /// The frame in which it was first seen.
    pub(super) birth: u64,
    /// e: its own observed peak.
    pub(super) peak: u64,
}

/// Node peaks (F) and departures (Dep) of one resource over the last frames. See agent.md, section 2.3.
#[derive(Debug)]
pub struct History {
    capacity: usize,
    slots: VecDeque<Slot>,
}

impl History {
    /// An empty ring of that many frames.
    pub fn new(frames: u32) -> Self {
        let capacity = usize::try_from(frames).unwrap_or(usize::MAX);
        Self {
            capacity,
            slots: VecDeque::with_capacity(capacity),
        }
    }

    /// Takes the peak of frame `index` in; frames that come twice or late are left out.
    pub fn push(&mut self, index: u64, peak: u64, is_valid: bool) {
        if self.slots.back().is_some_and(|last| last.index >= index) {
            return;
        }
        self.slots.push_back(Slot {
            index,
            peak: is_valid.then_some(peak),
            departed: 0,
        });
        let oldest = index.saturating_sub(u64::try_from(self.capacity).unwrap_or(u64::MAX).saturating_sub(1));
        while self.slots.front().is_some_and(|first| first.index < oldest) {
            self.slots.pop_front();
        }
    }

    /// Subtracts from each frame what a pod that has left used in it: `uses` are (frame, low estimate).
    pub fn depart(&mut self, uses: impl Iterator<Item = (u64, u64)>) {
        for (index, low) in uses {
            if let Some(slot) = self.slots.iter_mut().find(|slot| slot.index == index) {
                slot.departed = slot.departed.saturating_add(low);
            }
        }
    }

    /// Number of valid frames.
    pub fn valid_frames(&self) -> u32 {
        u32::try_from(self.slots.iter().filter(|slot| slot.peak.is_some()).count()).unwrap_or(u32::MAX)
    }

    /// P0: the highest conditioned peak, for memory at least the last one plus the worst climb over `climb` frames.
    pub(super) fn peak(&self, resource: Resource, newcomers: &[Newcomer], climb: u32) -> u64 {
        let conditioned: Vec<(u64, u64)> = self
            .slots
            .iter()
            .filter_map(|slot| Some((slot.index, Self::conditioned(slot, slot.peak?, newcomers))))
            .collect();
        let highest = conditioned
            .iter()
            .map(|&(_, value)| value)
            .max()
            .unwrap_or_default();
        match resource {
            Resource::Cpu => highest,
            Resource::Memory => {
                let last = conditioned.last().map_or(0, |&(_, value)| value);
                highest.max(last.saturating_add(Self::worst_climb(&conditioned, climb)))
            }
        }
    }

    /// H\[f\]: the node's peak without pods that left, with pods that did not exist yet.
    fn conditioned(slot: &Slot, peak: u64, newcomers: &[Newcomer]) -> u64 {
        let added = newcomers
            .iter()
            .filter(|newcomer| newcomer.birth > slot.index)
            .fold(0_u64, |sum, newcomer| sum.saturating_add(newcomer.peak));
        peak.saturating_sub(slot.departed).saturating_add(added)
    }

    /// G: the largest rise from a frame to one at most `climb` frames later.
    fn worst_climb(conditioned: &[(u64, u64)], climb: u32) -> u64 {
        let rises = conditioned.iter().enumerate().flat_map(|(at, &(from, low))| {
            conditioned
                .iter()
                .skip(at + 1)
                .take_while(move |&&(to, _)| to - from <= u64::from(climb))
                .map(move |&(_, high)| high.saturating_sub(low))
        });
        rises.max().unwrap_or_default()
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

    #[test]
    fn memory_expects_the_worst_climb_again() {
        let history = history(&[68_608, 72_704, 69_632]);
        assert_eq!(history.peak(Resource::Memory, &[], 6), 69_632 + 4096);
        assert_eq!(history.peak(Resource::Cpu, &[], 6), 72_704);
    }

    #[test]
    fn a_climb_over_more_frames_than_given_does_not_count() {
        let mut peaks = vec![10_u64];
        peaks.extend([20; 7]);
        peaks.push(100);
        assert_eq!(history(&peaks).peak(Resource::Memory, &[], 6), 100 + 80);
    }

    #[test]
    fn departures_lower_only_the_frames_they_were_in() {
        let mut history = history(&[1000, 900]);
        history.depart([(100, 400), (7, 99)].into_iter());
        assert_eq!(history.peak(Resource::Cpu, &[], 6), 900);
    }

    #[test]
    fn a_newcomer_is_added_to_the_frames_before_it() {
        let newcomer = Newcomer {
            birth: 101,
            peak: 300,
        };
        assert_eq!(history(&[1000, 1100]).peak(Resource::Cpu, &[newcomer], 6), 1300);
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
            (history.valid_frames(), history.peak(Resource::Cpu, &[], 6)),
            (0, 0)
        );
    }
}
