//! The status of one resource in `/status`: the estimate, and the numbers that it is derived from.

use headroom_domain::{
    estimate::{Estimate, Peak, Slack},
    resource::Resource,
};
use serde::{Deserialize, Serialize};

/// The estimate of one resource; amounts in its unit. The letters are those of docs/estimator.md#inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceStatus {
    /// `cpu` or `memory`.
    pub name: String,
    /// `milli` or `bytes`.
    pub unit: String,
    /// C: what the machine has.
    pub capacity: u64,
    /// A: raw allocatable.
    pub raw: u64,
    /// T: use that is safe.
    pub safe: u64,
    /// P0: conditioned peak.
    pub peak: u64,
    /// Where P0 comes from; absent before the first valid frame.
    pub history: Option<PeakStatus>,
    /// P: P0 with its margin.
    pub predicted_peak: u64,
    /// Rw: requests that are trusted.
    pub warm_requests: u64,
    /// R: requests bound to the node.
    pub bound: u64,
    /// S = T - P + Rw - A.
    pub slack: i64,
    /// The ratio that publication moves towards.
    pub target_cents: u32,
    /// The ratio to apply.
    pub published_cents: u32,
    /// Share of the history that is valid.
    pub coverage_ppm: u32,
    /// The valid share of the history or the trusted share of the requests, whichever is less.
    pub confidence_ppm: u32,
    /// m: the margin.
    pub margin_ppm: u32,
    /// How outcomes calibrate the margin.
    pub calibration: CalibrationStatus,
    /// Level of the brake in force, 0 to 3.
    pub brake: u8,
    /// Reason codes, most important first.
    pub reasons: Vec<String>,
}

/// The history that the conditioned peak is of; amounts in the unit of the resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeakStatus {
    /// max H: the highest conditioned peak of a frame.
    pub highest: u64,
    /// How many frames before the last one that frame was.
    pub frames_ago: u64,
    /// H of the last valid frame.
    pub last: u64,
    /// G: the worst climb; of memory only.
    pub climb: u64,
}

/// How far outcomes have moved the margin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalibrationStatus {
    /// M: up to 1,048,999; at most a million of it is applied.
    pub accumulator_ppm: u32,
    /// True while the node is not amplified because of it.
    pub is_latched: bool,
}

impl ResourceStatus {
    /// The status of one resource's estimate.
    pub fn from_estimate(resource: Resource, estimate: &Estimate) -> Self {
        let Estimate {
            capacity,
            raw,
            slack,
            peak: history,
            target,
            progress: _,
            published,
            coverage_ppm,
            confidence_ppm,
            margin_ppm,
            accumulator_ppm,
            is_latched,
            brake,
            reasons,
        } = estimate;
        let Slack {
            raw: _,
            safe,
            peak,
            predicted_peak,
            warm_requests,
            bound,
            slack,
        } = *slack;
        Self {
            name: resource.name().to_owned(),
            unit: match resource {
                Resource::Cpu => "milli",
                Resource::Memory => "bytes",
            }
            .to_owned(),
            capacity: *capacity,
            raw: *raw,
            safe,
            peak,
            history: history.map(PeakStatus::from_domain),
            predicted_peak,
            warm_requests,
            bound,
            slack: i64::try_from(slack).unwrap_or(if slack < 0 { i64::MIN } else { i64::MAX }),
            target_cents: target.0,
            published_cents: published.0,
            coverage_ppm: *coverage_ppm,
            confidence_ppm: *confidence_ppm,
            margin_ppm: *margin_ppm,
            calibration: CalibrationStatus {
                accumulator_ppm: *accumulator_ppm,
                is_latched: *is_latched,
            },
            brake: brake.level(),
            reasons: reasons.iter().map(|reason| reason.code().to_owned()).collect(),
        }
    }
}

impl PeakStatus {
    const fn from_domain(peak: Peak) -> Self {
        let Peak {
            highest,
            frames_ago,
            last,
            climb,
        } = peak;
        Self {
            highest,
            frames_ago,
            last,
            climb,
        }
    }
}
