//! The calibration of the margin is switched on or off.

use std::mem;

use tracing::warn;

use super::Decider;
use crate::args::MarginCalibration;

impl Decider {
    /// Switches the calibration of the margin. What it came to is forgotten: the bound on bad outcomes counts from here.
    pub(super) fn calibrate(&mut self, margin_calibration: MarginCalibration) {
        if mem::replace(&mut self.margin_calibration, margin_calibration) == margin_calibration {
            return;
        }
        let before = self
            .estimator
            .estimates()
            .map(|_, estimate| estimate.accumulator_ppm);
        warn!(
            ?margin_calibration,
            cpu_ppm = before.cpu,
            memory_ppm = before.memory,
            "the margin is what it was at first; what outcomes made of it is forgotten"
        );
        self.estimator
            .reset_outcomes(margin_calibration == MarginCalibration::On);
    }
}
