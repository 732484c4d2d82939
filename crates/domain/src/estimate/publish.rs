//! From targets to the published ratio: fast down, slow up, brakes, never below what is bound.

use serde::{Deserialize, Serialize};

use super::floor_cents;
use crate::{hint::Brake, ratio::Cents};

/// Least difference that makes the ratio rise, and the largest rise per frame, in cents.
pub const STEP: u32 = 5;

/// The publication state of one resource. See agent.md, section 2.3, publication state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    published: u32,
    /// Frame ends in a row whose target was at least [`STEP`] higher.
    agreeing: u32,
}

impl Default for Publication {
    fn default() -> Self {
        Self {
            published: Cents::ONE.0,
            agreeing: 0,
        }
    }
}

impl Publication {
    /// Moves towards `target`: down at once, up only at frame ends, after `up_after` of them, unless held.
    pub fn step(&mut self, target: Cents, is_frame_end: bool, is_held: bool, up_after: u32) {
        let Cents(target) = target;
        if target < self.published {
            self.published = target;
            self.agreeing = 0;
        } else if target < self.published.saturating_add(STEP) || is_held {
            self.agreeing = 0;
        } else if is_frame_end {
            self.agreeing = self.agreeing.saturating_add(1);
            if self.agreeing >= up_after {
                self.published = target.min(self.published.saturating_add(STEP));
            }
        }
    }

    /// Frames were missed: what they would have said is not known.
    pub(super) const fn resume(&mut self) {
        self.agreeing = 0;
    }

    /// Gives up what is amplified: it comes back by small steps.
    pub fn stop(&mut self) {
        self.published = self.published.min(Cents::ONE.0);
        self.agreeing = 0;
    }

    /// Applies one period of a brake; `floor` is what is bound, in cents.
    pub fn brake(&mut self, brake: Brake, floor: u32) {
        let floor = floor.max(Cents::ONE.0);
        match brake {
            Brake::Off | Brake::Hold => {}
            Brake::Shed => {
                let free = self.published.saturating_sub(floor);
                self.published -= free - free / 2;
            }
            Brake::Stop => self.stop(),
        }
    }

    /// The ratio to apply: the published one, but never below what is bound.
    pub fn out(&self, bound: u64, raw: u64) -> Cents {
        let covered = u128::from(raw) * u128::from(self.published) / 100;
        let published = Cents(self.published);
        if u128::from(bound) > covered {
            published.max(floor_cents(bound, raw))
        } else {
            published
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(publication: &mut Publication, targets: &[u32]) -> Vec<u32> {
        let step = |&target: &u32| {
            publication.step(Cents(target), true, false, 3);
            publication.published
        };
        targets.iter().map(step).collect()
    }

    #[test]
    fn it_falls_at_once_and_rises_slowly() {
        let mut publication = Publication::default();
        assert_eq!(walk(&mut publication, &[128; 5]), vec![100, 100, 105, 110, 115]);
        assert_eq!(walk(&mut publication, &[107]), vec![107]);
        assert_eq!(walk(&mut publication, &[111, 111, 111, 111]), vec![107; 4]);
    }

    #[test]
    fn it_does_not_rise_between_frames_or_while_held() {
        let mut publication = Publication::default();
        for _ in 0..9 {
            publication.step(Cents(150), false, false, 3);
            publication.step(Cents(150), true, true, 3);
        }
        assert_eq!(publication.published, 100);
        publication.step(Cents(90), false, false, 3);
        assert_eq!(publication.published, 90);
    }

    #[test]
    fn a_dead_band_between_frames_ends_the_agreement() {
        let mut publication = Publication::default();
        walk(&mut publication, &[128, 128]);
        publication.step(Cents(104), false, false, 3);
        assert_eq!(walk(&mut publication, &[128, 128, 128]), [100, 100, 105]);
    }

    #[test]
    fn what_is_given_up_comes_back_slowly() {
        let mut publication = Publication::default();
        walk(&mut publication, &[128; 9]);
        publication.stop();
        assert_eq!(walk(&mut publication, &[128; 4]), [100, 100, 105, 110]);
    }

    #[test]
    fn shedding_halves_what_is_free() {
        let mut publication = Publication {
            published: 128,
            agreeing: 0,
        };
        let mut shed = || {
            publication.brake(Brake::Shed, 96);
            publication.published
        };
        assert_eq!(
            [shed(), shed(), shed(), shed(), shed(), shed()],
            [114, 107, 103, 101, 100, 100]
        );
    }

    #[test]
    fn a_stop_never_raises() {
        let mut publication = Publication {
            published: 80,
            agreeing: 0,
        };
        publication.brake(Brake::Stop, 60);
        assert_eq!(publication.out(0, 31_500), Cents(80));
    }

    #[test]
    fn what_is_bound_stays_covered() {
        let publication = Publication {
            published: 100,
            agreeing: 0,
        };
        assert_eq!(publication.out(33_000, 31_500), Cents(105));
        assert_eq!(publication.out(31_500, 31_500), Cents(100));
    }
}
