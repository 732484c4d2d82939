//! [`Snapshot`] of an estimator's state, and its resumption after a restart of the agent. See
//! docs/estimator.md#what-survives-a-restart.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    Brakes, Estimator, History, Lineage, MarginCalibrator, Pods, Publication, Timing,
    frame_renumbering::Shift,
};
use crate::{
    hint::Brake,
    resource::{PerResource, Resource},
};

/// A longer gap counts as this long: no earlier frame is left in the ring.
const LONGEST_GAP: Duration = Duration::from_secs(24 * 60 * 60);

/// State of an estimator at one moment: rings, pods, outcomes, publication and brakes. The server's view is not part
/// of it; the webhook sends a new one. The serialized form has no [bounds](Self::bounds) of frames: they are saved
/// separately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Time of the snapshot, in monotonic time.
    at: Duration,
    history: PerResource<History>,
    pods: Pods,
    limits: PerResource<Option<u64>>,
    outcomes: PerResource<MarginCalibrator>,
    publication: PerResource<Publication>,
    /// Ends of L1, L2 and L3, in monotonic time.
    brakes: PerResource<[Duration; 3]>,
}

/// Time between a snapshot and its resumption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lapse {
    /// Number of the current frame, as in [`super::Frame::index`].
    pub frame: u64,
    /// Monotonic time of the resumption.
    pub now: Duration,
    /// Boot of the resumption: the same, or another with its gap.
    pub boot: Boot,
}

/// Boot of the resumption, compared with that of the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boot {
    /// Same boot: frame numbers and monotonic time continue.
    Same,
    /// Another boot: frame numbers and monotonic time started again.
    Other {
        /// Wall time since the snapshot; `None` if the clock went back.
        gap: Option<Duration>,
    },
}

/// The snapshot cannot have been written by an estimator of this timing before now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResumeError {
    /// Frames are out of order, too many, or later than now.
    #[error("the checkpoint's frames are out of order, too many, or in the future")]
    Frames,
    /// Pods are too many, or their rings have another length.
    #[error("the checkpoint's pods are too many, or their rings have another length")]
    Pods,
    /// The margin or its open decisions are impossible.
    #[error("the checkpoint's margin or open decisions are impossible")]
    Outcomes,
}

impl Snapshot {
    /// Number of frames from the first to the last in the history, inclusive.
    pub fn frames(&self) -> u64 {
        self.history.cpu.span()
    }

    /// Invalid frames that were measured in part, as (number, lower bound of the peak in milli-cores or bytes). They
    /// are not in the serialized form, whose layout is older and must stay readable for versions without them.
    pub fn bounds(&self) -> PerResource<Vec<(u64, u64)>> {
        PerResource::from_fn(|resource| self.history.get(resource).bounds())
    }

    /// Adds separately saved bounds to the snapshot; frames that are valid or missing are skipped.
    #[must_use]
    pub fn with_bounds(mut self, bounds: &PerResource<Vec<(u64, u64)>>) -> Self {
        for resource in Resource::ALL {
            self.history
                .get_mut(resource)
                .restore_bounds(bounds.get(resource));
        }
        self
    }

    /// Controllers of the pods, and trust that they took over. They are not in the serialized form, for the same reason
    /// as bounds.
    pub fn lineages(&self) -> Vec<Lineage> {
        self.pods.lineages()
    }

    /// Adds separately saved lineages to the snapshot; pods that are not tracked are skipped.
    #[must_use]
    pub fn with_lineages(mut self, lineages: &[Lineage]) -> Self {
        self.pods.restore_lineages(lineages);
        self
    }

    /// Checks that the state is possible, with `last` as the last frame that can have ended.
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

    /// Moves all times to another boot's frames and monotonic time. After the longest gap, or an unknown gap, frames
    /// and pods are dropped.
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
    /// State from which an estimator can resume. `now` is monotonic time.
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

    /// Resumes from a snapshot. Missed frames are invalid. The state survives a reboot too, with the gap measured by
    /// the wall clock; a gap of a day, or a clock that went back, drops frames and pods. Pods that have left are
    /// subtracted from their frames once the webhook has sent its list of pods.
    ///
    /// # Errors
    /// If the snapshot has another timing or was not written by an estimator.
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
