//! Chooses the ratio of a resource from the mode, the ratio annotation and the hint, within bounds.

use super::{Basis, ParsedWrite, Why};
use crate::{
    annotation::Annotation,
    estimate::HIGHEST_PROC,
    hint::{AgentMode, Brake, EffectiveHint, Freshness, NoRaiseReason, Origin},
    policy::{Mode, Policy},
    ratio::{Cents, Ratio, Ratios},
    resource::Resource,
};

/// Ratio for one resource, and its reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Chosen ratio; `None` if nothing may change yet.
    pub(super) ratio: Option<Ratio>,
    /// Ratio of the hint within bounds, if a hint was used.
    pub(super) hinted: Option<Cents>,
    /// Reasons, in order of application.
    pub(super) why: Vec<Why>,
}

impl Chosen {
    /// Ratio 1.00, for a node without a request for amplification.
    pub(super) fn restored() -> Self {
        Self {
            ratio: Some(Ratio::ONE),
            hinted: None,
            why: vec![Why::Restored],
        }
    }

    fn hinted(cents: Cents, why: Vec<Why>) -> Self {
        Self {
            ratio: Some(Ratio::from_cents(cents)),
            hinted: Some(cents),
            why,
        }
    }
}

/// Ratio for a managed node.
pub(super) fn chosen(resource: Resource, basis: &Basis<'_>, given: &ParsedWrite<'_>) -> Chosen {
    let Basis {
        policy,
        hint,
        pod_demand: _,
    } = *basis;
    let highest = Ratio::from_cents(*policy.static_max.get(resource));
    let hinted = hint.map(|found| {
        let (cents, mut why) = from_hint(resource, found, policy, given);
        let cents = clamped(resource, cents, policy, &mut why);
        Chosen::hinted(cents, why)
    });
    match policy.mode {
        Mode::Off => Chosen::restored(),
        Mode::Static => from_annotation(resource, given, highest),
        Mode::Guard => {
            let annotated = from_annotation(resource, given, highest);
            let limit = hinted.unwrap_or_else(|| Chosen {
                hinted: None,
                ..Chosen::hinted(Cents::ONE, vec![Why::NoHint])
            });
            if annotated.ratio <= limit.ratio {
                Chosen {
                    hinted: limit.hinted,
                    ..annotated
                }
            } else {
                limit
            }
        }
        Mode::Auto => hinted.unwrap_or_else(|| Chosen {
            ratio: None,
            hinted: None,
            why: vec![Why::NoHint],
        }),
    }
}

/// The administrator's ratio, limited by the policy; 1.00 without one.
pub(super) fn annotated(resource: Resource, policy: &Policy, given: &ParsedWrite<'_>) -> Ratio {
    let highest = Ratio::from_cents(*policy.static_max.get(resource));
    from_annotation(resource, given, highest)
        .ratio
        .unwrap_or(Ratio::ONE)
}

/// The administrator's ratio: exact, at least 1, at most `max`; 1 if the annotation is invalid or the policy lets it
/// have no effect.
fn from_annotation(resource: Resource, given: &ParsedWrite<'_>, max: Ratio) -> Chosen {
    if !given.has_ratio {
        return Chosen {
            why: vec![Why::AnnotationIgnored],
            ..Chosen::restored()
        };
    }
    let Some(Ratios(ratios)) = given
        .own_ratio
        .map_or(Some(&Ratios::default()), Annotation::value)
        .copied()
    else {
        return Chosen {
            why: vec![Why::BadAnnotation],
            ..Chosen::restored()
        };
    };
    let ratio = ratios.get(resource).unwrap_or(Ratio::ONE).max(Ratio::ONE);
    let mut why = vec![Why::Annotation];
    if ratio > max {
        why.push(Why::ClampedMax);
    }
    Chosen {
        ratio: Some(ratio.min(max)),
        hinted: None,
        why,
    }
}

/// Ratio of the hint: down at once, up by at most the due step, limited by its freshness and never against a brake.
fn from_hint(
    resource: Resource,
    found: &EffectiveHint,
    policy: &Policy,
    given: &ParsedWrite<'_>,
) -> (Cents, Vec<Why>) {
    let part = *found.note.resources().get(resource);
    // A nudge that was stored while the webhook did not respond leaves an unapplied hint; ratios outside the bounds
    // are never applied.
    let last = policy.bounds.get(resource).clamp(*given.last.get(resource));
    let (mut cents, mut why) = match found.freshness {
        Freshness::Fresh => raised(part.published(), last, *found.step.get(resource)),
        Freshness::Hold => {
            let is_marker = found.origin == Origin::Marker;
            let why = if is_marker { Why::MarkerHeld } else { Why::HintHeld };
            (part.published().min(last), vec![why])
        }
        Freshness::Stop => (last.min(Cents::ONE), vec![Why::HintStopped]),
    };
    if let Some(caution) = found.caution {
        cents = cents.min(last);
        if matches!(caution, NoRaiseReason::Quarantined(_)) {
            cents = cents.min(Cents::ONE);
        }
        why.push(match caution {
            NoRaiseReason::OlderPods => Why::OlderPods,
            NoRaiseReason::OtherCapacity => Why::OtherCapacity,
            NoRaiseReason::NoFloor => Why::NoFloor,
            NoRaiseReason::Quarantined(contradiction) => Why::quarantine(contradiction),
        });
    }
    if found.note.mode == AgentMode::Blind.name() {
        cents = cents.min(Cents::ONE);
        why.push(Why::Blind);
    } else if found.note.mode == AgentMode::Proc.name() && cents > HIGHEST_PROC {
        cents = HIGHEST_PROC;
        why.push(Why::ProcfsOnly);
    }
    match part.brake() {
        Brake::Off => return (cents, why),
        Brake::Hold | Brake::Shed => cents = cents.min(last),
        Brake::Stop => cents = cents.min(last).min(Cents::ONE),
    }
    why.push(Why::Braked);
    (cents, why)
}

/// `published`, at most one step above the last ratio.
fn raised(published: Cents, last: Cents, step: Cents) -> (Cents, Vec<Why>) {
    let most = Cents(last.0.saturating_add(step.0));
    if published > most {
        (most, vec![Why::Hint, Why::Slewed])
    } else {
        (published, vec![Why::Hint])
    }
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
