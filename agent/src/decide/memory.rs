//! What survives the agent: when it is worth saving, and how it is taken up again.

use std::{mem, time::Duration};

use headroom_domain::{
    estimate::{Estimator, Lapse, ResumeError},
    hint::Brake,
    resource::PerResource,
};
use tracing::info;

use super::Decider;
use crate::{
    checkpoint::{Owner, Record},
    gather::nanoseconds,
    sample::clock::Clocks,
};

/// What was saved last.
#[derive(Debug, Default)]
pub(super) struct Saved {
    /// Set when a frame ended since.
    pub(super) is_old: bool,
    brake: PerResource<Brake>,
}

impl Decider {
    /// Whose state it is.
    pub fn owner(&self) -> Owner {
        Owner {
            node: self.identity.node.clone(),
            timing: self.timing().name().to_owned(),
        }
    }

    /// Goes on from a record; `at` and `wall`, the time since 1970, are now.
    ///
    /// # Errors
    /// The record is not of an estimator of this timing. Nothing has changed.
    pub fn resume(&mut self, record: Record, at: Clocks, wall: Duration) -> Result<(), ResumeError> {
        let boot = record.boot(&self.identity.boot_id, wall);
        let timing = *self.estimator.timing();
        let lapse = Lapse {
            frame: at.boottime_ns / nanoseconds(timing.frame()).max(1),
            now: Duration::from_nanos(at.monotonic_ns),
            boot,
        };
        self.estimator = Estimator::resume(timing, record.snapshot, lapse)?;
        self.see_kernel();
        let coverage = self
            .estimator
            .estimates()
            .map(|_, estimate| estimate.coverage_ppm);
        info!(?boot, coverage_ppm = coverage.cpu, "going on from a checkpoint");
        Ok(())
    }

    /// The record to save now.
    pub fn record(&self, wall: Duration) -> Record {
        let now = Duration::from_nanos(self.seen.at.monotonic_ns);
        Record {
            owner: self.owner(),
            boot_id: self.identity.boot_id.clone(),
            wall,
            snapshot: self.estimator.snapshot(now),
        }
    }

    /// Is there more to save than there was when this was last asked? At the end of each frame, and when a brake comes
    /// or goes: what it lowered must not be back after a crash.
    pub fn has_more_to_save(&mut self) -> bool {
        let brake = self.estimator.estimates().map(|_, estimate| estimate.brake);
        let saved = Saved { is_old: false, brake };
        let before = mem::replace(&mut self.saved, saved);
        before.is_old || before.brake != brake
    }
}
