//! Takes a snapshot of an estimator's state, and resumes an estimator from one after a restart of the agent. See
//! docs/estimator.md#what-survives-a-restart.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    Brakes, Estimator, History, MarginCalibrator, Pods, Publication, Timing, frame_renumbering::Shift,
};
use crate::{
    hint::Brake,
    resource::{PerResource, Resource},
};

/// A gap longer than this is taken for this long: nothing of before is in the ring any more.
const LONGEST_GAP: Duration = Duration::from_secs(24 * 60 * 60);

/// The state of an estimator at one moment: rings, pods, outcomes, publication and brakes. The server's view is none of
/// it; it is told anew. What serde makes of it has no [bounds](Self::bounds) of frames: they are saved beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When it was made, in monotonic time.
    at: Duration,
    history: PerResource<History>,
    pods: Pods,
    limits: PerResource<Option<u64>>,
    outcomes: PerResource<MarginCalibrator>,
    publication: PerResource<Publication>,
    /// Until when L1, L2 and L3 stay, in monotonic time.
    brakes: PerResource<[Duration; 3]>,
}

/// What lies between a snapshot and now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lapse {
    /// Number of the frame that is under way, as in [`super::Frame::index`].
    pub frame: u64,
    /// Monotonic time.
    pub now: Duration,
    /// Whether the machine was started again.
    pub boot: Boot,
}

/// Whether the machine was started again since a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boot {
    /// It was not: frame numbers and monotonic time go on.
    Same,
    /// It was, and both began anew.
    Other {
        /// Wall time since the snapshot; `None` if the clock went back.
        gap: Option<Duration>,
    },
}

/// A snapshot that no estimator of this timing can have made before now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResumeError {
    /// Frames are out of order, too many, or later than now.
    #[error("its frames are not those of a ring that ends before now")]
    Frames,
    /// Pods are too many, or their rings are of another length.
    #[error("its pods are not those of a node")]
    Pods,
    /// The margin or its open decisions cannot have come to be.
    #[error("its margin cannot have come from outcomes")]
    Outcomes,
}

impl Snapshot {
    /// From the first frame that is remembered to the last, in frames.
    pub fn frames(&self) -> u64 {
        self.history.cpu.span()
    }

    /// The frames that do not count and of which a part was seen, as (number, least peak in milli-cores or bytes). They are
    /// no part of what serde writes, as it was there before them and versions that do not know them have to read it.
    pub fn bounds(&self) -> PerResource<Vec<(u64, u64)>> {
        PerResource::from_fn(|resource| self.history.get(resource).bounds())
    }

    /// The snapshot with bounds that were saved beside it. Frames that are valid or missing have none.
    #[must_use]
    pub fn with_bounds(mut self, bounds: &PerResource<Vec<(u64, u64)>>) -> Self {
        for resource in Resource::ALL {
            self.history
                .get_mut(resource)
                .restore_bounds(bounds.get(resource));
        }
        self
    }

    /// Checks that all of it can be, with `last` as the last frame that can have ended.
    fn check(&self, timing: &Timing, last: u64) -> Result<(), ResumeError> {
        for resource in Resource::ALL {
            if !self.history.get(resource).is_sound(timing.ring_frames, last) {
                return Err(ResumeError::Frames);
            }
            if !self.outcomes.get(resource).is_sound(timing, last) {
                return Err(ResumeError::Outcomes);
            }
        }
        if self.pods.is_sound(timing, last) {
            Ok(())
        } else {
            Err(ResumeError::Pods)
        }
    }

    /// Moves everything to another boot's frames and monotonic time. After the longest gap, or one that cannot be believed,
    /// frames are forgotten, and pods with them.
    fn move_to(&mut self, timing: &Timing, frame: u64, now: Duration, gap: Option<Duration>) {
        let known = gap.unwrap_or_default().min(LONGEST_GAP);
        let missing = known.as_nanos() / timing.frame().as_nanos().max(1);
        let shift = Shift {
            last: self.history.cpu.last_frame().unwrap_or_default(),
            new_last: frame
                .saturating_sub(1)
                .saturating_sub(u64::try_from(missing).unwrap_or(u64::MAX)),
        };
        self.pods.shift(shift);
        for resource in Resource::ALL {
            self.history.get_mut(resource).shift(shift);
            self.outcomes.get_mut(resource).shift(shift);
        }
        if gap.is_none_or(|gap| gap >= LONGEST_GAP) {
            self.pods = Pods::default();
            self.history = PerResource::from_fn(|_| History::new(timing.ring_frames));
        }
        let at = self.at;
        let left = |until: Duration| until.saturating_sub(at).saturating_sub(known);
        self.brakes = self
            .brakes
            .map(|_, levels| levels.map(|until| now.saturating_add(left(until))));
    }
}

impl Estimator {
    /// The state to resume from. `now` is monotonic time.
    pub fn snapshot(&self, now: Duration) -> Snapshot {
        Snapshot {
            at: now,
            history: self.history.clone(),
            pods: self.pods.clone(),
            limits: self.limits,
            outcomes: self.outcomes.clone(),
            publication: self.publication,
            brakes: self.brakes.until(),
        }
    }

    /// Resumes from a snapshot. Frames that were missed are not valid. On another boot all is kept, too, and the gap is as long
    /// as the wall clock says; a day, or a clock that went back, costs frames and pods. Pods that are gone are folded into
    /// their frames once the server has named those that are there.
    ///
    /// # Errors
    /// The snapshot is of another timing, or of no estimator at all.
    pub fn resume(timing: Timing, mut snapshot: Snapshot, lapse: Lapse) -> Result<Self, ResumeError> {
        let mut estimator = Self::new(timing);
        let Lapse { frame, now, boot } = lapse;
        let frame = estimator.number(frame);
        match boot {
            Boot::Same => snapshot.check(&timing, frame)?,
            Boot::Other { gap } => {
                let last = snapshot.history.cpu.last_frame().unwrap_or(u64::MAX);
                snapshot.check(&timing, last)?;
                snapshot.move_to(&timing, frame, now, gap);
            }
        }
        let Snapshot {
            at: _,
            history,
            mut pods,
            limits,
            mut outcomes,
            mut publication,
            brakes,
        } = snapshot;
        pods.resume();
        estimator.brakes = Brakes::new(&timing);
        estimator.brakes.resume(&brakes, now);
        for resource in Resource::ALL {
            outcomes.get_mut(resource).resume(&timing);
            publication.get_mut(resource).resume();
            if estimator.brakes.level(resource) == Brake::Stop {
                publication.get_mut(resource).stop();
            }
        }
        Ok(Self {
            limits,
            pods,
            history,
            outcomes,
            publication,
            ..estimator
        })
    }
}

#[cfg(test)]
mod tests;
