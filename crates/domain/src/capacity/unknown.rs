//! What a write is to store while nobody can tell the policy: what was decided last, on whatever raw is now.
//!
//! A webhook that starts without the API server does not know whether it would amplify a node, nor how far. Raw would
//! take capacity from under running pods, any other ratio would be a guess: the last one stays.

use super::{Decision, Given, Outcome, Why, Write, baseline, cents_of, marker::Marker};
use crate::resource::{PerResource, Resource};

/// Decides what a write of `nodes/status` is to store while the policy of the node is not known. A node that does not
/// carry our marker is left alone.
pub fn keep(write: &Write<'_>) -> Decision {
    let given = Given::read(write, None);
    let Some(marker) = &given.marker else {
        let outcomes = PerResource::from_fn(|_| Outcome {
            why: vec![Why::PolicyUnknown],
            ..Outcome::default()
        });
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
        return Outcome {
            why: vec![Why::Absent],
            ..Outcome::default()
        };
    };
    let (raw, foreign) = baseline::baseline(resource, now, write, given);
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
        why: foreign.into_iter().chain([Why::PolicyUnknown]).collect(),
    }
}

/// `raw` × `value` / `before`, cut off; `raw` where there is no such number.
fn rescaled(raw: u64, value: u64, before: u64) -> u64 {
    let product = u128::from(raw) * u128::from(value);
    product
        .checked_div(u128::from(before))
        .and_then(|scaled| u64::try_from(scaled).ok())
        .unwrap_or(raw)
}
