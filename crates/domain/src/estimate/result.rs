//! The estimate of one resource: every number that reports and `explain` need, and its conversion to a hint.

use super::{Peak, Reason, Slack, ppm};
use crate::{
    hint::{Brake, Calibration, Highs, Progress, ResourceHint},
    ratio::Cents,
};

/// The estimate of one resource: everything for reports and for `explain`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Estimate {
    /// C.
    pub capacity: u64,
    /// A.
    pub raw: u64,
    /// T, P0, P, Rw, R, S and what follows from them.
    pub slack: Slack,
    /// Where P0 comes from and when it was; absent without any valid frame.
    pub peak: Option<Peak>,
    /// The ratio the publication moves towards.
    pub target: Cents,
    /// How far it has moved.
    pub progress: Progress,
    /// The ratio to apply.
    pub published: Cents,
    /// Share of the ring that is valid, in ppm.
    pub coverage_ppm: u32,
    /// See [`confidence_ppm`].
    pub confidence_ppm: u32,
    /// m: the margin, in ppm.
    pub margin_ppm: u32,
    /// M: what outcomes made of the margin, in ppm; up to 1,048,999.
    pub accumulator_ppm: u32,
    /// True while outcomes keep the node from being amplified.
    pub is_latched: bool,
    /// The brake in force.
    pub brake: Brake,
    /// Why, most important first.
    pub reasons: Vec<Reason>,
}

impl Estimate {
    /// As a report says it; `usage` is measured use, in milli-cores or bytes.
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
            // Follows from the rest.
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

/// How sure a ratio is, in ppm: the valid share of the ring, or the trusted share of the requests (Rw of R) if that is
/// less. Nothing bound is trusted not at all.
pub fn confidence_ppm(coverage_ppm: u32, warm_requests: u64, bound: u64) -> u32 {
    coverage_ppm.min(ppm(warm_requests, bound))
}
