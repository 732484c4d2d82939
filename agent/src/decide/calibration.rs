//! The calibration of the margin is switched on or off.

use std::mem;

use tracing::warn;

use super::Decider;
use crate::args::Ocm;

impl Decider {
    /// Switches the calibration of the margin. What it came to is forgotten: the bound on bad outcomes counts from here.
    pub(super) fn calibrate(&mut self, ocm: Ocm) {
        if mem::replace(&mut self.ocm, ocm) == ocm {
            return;
        }
        let before = self
            .estimator
            .estimates()
            .map(|_, estimate| estimate.accumulator_ppm);
        warn!(
            ?ocm,
            cpu_ppm = before.cpu,
            memory_ppm = before.memory,
            "the margin is what it was at first; what outcomes made of it is forgotten"
        );
        self.estimator.reset_outcomes(ocm == Ocm::On);
    }
}
