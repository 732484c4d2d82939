//! Conversions of one resource of a report: [`wire::Resource`] ↔ [`ResourceHint`].

use headroom_domain::{
    estimate::LARGEST_ACCUMULATOR_PPM,
    hint::{Brake, Calibration, Highs, Progress, ResourceHint},
    ratio::Cents,
    resource::Resource,
};

use super::{LARGEST, WireError, name, ppm};
use crate::v1alpha1 as wire;

/// Most reason codes per resource.
const MOST_REASONS: usize = 16;
/// Highest ratio that is accepted, in cents. The floor may publish more than any bound.
const HIGHEST_CENTS: u32 = 10_000;

/// Reads and checks fields of one resource; an error names the field.
#[derive(Clone, Copy)]
struct Reader(Resource);

impl Reader {
    fn refused(self, field: &str, problem: String) -> WireError {
        WireError::new(format!("resources.{}.{field}", self.0), problem)
    }

    fn amount(self, field: &str, value: u64) -> Result<u64, WireError> {
        let most = *LARGEST.get(self.0);
        if value > most {
            return Err(self.refused(field, format!("{value} is above {most}")));
        }
        Ok(value)
    }

    fn cents(self, field: &str, value: u32) -> Result<Cents, WireError> {
        if value > HIGHEST_CENTS {
            return Err(self.refused(field, format!("{value} is above {HIGHEST_CENTS}")));
        }
        Ok(Cents(value))
    }

    fn ppm(self, field: &str, value: u32, most: u32) -> Result<u32, WireError> {
        ppm(&format!("resources.{}.{field}", self.0), value, most)
    }

    fn highs(self, highs: wire::Highs) -> Result<Highs, WireError> {
        let wire::Highs { highest, last, climb } = highs;
        Ok(Highs {
            highest: self.amount("highs.highest", highest)?,
            last: self.amount("highs.last", last)?,
            climb: self.amount("highs.climb", climb)?,
        })
    }

    fn calibration(self, calibration: wire::Calibration) -> Result<Calibration, WireError> {
        let wire::Calibration {
            accumulator_ppm,
            latched,
        } = calibration;
        let field = "calibration.accumulator_ppm";
        Ok(Calibration {
            accumulator_ppm: self.ppm(field, accumulator_ppm, LARGEST_ACCUMULATOR_PPM)?,
            is_latched: latched,
        })
    }

    fn progress(self, progress: wire::Progress) -> Result<Progress, WireError> {
        let wire::Progress {
            stepped_cents,
            agreeing_frames,
        } = progress;
        Ok(Progress {
            stepped: self.cents("progress.stepped_cents", stepped_cents)?,
            agreeing_frames,
        })
    }

    fn brake(self, level: u32) -> Result<Brake, WireError> {
        Brake::from_level(level).ok_or_else(|| self.refused("brake", format!("{level} is above 3")))
    }

    fn reasons(self, codes: Vec<String>) -> Result<Vec<String>, WireError> {
        if codes.len() > MOST_REASONS || codes.iter().any(|code| name("", code.clone()).is_err()) {
            return Err(self.refused("reasons", "are too many or not reason codes".to_owned()));
        }
        Ok(codes)
    }
}

/// Converts a received resource and checks its ranges.
pub(super) fn resource_hint(resource: Resource, part: wire::Resource) -> Result<ResourceHint, WireError> {
    let wire::Resource {
        name: _,
        capacity,
        usage,
        peak_p0,
        predicted_peak,
        warm_requests,
        published_cents,
        target_cents,
        coverage_ppm,
        margin_ppm,
        brake,
        reasons,
        peak_age_frames,
        highs,
        calibration,
        progress,
        isolated,
    } = part;
    let read = Reader(resource);
    Ok(ResourceHint {
        capacity: read.amount("capacity", capacity)?,
        isolated: read.amount("isolated", isolated)?,
        usage: read.amount("usage", usage)?,
        peak: read.amount("peak_p0", peak_p0)?,
        peak_age_frames,
        highs: highs.map(|highs| read.highs(highs)).transpose()?,
        predicted_peak: read.amount("predicted_peak", predicted_peak)?,
        warm_requests: read.amount("warm_requests", warm_requests)?,
        published: read.cents("published_cents", published_cents)?,
        target: read.cents("target_cents", target_cents)?,
        progress: progress.map(|progress| read.progress(progress)).transpose()?,
        coverage_ppm: read.ppm("coverage_ppm", coverage_ppm, 1_000_000)?,
        margin_ppm: read.ppm("margin_ppm", margin_ppm, 1_000_000)?,
        calibration: calibration
            .map(|calibration| read.calibration(calibration))
            .transpose()?,
        brake: read.brake(brake)?,
        reasons: read.reasons(reasons)?,
    })
}

/// Converts a resource for sending.
pub(super) fn resource_of(resource: Resource, hint: &ResourceHint) -> wire::Resource {
    let ResourceHint {
        capacity,
        isolated,
        usage,
        peak,
        peak_age_frames,
        highs,
        predicted_peak,
        warm_requests,
        published,
        target,
        progress,
        coverage_ppm,
        margin_ppm,
        calibration,
        brake,
        reasons,
    } = hint;
    wire::Resource {
        name: resource.name().to_owned(),
        capacity: *capacity,
        usage: *usage,
        peak_p0: *peak,
        predicted_peak: *predicted_peak,
        warm_requests: *warm_requests,
        published_cents: published.0,
        target_cents: target.0,
        coverage_ppm: *coverage_ppm,
        margin_ppm: *margin_ppm,
        brake: brake.level().into(),
        reasons: reasons.clone(),
        peak_age_frames: *peak_age_frames,
        highs: highs.map(wire::Highs::from),
        calibration: calibration.map(wire::Calibration::from),
        progress: progress.map(wire::Progress::from),
        isolated: *isolated,
    }
}

impl From<Highs> for wire::Highs {
    fn from(highs: Highs) -> Self {
        let Highs { highest, last, climb } = highs;
        Self { highest, last, climb }
    }
}

impl From<Calibration> for wire::Calibration {
    fn from(calibration: Calibration) -> Self {
        let Calibration {
            accumulator_ppm,
            is_latched,
        } = calibration;
        Self {
            accumulator_ppm,
            latched: is_latched,
        }
    }
}

impl From<Progress> for wire::Progress {
    fn from(progress: Progress) -> Self {
        let Progress {
            stepped,
            agreeing_frames,
        } = progress;
        Self {
            stepped_cents: stepped.0,
            agreeing_frames,
        }
    }
}
