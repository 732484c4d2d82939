//! [`Publication`]: moves the published ratio towards the target: fast down, slow up, and down by brakes. It excludes
//! the demand of pods, which the webhook adds.

use serde::{Deserialize, Serialize};

use crate::{
    hint::{Brake, Progress},
    ratio::Cents,
    timing::{Rise, STEP},
};

/// Publication state of one resource. See docs/estimator.md#publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    published: u32,
    /// Consecutive frame ends whose target was higher by at least the dead band.
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
    /// Moves towards `target`, which is at most `highest`: down at once; up only at frame ends, by the conditions in
    /// `rise`, and unless held. A difference below the dead band is ignored, except for the last step to the highest
    /// ratio.
    ///
    /// From one state a lower target never leads to a higher ratio. From two states it may, within the dead band: a
    /// node that fell to 1.04 stays there at a target of 1.05, a node at 1.00 rises to 1.05.
    pub fn step(&mut self, target: Cents, highest: Cents, is_frame_end: bool, is_held: bool, rise: Rise) {
        let (Cents(target), Cents(highest)) = (target, highest);
        let missing = target.saturating_sub(self.published);
        let is_close = missing == 0 || (missing < rise.dead_band && target < highest);
        if target < self.published {
            self.published = target;
            self.agreeing = 0;
        } else if is_close || is_held {
            self.agreeing = 0;
        } else if is_frame_end {
            self.agreeing = self.agreeing.saturating_add(1);
            if self.agreeing >= rise.after {
                self.published = target.min(self.published.saturating_add(STEP));
            }
        }
    }

    /// Restarts the count of agreeing frames after missed frames, whose targets are unknown.
    pub(super) const fn resume(&mut self) {
        self.agreeing = 0;
    }

    /// Ends amplification at once; the ratio returns in small steps.
    pub fn stop(&mut self) {
        self.published = self.published.min(Cents::ONE.0);
        self.agreeing = 0;
    }

    /// Applies one period of a brake; `floor` is the demand of admitted pods, in cents of raw.
    pub fn brake(&mut self, brake: Brake, floor: u32) {
        let floor = floor.max(Cents::ONE.0);
        match brake {
            Brake::Off | Brake::Hold => {}
            Brake::Shed => {
                // Removes the larger half: the smaller half of a single cent is zero, and the ratio would never reach
                // the floor.
                let free = self.published.saturating_sub(floor);
                self.published -= free - free / 2;
            }
            Brake::Stop => self.stop(),
        }
    }

    /// Progress towards the target, for reports.
    pub const fn progress(&self) -> Progress {
        Progress {
            stepped: Cents(self.published),
            agreeing_frames: self.agreeing,
        }
    }

    /// Ratio to apply, before the demand of pods.
    pub const fn published(&self) -> Cents {
        Cents(self.published)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RISE: Rise = Rise {
        after: 3,
        dead_band: 2,
    };
    const HIGHEST: Cents = Cents(200);

    fn walk(publication: &mut Publication, targets: &[u32]) -> Vec<u32> {
        let step = |&target: &u32| {
            publication.step(Cents(target), HIGHEST, true, false, RISE);
            publication.published
        };
        targets.iter().map(step).collect()
    }

    #[test]
    fn it_falls_at_once_and_rises_slowly() {
        let mut publication = Publication::default();
        assert_eq!(walk(&mut publication, &[128; 5]), vec![100, 100, 105, 110, 115]);
        assert_eq!(walk(&mut publication, &[107]), vec![107]);
        assert_eq!(walk(&mut publication, &[108, 108, 108, 108]), vec![107; 4]);
        assert_eq!(walk(&mut publication, &[109, 109, 109]), [107, 107, 109]);
    }

    #[test]
    fn the_dead_band_ends_at_the_highest_ratio() {
        let mut publication = Publication::default();
        walk(&mut publication, &[199; 30]);
        assert_eq!(publication.published, 199);
        assert_eq!(walk(&mut publication, &[200; 4]), [199, 199, 200, 200]);
        assert_eq!(publication.agreeing, 0);
    }

    #[test]
    fn it_does_not_rise_between_frames_or_while_held() {
        let mut publication = Publication::default();
        for _ in 0..9 {
            publication.step(Cents(150), HIGHEST, false, false, RISE);
            publication.step(Cents(150), HIGHEST, true, true, RISE);
        }
        assert_eq!(publication.published, 100);
        publication.step(Cents(90), HIGHEST, false, false, RISE);
        assert_eq!(publication.published, 90);
    }

    #[test]
    fn a_dead_band_between_frames_ends_the_agreement() {
        let mut publication = Publication::default();
        walk(&mut publication, &[128, 128]);
        publication.step(Cents(101), HIGHEST, false, false, RISE);
        assert_eq!(walk(&mut publication, &[128, 128, 128]), [100, 100, 105]);
    }

    #[test]
    fn a_lower_ratio_may_end_higher_within_the_dead_band() {
        let mut higher = Publication::default();
        assert_eq!(walk(&mut higher, &[105, 105, 105, 104]), [100, 100, 105, 104]);
        let mut lower = Publication::default();
        assert_eq!(walk(&mut lower, &[101, 101, 101, 101]), [100; 4]);
        assert_eq!(walk(&mut higher, &[105; 3]), [104; 3]);
        assert_eq!(walk(&mut lower, &[105; 3]), [100, 100, 105]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        /// From any state and for any demand of pods: a lower target and a stronger brake never lead to a higher
        /// ratio.
        #[test]
        fn a_lower_target_never_leads_to_a_higher_ratio(
            (published, agreeing) in (50..300_u32, 0..5_u32),
            (target, less) in (50..300_u32, 0..100_u32),
            (is_frame_end, is_held) in any::<(bool, bool)>(),
            (weaker, stronger) in (0..4_usize, 0..4_usize),
            floor in 0..300_u32,
        ) {
            let moved = |target: u32, is_held, brake: usize| {
                let mut publication = Publication { published, agreeing };
                publication.step(Cents(target), HIGHEST, is_frame_end, is_held, RISE);
                publication.brake(Brake::ALL[brake], floor);
                publication.published()
            };
            let more = moved(target, is_held, weaker.min(stronger));
            prop_assert!(moved(target.saturating_sub(less), is_held, weaker.max(stronger)) <= more);
            prop_assert!(moved(target, true, stronger) <= moved(target, is_held, stronger));
        }
    }

    #[test]
    fn a_stopped_ratio_returns_in_small_steps() {
        let mut publication = Publication::default();
        walk(&mut publication, &[128; 9]);
        publication.stop();
        assert_eq!(walk(&mut publication, &[128; 4]), [100, 100, 105, 110]);
    }

    #[test]
    fn shedding_halves_the_ratio_above_the_floor() {
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
        assert_eq!(publication.published(), Cents(80));
    }
}
