//! Applies colocation profiles to a new Pod or Reservation by the rules, counts the results, and records them in the
//! audit event.

use headroom_rules::{
    profile::{CreatedObject, Profile, ProfileMatch, ProfileRules, ProfileTarget, TranslationDecision},
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

/// Object as sent.
fn created<'a>(
    request: &'a Request,
    target: ProfileTarget,
    draft: &Draft<'_>,
    store: &Colocation,
) -> Result<CreatedObject<'a>, StepError> {
    let labels = draft
        .read(&["metadata", "labels"])
        .map_err(|source| StepError::Read {
            field: "metadata.labels".to_owned(),
            source,
        })?;
    Ok(CreatedObject {
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
    let profiles = store.profiles.profiles();
    let compiled = profiles.values().filter_map(|known| known.compiled.as_ref().ok());
    let is_class_unknown = |profile: &Profile| {
        let class = profile.priority_class_name();
        class.is_some_and(|name| store.profiles.priority_class(name).is_none())
    };
    let is_namespace_known = match target {
        ProfileTarget::Pod => store.profiles.namespace(&request.namespace).is_some(),
        ProfileTarget::Reservation => true,
    };
    // Nearly always everything is known, and nothing of the object has to be read.
    let mut unknown = compiled
        .map(|profile| (profile, is_class_unknown(profile)))
        .filter(|(_, is_class_unknown)| *is_class_unknown || !is_namespace_known)
        .peekable();
    if unknown.peek().is_none() {
        return false;
    }
    // The step reports an unreadable object.
    let Ok(created) = created(request, target, draft, store) else {
        return false;
    };
    // An unnecessary wait takes a moment; the switches in force decide which profile is applied.
    let switches = Switches::default();
    unknown.any(
        |(profile, is_class_unknown)| match created.matches(profile, &switches) {
            ProfileMatch::OtherLabels | ProfileMatch::OtherNamespace => false,
            ProfileMatch::UnknownNamespace => true,
            ProfileMatch::Matches => is_class_unknown,
        },
    )
}

/// Applies the profiles that select the object, and returns their effect on its cpu and memory.
pub(super) fn apply_all(
    ctx: &PodCtx<'_>,
    target: ProfileTarget,
    draft: &mut Draft<'_>,
) -> Result<TranslationDecision, Stop> {
    let profiles = ctx.store.profiles.profiles();
    if profiles.is_empty() {
        return Ok(TranslationDecision::default());
    }
    let created = created(ctx.request, target, draft, ctx.store)?;
    let rules = ProfileRules {
        profiles: &profiles,
        class: &|name| ctx.store.profiles.priority_class(name),
        switches: ctx.switches,
    };
    let review = rules
        .review(&created, &mut DraftPod(draft))
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
    Ok(review.translation)
}
