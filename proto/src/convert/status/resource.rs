//! Conversions of one resource of an agent's status: [`wire::AgentResource`] ↔ [`ResourceStatus`].

use crate::{
    WireError,
    status::{CalibrationStatus, PeakStatus, ResourceStatus},
    v1alpha1 as wire,
};

impl From<ResourceStatus> for wire::AgentResource {
    fn from(resource: ResourceStatus) -> Self {
        let ResourceStatus {
            name,
            unit,
            capacity,
            raw,
            safe,
            peak,
            history,
            predicted_peak,
            warm_requests,
            bound,
            slack,
            target_cents,
            published_cents,
            coverage_ppm,
            confidence_ppm,
            margin_ppm,
            calibration:
                CalibrationStatus {
                    accumulator_ppm,
                    is_latched,
                },
            brake,
            reasons,
        } = resource;
        Self {
            name,
            capacity,
            raw,
            safe,
            peak,
            predicted_peak,
            warm_requests,
            bound,
            slack,
            target_cents,
            published_cents,
            coverage_ppm,
            margin_ppm,
            brake: brake.into(),
            reasons,
            unit,
            history: history.map(Into::into),
            confidence_ppm,
            calibration: Some(wire::AgentCalibration {
                accumulator_ppm,
                latched: is_latched,
            }),
        }
    }
}

impl TryFrom<wire::AgentResource> for ResourceStatus {
    type Error = WireError;

    fn try_from(resource: wire::AgentResource) -> Result<Self, WireError> {
        let wire::AgentResource {
            name,
            capacity,
            raw,
            safe,
            peak,
            predicted_peak,
            warm_requests,
            bound,
            slack,
            target_cents,
            published_cents,
            coverage_ppm,
            margin_ppm,
            brake,
            reasons,
            unit,
            history,
            confidence_ppm,
            calibration,
        } = resource;
        let wire::AgentCalibration {
            accumulator_ppm,
            latched,
        } = calibration.unwrap_or_default();
        Ok(Self {
            name,
            unit,
            capacity,
            raw,
            safe,
            peak,
            history: history.map(Into::into),
            predicted_peak,
            warm_requests,
            bound,
            slack,
            target_cents,
            published_cents,
            coverage_ppm,
            confidence_ppm,
            margin_ppm,
            calibration: CalibrationStatus {
                accumulator_ppm,
                is_latched: latched,
            },
            brake: u8::try_from(brake).map_err(|_large| {
                WireError::new("resources.brake", format!("{brake} is not a brake level"))
            })?,
            reasons,
        })
    }
}

impl From<PeakStatus> for wire::AgentPeak {
    fn from(history: PeakStatus) -> Self {
        let PeakStatus {
            highest,
            frames_ago,
            last,
            climb,
        } = history;
        Self {
            highest,
            frames_ago,
            last,
            climb,
        }
    }
}

impl From<wire::AgentPeak> for PeakStatus {
    fn from(history: wire::AgentPeak) -> Self {
        let wire::AgentPeak {
            highest,
            frames_ago,
            last,
            climb,
        } = history;
        Self {
            highest,
            frames_ago,
            last,
            climb,
        }
    }
}
