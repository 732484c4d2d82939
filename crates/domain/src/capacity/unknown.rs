//! What a write is to store while nobody can tell the policy: what was decided last, on whatever raw is now.
//!
//! A webhook that starts without the API server does not know whether it would amplify a node, nor how far. Raw would
//! take capacity from under running pods, any other ratio would be a guess: the last one stays.

use super::{Decision, Given, Outcome, Why, Write, baseline, cents_of, marker::Marker};
use crate::{
    ratio::Ratio,
    resource::{PerResource, Resource},
};

/// Decides what a write of `nodes/status` is to store while the policy of the node is not known. A node that does not
/// carry our marker is left alone.
pub fn keep(write: &Write<'_>) -> Decision {
    let given = Given::read(write, None);
    let Some(marker) = &given.marker else {
        let outcomes = PerResource::from_fn(|_| Outcome::left_alone(Why::PolicyUnknown));
        return Decision {
            outcomes,
            ..Decision::default()
        };
    };
    let outcomes = PerResource::from_fn(|resource| kept(resource, write, &given, marker));
    if super::is_left_alone(&outcomes) {
        return Decision {
            outcomes,
            ..Decision::default()
        };
    }
    Decision {
        allocatable: super::allocatable(write, &given, &outcomes),
        annotations: super::records(write, &given, &outcomes, true),
        outcomes,
    }
}

fn kept(resource: Resource, write: &Write<'_>, given: &Given<'_>, marker: &Marker) -> Outcome {
    let Some(now) = write.new.amount(resource) else {
        return Outcome::left_alone(Why::Absent);
    };
    let (raw, odd) = match baseline::baseline(resource, now, write, given) {
        Ok(told) => told,
        Err(why) => return Outcome::left_alone(why),
    };
    let result = match (marker.raw(resource), marker.value(resource)) {
        (Some(before), Some(value)) if before == raw => value,
        (Some(before), Some(value)) => rescaled(raw, value, before),
        // Nothing was ever decided for this resource.
        (None, _) | (_, None) => raw,
    };
    Outcome {
        raw: Some(raw),
        result: Some(result),
        ratio: cents_of(result, raw),
        why: odd.into_iter().chain([Why::PolicyUnknown]).collect(),
        ..Outcome::default()
    }
}

/// `raw` times the ratio that made `value` of `before`: in whole cents where they did, for the result to be the one that
/// a replica that knows the policy gives; else in proportion, cut off. `raw` where there is no such number.
fn rescaled(raw: u64, value: u64, before: u64) -> u64 {
    let in_cents = || {
        let ratio = Ratio::from_cents(cents_of(value, before)?);
        (ratio.apply(before) == Some(value)).then(|| ratio.apply(raw))?
    };
    let in_proportion = || {
        let product = u128::from(raw) * u128::from(value);
        u64::try_from(product.checked_div(u128::from(before))?).ok()
    };
    in_cents().or_else(in_proportion).unwrap_or(raw)
}
