//! [`ResourceStatus`]: one resource in `/status`, with the estimate and the numbers behind it.

use headroom_domain::{
    estimate::{Estimate, Peak, Slack},
    resource::Resource,
};
use serde::{Deserialize, Serialize};

/// Estimate of one resource; amounts are in its unit. The letters are those of docs/estimator.md#inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceStatus {
    /// Name of the resource: `cpu` or `memory`.
    pub name: String,
    /// Unit of amounts: `milli` or `bytes`.
    pub unit: String,
    /// C: physical capacity of the machine.
    pub capacity: u64,
    /// A: raw allocatable, the kubelet's own value.
    pub raw: u64,
    /// T: safe use, the target share.
    pub safe: u64,
    /// P0: conditioned peak, before the margin.
    pub peak: u64,
    /// Terms of P0; absent before the first valid frame.
    pub history: Option<PeakStatus>,
    /// P: P0 with its margin.
    pub predicted_peak: u64,
    /// Rw: requests of trusted pods, weighted by trust.
    pub warm_requests: u64,
    /// R: requests of all bound pods.
    pub bound: u64,
    /// Slack: S = T - P + Rw - A.
    pub slack: i64,
    /// Ratio towards which the publication moves, in cents.
    pub target_cents: u32,
    /// Ratio to apply, in cents.
    pub published_cents: u32,
    /// Valid share of the history, in ppm.
    pub coverage_ppm: u32,
    /// Smaller of the valid share of the history and the trusted share of the requests, in ppm.
    pub confidence_ppm: u32,
    /// m: margin on the peak, in ppm.
    pub margin_ppm: u32,
    /// Calibration of the margin by outcomes.
    pub calibration: CalibrationStatus,
    /// Level of the active brake, 0 to 3.
    pub brake: u8,
    /// Reason codes, most important first.
    pub reasons: Vec<String>,
}

/// Terms of the conditioned peak; amounts are in the unit of the resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeakStatus {
    /// max H: highest conditioned peak of a frame.
    pub highest: u64,
    /// Frames between that frame and the last one.
    pub frames_ago: u64,
    /// H: conditioned peak of the last valid frame.
    pub last: u64,
    /// G: worst climb; 0 for CPU.
    pub climb: u64,
}

/// Calibration of the margin by outcomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalibrationStatus {
    /// M, in ppm: up to 1,048,999; at most 1,000,000 is applied.
    pub accumulator_ppm: u32,
    /// True while bad outcomes keep the node from being amplified.
    pub is_latched: bool,
}

impl ResourceStatus {
    /// Converts the estimate of one resource; slack saturates at 64 bits.
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
