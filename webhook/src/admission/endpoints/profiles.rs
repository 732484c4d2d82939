//! Applies colocation profiles to a new Pod or Reservation, in the order of their names, each whole or not at all.
//!
//! Whom a profile is for is asked of the object as it came, so what one profile writes makes no other one match.

use std::sync::Arc;

use headroom_domain::selector::Labels;
use headroom_kit::log::chain;
use headroom_rules::{
    profile::{ApplyError, FAILURES_SKIP, Profile, ProfileMatch, ProfileTarget, TranslationWish, draw},
    switch::Switches,
};

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
    for (name, known) in profiles.iter() {
        let Some(result) = apply(ctx, draft, &newcomer, name, known) else {
            continue;
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

/// Applies one profile; `None` if it is not for the object. One that cannot be read might be for any.
fn apply(
    ctx: &PodCtx<'_>,
    draft: &mut Draft<'_>,
    newcomer: &Newcomer<'_>,
    name: &str,
    known: &KnownProfile,
) -> Option<ProfileResult> {
    let profile = match &known.compiled {
        Ok(profile) => profile,
        Err(reason) => return Some(ProfileResult::Failed(reason.clone())),
    };
    match newcomer.matches(profile, ctx.switches) {
        ProfileMatch::OtherLabels | ProfileMatch::OtherNamespace => return None,
        ProfileMatch::UnknownNamespace => {
            let namespace = &newcomer.request.namespace;
            return Some(ProfileResult::Failed(format!(
                "it selects by namespace, and Namespace {namespace:?} is not known to this replica"
            )));
        }
        ProfileMatch::Matches => {}
    }
    if !profile.is_drawn(draw(&newcomer.request.uid, name), ctx.switches) {
        return Some(ProfileResult::LeftOut);
    }
    if let Some(defect) = profile.defect() {
        return Some(ProfileResult::Failed(chain(defect).to_string()));
    }
    let class = profile.priority_class_name();
    let class = class.and_then(|name| ctx.store.profiles.priority_class(name));
    let written: Result<(), ProfileFailure> = draft.rewrite(&[], |object| {
        Ok(profile.apply(object, newcomer.target, class.as_deref(), ctx.switches)?)
    });
    Some(match written {
        Ok(()) => ProfileResult::Applied,
        Err(failure) => ProfileResult::Failed(chain(&failure).to_string()),
    })
}

impl ProfileResult {
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
