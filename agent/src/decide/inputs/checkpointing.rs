//! Checkpoints let the estimator's history outlive the agent. `EstimatorInputs` decides when a new one is worth saving,
//! makes the record, and resumes from it.

use std::{mem, time::Duration};

use headroom_domain::{
    estimate::{Boot, Estimator, Lapse, ResumeError},
    hint::{Beginning, Brake, Past},
    resource::PerResource,
};
use tracing::info;

use super::EstimatorInputs;
use crate::{
    local::checkpoint::{CheckpointFile, HistoryOrigin, Owner},
    sample::clock::{Clocks, nanoseconds},
};

#[derive(Debug, Default)]
pub(super) struct Saved {
    /// Set when a frame ended since.
    pub(super) is_old: bool,
    brake: PerResource<Brake>,
}

/// Start of the history, with its reason.
#[derive(Clone, Copy, Debug)]
pub(super) struct HistoryStart {
    /// In nanoseconds since boot; negative before it.
    boottime_ns: i128,
    why: Beginning,
}

impl HistoryStart {
    /// Start that lies this long before `at`.
    pub(super) fn before(at: Clocks, age: Duration, why: Beginning) -> Self {
        let age = i128::from(nanoseconds(age));
        Self {
            boottime_ns: i128::from(at.boottime_ns) - age,
            why,
        }
    }

    fn age(self, at: Clocks) -> Duration {
        let age = i128::from(at.boottime_ns) - self.boottime_ns;
        Duration::from_nanos(u64::try_from(age).unwrap_or(0))
    }

    /// Start in the form of reports.
    pub(super) fn past(self, at: Clocks) -> Past {
        Past {
            age_s: self.age(at).as_secs(),
            beginning: Some(self.why),
        }
    }
}

impl EstimatorInputs {
    /// The history begins at this time, for this reason.
    pub(in crate::decide) fn begin(&mut self, at: Clocks, why: Beginning) {
        self.began = HistoryStart::before(at, Duration::ZERO, why);
    }

    /// Since when the history counts, and why, as reports carry it.
    pub(in crate::decide) fn past(&self, at: Clocks) -> Past {
        self.began.past(at)
    }

    /// Resumes from a record of this boot or another; `at` and `wall`, the time since 1970, are now.
    ///
    /// # Errors
    /// The record is not of an estimator of this timing. Nothing has changed.
    pub(in crate::decide) fn resume(
        &mut self,
        record: CheckpointFile,
        boot: Boot,
        at: Clocks,
        wall: Duration,
    ) -> Result<(), ResumeError> {
        let timing = *self.estimator.timing();
        let lapse = Lapse {
            frame: at.boottime_ns / nanoseconds(timing.frame()).max(1),
            now: Duration::from_nanos(at.monotonic_ns),
            boot,
        };
        let frames = |count: u64| {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            timing.frame().saturating_mul(count)
        };
        let began = record.began.unwrap_or_else(|| HistoryOrigin {
            wall: record.wall.saturating_sub(frames(record.snapshot.frames())),
            why: Beginning::NotRecorded,
        });
        let is_forgotten = wall.saturating_sub(record.wall) >= frames(timing.ring_frames.into());
        self.estimator = Estimator::resume(timing, record.snapshot, lapse)?;
        self.began = match boot {
            Boot::Other { gap: None } => HistoryStart::before(at, Duration::ZERO, Beginning::ClockWentBack),
            Boot::Same | Boot::Other { gap: Some(_) } if is_forgotten => {
                HistoryStart::before(at, Duration::ZERO, Beginning::AwayTooLong)
            }
            Boot::Same | Boot::Other { gap: Some(_) } => {
                HistoryStart::before(at, wall.saturating_sub(began.wall), began.why)
            }
        };
        self.refresh_visibility();
        let coverage = self
            .estimator
            .estimates()
            .map(|_, estimate| estimate.coverage_ppm);
        info!(?boot, coverage_ppm = coverage.cpu, "resumed from a checkpoint");
        Ok(())
    }

    /// Record to save now; `None` before the first sample, when it would equal the saved one.
    pub(in crate::decide) fn record(
        &self,
        owner: Owner,
        boot_id: String,
        wall: Duration,
    ) -> Option<CheckpointFile> {
        if self.at == Clocks::default() {
            return None;
        }
        let now = Duration::from_nanos(self.at.monotonic_ns);
        Some(CheckpointFile {
            owner,
            boot_id,
            wall,
            began: Some(HistoryOrigin {
                wall: wall.saturating_sub(self.began.age(self.at)),
                why: self.began.why,
            }),
            snapshot: self.estimator.snapshot(now),
        })
    }

    /// Is there more to save than there was when this was last asked?
    pub(in crate::decide) fn has_more_to_save(&mut self) -> bool {
        let brake = self.estimator.estimates().map(|_, estimate| estimate.brake);
        let saved = Saved { is_old: false, brake };
        let before = mem::replace(&mut self.saved, saved);
        before.is_old || before.brake != brake
    }
}
