//! [`Estimate`] of one resource: all numbers for reports and for `explain`, and its conversion to a hint.

use super::{Peak, Reason, Slack, ppm};
use crate::{
    hint::{Brake, Calibration, Highs, Progress, ResourceHint},
    ratio::Cents,
};

/// Estimate of one resource, with all numbers for reports and for `explain`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Estimate {
    /// C: physical capacity, in the resource's unit.
    pub capacity: u64,
    /// A: raw allocatable, in the resource's unit.
    pub raw: u64,
    /// T, P0, P, Rw, R, S and the values derived from them.
    pub slack: Slack,
    /// Terms of P0; absent without any valid frame.
    pub peak: Option<Peak>,
    /// Ratio towards which the publication moves.
    pub target: Cents,
    /// Progress of the publication towards the target.
    pub progress: Progress,
    /// Ratio to apply; 1.00 without a view.
    pub published: Cents,
    /// Valid share of the ring, in ppm.
    pub coverage_ppm: u32,
    /// Confidence in the ratio, in ppm; see [`confidence_ppm`].
    pub confidence_ppm: u32,
    /// m: margin on the peak, in ppm.
    pub margin_ppm: u32,
    /// M: margin as calibrated by outcomes, in ppm; up to 1,048,999.
    pub accumulator_ppm: u32,
    /// True while bad outcomes keep the node from being amplified.
    pub is_latched: bool,
    /// Level of the active brake.
    pub brake: Brake,
    /// Reasons for the ratio, most important first.
    pub reasons: Vec<Reason>,
}

impl Estimate {
    /// Conversion to a hint; `usage` is measured use, in milli-cores or bytes.
    pub fn hint(&self, usage: u64) -> ResourceHint {
        let Self {
            capacity,
            raw: _,
            slack,
            peak,
            target,
            progress,
            published,
            coverage_ppm,
            // Derived from the other fields.
            confidence_ppm: _,
            margin_ppm,
            accumulator_ppm,
            is_latched,
            brake,
            reasons,
        } = self;
        ResourceHint {
            capacity: *capacity,
            isolated: 0,
            usage,
            peak: slack.peak,
            peak_age_frames: peak.map_or(0, |peak| peak.frames_ago),
            highs: peak.map(|peak| Highs {
                highest: peak.highest,
                last: peak.last,
                climb: peak.climb,
            }),
            predicted_peak: slack.predicted_peak,
            warm_requests: slack.warm_requests,
            published: *published,
            target: *target,
            progress: Some(*progress),
            coverage_ppm: *coverage_ppm,
            margin_ppm: *margin_ppm,
            calibration: Some(Calibration {
                accumulator_ppm: *accumulator_ppm,
                is_latched: *is_latched,
            }),
            brake: *brake,
            reasons: reasons.iter().map(|reason| reason.code().to_owned()).collect(),
        }
    }
}

/// Confidence in a ratio, in ppm: the smaller of the valid share of the ring and the trusted share of the requests
/// (Rw of R); 0 without bound requests.
pub fn confidence_ppm(coverage_ppm: u32, warm_requests: u64, bound: u64) -> u32 {
    coverage_ppm.min(ppm(warm_requests, bound))
}
