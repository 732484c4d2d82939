//! Applies colocation profiles to a new Pod or Reservation by the rules, counts what came of each, and says it in the audit
//! event.

use headroom_rules::{
    profile::{Newcomer, ProfileMatch, ProfileRules, ProfileTarget, TranslationWish},
    switch::Switches,
};

use super::draft_pod::DraftPod;
use crate::admission::{
    draft::{Draft, Fields as _},
    endpoint::{Colocation, Stop},
    endpoints::pod_types::PodCtx,
    error::StepError,
    metrics,
    review::{Operation, Request},
};

/// Longest list of profiles in the audit event, in bytes.
const LONGEST_AUDIT: usize = 1024;

/// The object as it came.
fn newcomer<'a>(
    request: &'a Request,
    target: ProfileTarget,
    draft: &Draft<'_>,
    store: &Colocation,
) -> Result<Newcomer<'a>, StepError> {
    let labels = draft
        .read(&["metadata", "labels"])
        .map_err(|source| StepError::Read {
            field: "metadata.labels".to_owned(),
            source,
        })?;
    Ok(Newcomer {
        target,
        review: Some(&request.uid),
        namespace: &request.namespace,
        labels: labels.unwrap_or_default(),
        namespace_labels: match target {
            ProfileTarget::Pod => store.profiles.namespace(&request.namespace),
            ProfileTarget::Reservation => None,
        },
    })
}

/// True while a profile that may be for the object names a namespace or a PriorityClass that is not known.
pub(super) fn is_unknown(
    request: &Request,
    target: ProfileTarget,
    draft: &Draft<'_>,
    store: &Colocation,
) -> bool {
    if request.operation != Operation::Create {
        return false;
    }
    // What cannot be read, the step tells.
    let Ok(newcomer) = newcomer(request, target, draft, store) else {
        return false;
    };
    let profiles = store.profiles.profiles();
    let mut compiled = profiles.values().filter_map(|known| known.compiled.as_ref().ok());
    // Waiting for what nobody needs costs a moment; the switches in force decide what is applied.
    let switches = Switches::default();
    compiled.any(|profile| match newcomer.matches(profile, &switches) {
        ProfileMatch::OtherLabels | ProfileMatch::OtherNamespace => false,
        ProfileMatch::UnknownNamespace => true,
        ProfileMatch::Matches => {
            let class = profile.priority_class_name();
            class.is_some_and(|name| store.profiles.priority_class(name).is_none())
        }
    })
}

/// Applies the profiles that are for the object, and says what they mean for its cpu and memory.
pub(super) fn apply_all(
    ctx: &PodCtx<'_>,
    target: ProfileTarget,
    draft: &mut Draft<'_>,
) -> Result<TranslationWish, Stop> {
    let profiles = ctx.store.profiles.profiles();
    if profiles.is_empty() {
        return Ok(TranslationWish::default());
    }
    let newcomer = newcomer(ctx.request, target, draft, ctx.store)?;
    let rules = ProfileRules {
        profiles: &profiles,
        class: &|name| ctx.store.profiles.priority_class(name),
        switches: ctx.switches,
    };
    let review = rules
        .review(&newcomer, &mut DraftPod(draft))
        .map_err(StepError::from)?;
    let mut text = String::new();
    for (name, result) in review.results {
        let word = result.word();
        metrics::PROFILES.with([word]).increment(1);
        if text.len() < LONGEST_AUDIT {
            let space = if text.is_empty() { "" } else { " " };
            text.extend([space, name, "=", word]);
        }
    }
    if !text.is_empty() {
        text.truncate(text.floor_char_boundary(LONGEST_AUDIT));
        draft.audit("profiles", text);
    }
    Ok(review.wish)
}
