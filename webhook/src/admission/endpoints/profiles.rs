//! Applies colocation profiles to a new Pod or Reservation, in the order of their names, each whole or not at all.
//!
//! Whom a profile is for is asked of the object as it came, so what one profile writes makes no other one match.

use std::sync::Arc;

use headroom_domain::selector::Labels;
use headroom_kit::log::chain;
use headroom_rules::{
    profile::{
        ApplyError, FAILURES_SKIP, PriorityClass, Profile, ProfileMatch, ProfileTarget, TranslationWish, draw,
    },
    switch::Switches,
};
use serde_json::Value;

use crate::{
    admission::{
        draft::{Draft, Fields as _, RewriteError},
        endpoint::{Colocation, Stop},
        endpoints::pod_types::PodCtx,
        error::StepError,
        metrics,
        review::{Operation, Request},
    },
    store::colocation::profiles::KnownProfile,
};

/// Longest list of profiles in the audit event, in bytes.
const LONGEST_AUDIT: usize = 1024;

/// Most profiles that an answer names in warnings. The API server hands on 4 KiB of warnings, and whoever may write profiles
/// must not take the room of all others.
const MOST_WARNINGS: usize = 16;

/// What came of a profile that is for the object, or may be.
enum ProfileResult {
    Applied,
    /// Its probability left this object out.
    LeftOut,
    /// It cannot be applied, or nobody knows whether it is for the object.
    Failed(String),
}

/// What is to be done about a profile that is for the object, or may be.
enum ProfilePlan<'p> {
    /// Nothing: that came of it.
    Decided(ProfileResult),
    /// It is applied, with the class that it names if that is known.
    Apply(&'p Profile, Option<Arc<PriorityClass>>),
}

/// Why a profile is not applied to this object.
#[derive(Debug, thiserror::Error)]
enum ProfileFailure {
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error(transparent)]
    Rewrite(#[from] RewriteError),
}

/// The object as it came.
struct Newcomer<'a> {
    request: &'a Request,
    target: ProfileTarget,
    labels: Labels,
    /// The labels of its namespace; `None` while it is not known, and for a Reservation, which is in none.
    namespace: Option<Arc<Labels>>,
}

/// Warnings about profiles, of which there may be many.
#[derive(Default)]
struct ProfileWarnings {
    /// Of the first.
    texts: Vec<String>,
    others: usize,
}

impl<'a> Newcomer<'a> {
    fn read(
        request: &'a Request,
        target: ProfileTarget,
        draft: &Draft<'_>,
        store: &Colocation,
    ) -> Result<Self, StepError> {
        let labels = draft
            .read(&["metadata", "labels"])
            .map_err(|source| StepError::Read {
                field: "metadata.labels".to_owned(),
                source,
            })?;
        let namespace = match target {
            ProfileTarget::Pod => store.profiles.namespace(&request.namespace),
            ProfileTarget::Reservation => None,
        };
        Ok(Self {
            request,
            target,
            labels: labels.unwrap_or_default(),
            namespace,
        })
    }

    fn matches(&self, profile: &Profile, switches: &Switches) -> ProfileMatch {
        match self.target {
            ProfileTarget::Pod => profile.matches(&self.labels, self.namespace.as_deref()),
            ProfileTarget::Reservation => profile.matches_reservation(&self.labels, switches),
        }
    }
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
    let Ok(newcomer) = Newcomer::read(request, target, draft, store) else {
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
    let mut wish = TranslationWish::default();
    let profiles = ctx.store.profiles.profiles();
    if profiles.is_empty() {
        return Ok(wish);
    }
    let newcomer = Newcomer::read(ctx.request, target, draft, ctx.store)?;
    let (mut results, mut warnings) = (Vec::new(), ProfileWarnings::default());
    let plans: Vec<_> = profiles
        .iter()
        .filter_map(|(name, known)| Some((name, known, plan(ctx, &newcomer, name, known)?)))
        .collect();
    let mut applied = apply_planned(ctx, draft, target, &plans).into_iter();
    for (name, known, plan) in plans {
        let result = match plan {
            ProfilePlan::Decided(result) => result,
            // There is one for each.
            ProfilePlan::Apply(..) => applied.next().unwrap_or(ProfileResult::LeftOut),
        };
        metrics::PROFILES.with([result.word()]).increment(1);
        match &result {
            ProfileResult::Applied => {
                wish.count(true, known.skip.as_deref(), ctx.switches);
                if let Some(member) = left_out(known, target, ctx.switches) {
                    warnings.push(|| {
                        format!("colocation profile {name}: its patch may not write {member} and leaves it as it is")
                    });
                }
            }
            ProfileResult::LeftOut => wish.count(false, known.skip.as_deref(), ctx.switches),
            ProfileResult::Failed(reason) => {
                let is_readable = known.compiled.is_ok();
                if is_readable && !ctx.switches.is_on(&FAILURES_SKIP) {
                    let (profile, reason) = (name.to_string(), reason.clone());
                    return Err(StepError::Profile { profile, reason }.into());
                }
                warnings.push(|| format!("colocation profile {name} was not applied: {reason}"));
            }
        }
        results.push(format!("{name}={}", result.word()));
    }
    warnings.write(draft);
    if !results.is_empty() {
        let mut text = results.join(" ");
        text.truncate(text.floor_char_boundary(LONGEST_AUDIT));
        draft.audit("profiles", text);
    }
    Ok(wish)
}

/// The first member of a profile's patch that is not written.
fn left_out(known: &KnownProfile, target: ProfileTarget, switches: &Switches) -> Option<String> {
    known.compiled.as_ref().ok()?.left_out(target, switches)
}

/// What is to be done about a profile; `None` if it is not for the object. One that cannot be read might be for any.
fn plan<'p>(
    ctx: &PodCtx<'_>,
    newcomer: &Newcomer<'_>,
    name: &str,
    known: &'p KnownProfile,
) -> Option<ProfilePlan<'p>> {
    let failed = |reason| Some(ProfilePlan::Decided(ProfileResult::Failed(reason)));
    let profile = match &known.compiled {
        Ok(profile) => profile,
        Err(reason) => return failed(reason.clone()),
    };
    match newcomer.matches(profile, ctx.switches) {
        ProfileMatch::OtherLabels | ProfileMatch::OtherNamespace => return None,
        ProfileMatch::UnknownNamespace => {
            let namespace = &newcomer.request.namespace;
            return failed(format!(
                "it selects by namespace, and Namespace {namespace:?} is not known to this replica"
            ));
        }
        ProfileMatch::Matches => {}
    }
    if !profile.is_drawn(draw(&newcomer.request.uid, name), ctx.switches) {
        return Some(ProfilePlan::Decided(ProfileResult::LeftOut));
    }
    if let Some(defect) = profile.defect() {
        return failed(chain(defect).to_string());
    }
    let class = profile.priority_class_name();
    let class = class.and_then(|name| ctx.store.profiles.priority_class(name));
    Some(ProfilePlan::Apply(profile, class))
}

/// Applies the profiles that are to be; what came of each, in their order. The object is read and compared once for all.
fn apply_planned<N>(
    ctx: &PodCtx<'_>,
    draft: &mut Draft<'_>,
    target: ProfileTarget,
    plans: &[(N, &Arc<KnownProfile>, ProfilePlan<'_>)],
) -> Vec<ProfileResult> {
    let planned = plans.iter().filter_map(|(_, _, plan)| match plan {
        ProfilePlan::Apply(profile, class) => Some((*profile, class.as_deref())),
        ProfilePlan::Decided(_) => None,
    });
    let planned: Vec<_> = planned.collect();
    if planned.is_empty() {
        return Vec::new();
    }
    let changes = planned.iter().map(|&(profile, class)| {
        move |object: &mut Value| -> Result<(), ProfileFailure> {
            Ok(profile.apply(object, target, class, ctx.switches)?)
        }
    });
    let places = planned.iter().flat_map(|(profile, _)| profile.places(target));
    match draft.rewrite_each(places, changes) {
        Ok(results) => {
            let results = results.into_iter();
            results
                .map(|result| match result {
                    Ok(()) => ProfileResult::Applied,
                    Err(failure) => ProfileResult::failed(&failure),
                })
                .collect()
        }
        Err(failure) => planned.iter().map(|_| ProfileResult::failed(&failure)).collect(),
    }
}

impl ProfileResult {
    fn failed(failure: &(impl std::error::Error + 'static)) -> Self {
        Self::Failed(chain(failure).to_string())
    }

    /// The word for metrics and audit events.
    const fn word(&self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::LeftOut => "chance",
            Self::Failed(_) => "failed",
        }
    }
}

impl ProfileWarnings {
    fn push(&mut self, text: impl FnOnce() -> String) {
        if self.texts.len() < MOST_WARNINGS {
            self.texts.push(text());
        } else {
            self.others = self.others.saturating_add(1);
        }
    }

    fn write(self, draft: &mut Draft<'_>) {
        for text in self.texts {
            draft.warn(text);
        }
        if self.others > 0 {
            draft.warn(format!(
                "there are warnings about {} further colocation profiles; the log of the webhook has each fault",
                self.others
            ));
        }
    }
}
