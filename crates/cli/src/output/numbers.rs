//! Renders a derivation as flat JSON: integers, with the unit in the key. A value that an older agent does not report
//! is `null`.

use headroom_domain::{
    estimate::{Slack, Target},
    hint::{Calibration, Highs, Progress},
    resource::Resource,
};
use serde_json::{Map, Value, json};

use crate::derivation::Derivation;

/// Part of the JSON keys that names a resource, and the unit of its amounts.
pub(crate) const fn words(resource: Resource) -> (&'static str, &'static str) {
    match resource {
        Resource::Cpu => ("cpu", "milli"),
        Resource::Memory => ("mem", "bytes"),
    }
}

type Pairs<const N: usize> = [(String, Value); N];

pub(crate) fn highs(resource: Resource, highs: Option<Highs>) -> Pairs<3> {
    let (_, unit) = words(resource);
    [
        (
            format!("peak_highest_{unit}"),
            json!(highs.map(|highs| highs.highest)),
        ),
        (format!("peak_last_{unit}"), json!(highs.map(|highs| highs.last))),
        (
            format!("peak_climb_{unit}"),
            json!(highs.map(|highs| highs.climb)),
        ),
    ]
}

pub(crate) fn calibration(calibration: Option<Calibration>) -> Pairs<2> {
    let accumulator = calibration.map(|calibration| calibration.accumulator_ppm);
    let is_latched = calibration.map(|calibration| calibration.is_latched);
    [
        ("accumulator_ppm".to_owned(), json!(accumulator)),
        ("latched".to_owned(), json!(is_latched)),
    ]
}

/// Progress of the published ratio.
pub(crate) fn progress(progress: Option<Progress>) -> Pairs<2> {
    let stepped = progress.map(|progress| progress.stepped.0);
    let agreeing = progress.map(|progress| progress.agreeing_frames);
    [
        ("stepped_cents".to_owned(), json!(stepped)),
        ("agreeing_frames".to_owned(), json!(agreeing)),
    ]
}

/// All terms of a derivation.
pub(crate) fn derivation_json(derivation: &Derivation) -> Value {
    let resource = derivation.resource;
    let (_, unit) = words(resource);
    let mut terms: Map<String, Value> = amounts(derivation)
        .into_iter()
        .map(|(term, value)| (format!("{term}_{unit}"), value))
        .chain(shares(derivation).map(|(term, value)| (term.to_owned(), value)))
        .collect();
    terms.extend(highs(resource, derivation.highs));
    terms.extend(calibration(derivation.calibration));
    terms.extend(progress(derivation.progress));
    // An older agent reports this only by its reasons.
    terms.insert("latched".to_owned(), json!(derivation.is_latched));
    Value::Object(terms)
}

/// Terms in milli-cores or bytes, without the unit in the key.
fn amounts(derivation: &Derivation) -> [(&'static str, Value); 11] {
    let Slack {
        raw,
        safe,
        peak,
        predicted_peak,
        warm_requests,
        bound,
        slack,
    } = derivation.slack;
    let Target {
        scaled, allocatable, ..
    } = derivation.derived;
    let signed = |amount: i128| json!(i64::try_from(amount).ok());
    [
        ("capacity", json!(derivation.capacity)),
        ("raw", json!(raw)),
        ("safe", json!(safe)),
        ("peak_p0", json!(peak)),
        ("predicted_peak", json!(predicted_peak)),
        ("warm_requests", json!(warm_requests)),
        ("bound", json!(bound)),
        ("slack", signed(slack)),
        ("scaled_slack", signed(scaled)),
        ("wanted", signed(derivation.wanted())),
        ("allowed", json!(allocatable)),
    ]
}

/// Terms with units of their own.
fn shares(derivation: &Derivation) -> [(&'static str, Value); 15] {
    [
        ("sight", json!(derivation.sight.name())),
        ("peak_age_s", json!(derivation.peak_age.as_secs())),
        ("theta_ppm", json!(derivation.theta_ppm)),
        ("margin_ppm", json!(derivation.margin_ppm)),
        ("coverage_ppm", json!(derivation.coverage_ppm)),
        ("confidence_ppm", json!(derivation.confidence_ppm)),
        ("valid_frames", json!(derivation.valid_frames)),
        ("ring_frames", json!(derivation.timing.ring_frames)),
        ("min_cents", json!(derivation.policy_bounds.min.0)),
        ("max_cents", json!(derivation.policy_bounds.max.0)),
        ("highest_cents", json!(derivation.bounds.max.0)),
        ("derived_cents", json!(derivation.derived.cents.0)),
        ("target_cents", json!(derivation.target.0)),
        ("published_cents", json!(derivation.published.0)),
        ("brake", json!(derivation.brake.level())),
    ]
}
