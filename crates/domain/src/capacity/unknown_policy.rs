//! Decides a write of `nodes/status` while the policy is unknown: the last decision stays, scaled to today's raw
//! value.
//!
//! A webhook that starts without the API server does not know whether, and how far, to amplify a node. Raw would take
//! capacity away from running pods, and any other ratio would be a guess, so the last ratio stays. It can include the
//! demand of pods, so on a larger machine it gives at most the stored value.

use super::{Decision, ParsedWrite, ResourceDecision, Why, Write, baseline, cents_of, marker::Marker};
use crate::resource::{PerResource, Resource};

/// Decides the values that a write of `nodes/status` stores while the node's policy is unknown. A node without a
/// marker is left unchanged.
pub fn keep(write: &Write<'_>) -> Decision {
    let given = ParsedWrite::read(write, None);
    let Some(marker) = given.stored else {
        let outcomes = PerResource::from_fn(|_| ResourceDecision::left_alone(Why::PolicyUnknown));
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
        annotations: super::record::records(write, &given, &outcomes, true),
        outcomes,
    }
}

fn kept(resource: Resource, write: &Write<'_>, given: &ParsedWrite<'_>, marker: &Marker) -> ResourceDecision {
    let Some(now) = write.new.amount(resource) else {
        return ResourceDecision::left_alone(Why::Absent);
    };
    let (raw, odd) = match baseline::baseline(resource, now, write, given) {
        Ok(baseline) => baseline,
        Err(why) => return ResourceDecision::left_alone(why),
    };
    // Raw if there is no earlier decision for this resource.
    let stored = write.old.amount(resource);
    let kept = marker.kept(resource, raw, stored).unwrap_or(raw);
    let result = super::result::unraised(kept, raw, stored);
    ResourceDecision {
        raw: Some(raw),
        result: Some(result),
        ratio: cents_of(result, raw),
        why: odd.into_iter().chain([Why::PolicyUnknown]).collect(),
        ..ResourceDecision::default()
    }
}
