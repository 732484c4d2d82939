//! Applies colocation profiles to a new Pod or Reservation by the rules, counts the results, and records them in the
//! audit event.

use std::time::Duration;

use headroom_rules::{
    profile::{
        CreatedObject, KnownProfile, Profile, ProfileMatch, ProfileRules, ProfileStop, ProfileTarget,
        TranslationDecision,
    },
    switch::Switches,
};

use super::draft_pod::DraftPod;
use crate::admission::{
    draft::{Draft, Fields as _},
    endpoint::{Colocation, Stop},
    endpoints::pod_types::PodCtx,
    error::StepError,
    metrics,
    refusal::Denial,
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

/// Longest time after its last change in which a profile is waited for that names an unknown PriorityClass: both are
/// often in one file. A profile whose class never arrives must not delay pods.
const YOUNG: Duration = Duration::from_secs(5);

/// True while a profile that would be applied to the object names a namespace or a PriorityClass that is not known.
pub(super) fn is_unknown(
    (request, draft): (&Request, &Draft<'_>),
    target: ProfileTarget,
    store: &Colocation,
    switches: &Switches,
) -> bool {
    if request.operation != Operation::Create {
        return false;
    }
    let profiles = store.profiles.profiles();
    let is_class_awaited = |known: &KnownProfile| {
        let class = known
            .compiled
            .as_ref()
            .ok()
            .and_then(Profile::priority_class_name);
        class.is_some_and(|name| store.profiles.priority_class(name).is_none())
            && known.since.is_none_or(|since| since.elapsed() < YOUNG)
    };
    let is_namespace_known = match target {
        ProfileTarget::Pod => store.profiles.namespace(&request.namespace).is_some(),
        ProfileTarget::Reservation => true,
    };
    // Nearly always everything is known, and nothing of the object has to be read.
    let mut unknown = profiles
        .iter()
        .map(|(name, known)| (name, known, is_class_awaited(known)))
        .filter(|(_, _, is_class_awaited)| *is_class_awaited || !is_namespace_known)
        .peekable();
    if unknown.peek().is_none() {
        return false;
    }
    // The step reports an unreadable object.
    let Ok(created) = created(request, target, draft, store) else {
        return false;
    };
    unknown.any(
        |(name, known, is_class_awaited)| match created.would_apply(name, known, switches) {
            None => false,
            Some(ProfileMatch::UnknownNamespace) => true,
            Some(_) => is_class_awaited,
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
        .map_err(|stop| match stop {
            ProfileStop::Profile(profile) => Stop::Failed(StepError::from(profile)),
            ProfileStop::Object(error) => Stop::Denied(Denial::Fields(error.into())),
        })?;
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
