//! Which ratio the mode, the annotation and the hint ask for, within bounds.

use super::{Basis, Given, Why};
use crate::{
    hint::{Brake, Found, Sight, Standing},
    policy::{Mode, Policy},
    ratio::{Cents, Ratio, parse_annotation},
    resource::{PerResource, Resource},
};

/// The highest ratio on the word of an agent that only has procfs. See agent.md, section 2.6.
const HIGHEST_WITHOUT_EBPF: Cents = Cents(150);

/// The ratio for one resource, and the reasons for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chosen {
    /// The ratio; `None` if nothing may be changed yet.
    pub(super) ratio: Option<Ratio>,
    /// Reasons, in order.
    pub(super) why: Vec<Why>,
}

/// The ratio for a node that is managed.
pub(super) fn chosen(resource: Resource, basis: &Basis<'_>, given: &Given<'_>) -> Chosen {
    let Basis {
        policy,
        hint,
        bound: _,
    } = *basis;
    match policy.mode {
        Mode::Off => Chosen {
            ratio: Some(Ratio::ONE),
            why: vec![Why::Restored],
        },
        Mode::Static => from_annotation(
            resource,
            given,
            Ratio::from_cents(*policy.static_max.get(resource)),
        ),
        Mode::Guard => {
            let annotated = from_annotation(
                resource,
                given,
                Ratio::from_cents(*policy.static_max.get(resource)),
            );
            let (cents, mut why) = match hint {
                Some(found) => from_hint(resource, found, given),
                None => (Cents::ONE, vec![Why::NoHint]),
            };
            let cents = clamped(resource, cents, policy, &mut why);
            let hinted = Ratio::from_cents(cents);
            match annotated.ratio {
                Some(ratio) if ratio <= hinted => annotated,
                _ => Chosen {
                    ratio: Some(hinted),
                    why,
                },
            }
        }
        Mode::Auto => match hint {
            Some(found) => {
                let (cents, mut why) = from_hint(resource, found, given);
                let cents = clamped(resource, cents, policy, &mut why);
                Chosen {
                    ratio: Some(Ratio::from_cents(cents)),
                    why,
                }
            }
            None => Chosen {
                ratio: None,
                why: vec![Why::NoHint],
            },
        },
    }
}

/// The administrator's ratio: exact, at least 1, at most `max`; unusable counts as 1.
fn from_annotation(resource: Resource, given: &Given<'_>, max: Ratio) -> Chosen {
    let Ok(ratios) = given
        .own_ratio
        .map_or_else(|| Ok(PerResource::default()), parse_annotation)
    else {
        return Chosen {
            ratio: Some(Ratio::ONE),
            why: vec![Why::BadAnnotation],
        };
    };
    let ratio = ratios.get(resource).unwrap_or(Ratio::ONE).max(Ratio::ONE);
    let mut why = vec![Why::Annotation];
    if ratio > max {
        why.push(Why::ClampedMax);
    }
    Chosen {
        ratio: Some(ratio.min(max)),
        why,
    }
}

/// The hint's ratio by its standing.
fn from_hint(resource: Resource, found: &Found, given: &Given<'_>) -> (Cents, Vec<Why>) {
    let part = *found.note.resources().get(resource);
    let last = given.last.map_or(Cents::ONE, |last| *last.get(resource));
    let (mut cents, mut why) = match found.standing {
        Standing::Fresh => (part.published(), vec![Why::Hint]),
        Standing::Hold => (part.published().min(last), vec![Why::HintHeld]),
        Standing::Stop => (last.min(Cents::ONE), vec![Why::HintStopped]),
    };
    if found.note.mode == Sight::Blind.name() {
        cents = cents.min(Cents::ONE);
        why.push(Why::Blind);
    } else if found.note.mode == Sight::Proc.name() {
        cents = cents.min(HIGHEST_WITHOUT_EBPF);
    }
    if part.brake() > Brake::Off {
        why.push(Why::Braked);
    }
    (cents, why)
}

fn clamped(resource: Resource, cents: Cents, policy: &Policy, why: &mut Vec<Why>) -> Cents {
    let bounds = *policy.bounds.get(resource);
    let within = bounds.clamp(cents);
    if within < cents {
        why.push(Why::ClampedMax);
    } else if within > cents {
        why.push(Why::ClampedMin);
    }
    within
}
