//! Step `profile`: applies the colocation profiles that are for a new Pod, in the order of their names, and translates its cpu
//! and memory afterwards.
//!
//! Whom a profile is for is asked of the Pod as it came, so what one profile writes makes no other one match. Each is applied
//! whole or not at all.

mod translate;

use std::sync::Arc;

use headroom_domain::selector::Labels;
use headroom_kit::log::chain;
use headroom_rules::profile::{ApplyError, FAILURES_SKIP, Profile, ProfileMatch, TranslationWish, draw};

pub(super) use self::translate::SKIPPED;
use crate::{
    admission::{
        draft::{Draft, Fields as _, RewriteError},
        endpoint::{Colocation, Stop, UnknownSource, When},
        endpoints::pod_types::{PodCtx, PodStep},
        error::StepError,
        metrics,
        review::{Operation, Request},
    },
    store::{
        colocation::profiles::KnownProfile,
        sources::{COLOCATION_PROFILES, NAMESPACES, PRIORITY_CLASSES},
    },
};

pub(super) static STEP: PodStep = PodStep {
    name: "profile",
    when: When::Always,
    about: "Applies the colocation profiles that select a new pod, and turns its cpu and memory into the resources of its band.",
    reads: &[&COLOCATION_PROFILES, &NAMESPACES, &PRIORITY_CLASSES],
    unknown: UnknownSource::FailsTheCall,
    run: apply_all,
};

/// Longest list of profiles in the audit event, in bytes.
const LONGEST_AUDIT: usize = 1024;

/// What came of a profile that is for the Pod, or may be.
enum ProfileResult {
    Applied,
    /// Its probability left this Pod out.
    LeftOut,
    /// It cannot be applied, or nobody knows whether it is for the Pod.
    Failed(String),
}

/// Why a profile is not applied to this Pod.
#[derive(Debug, thiserror::Error)]
enum ProfileFailure {
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error(transparent)]
    Rewrite(#[from] RewriteError),
}

/// The Pod as it came.
struct Newcomer<'a> {
    request: &'a Request,
    labels: Labels,
    /// The labels of its namespace; `None` while it is not known.
    namespace: Option<Arc<Labels>>,
}

impl<'a> Newcomer<'a> {
    fn read(request: &'a Request, draft: &Draft<'_>, store: &Colocation) -> Result<Self, StepError> {
        let labels = draft
            .read(&["metadata", "labels"])
            .map_err(|source| StepError::Read {
                field: "metadata.labels".to_owned(),
                source,
            })?;
        Ok(Self {
            request,
            labels: labels.unwrap_or_default(),
            namespace: store.profiles.namespace(&request.namespace),
        })
    }

    fn matches(&self, profile: &Profile) -> ProfileMatch {
        profile.matches(&self.labels, self.namespace.as_deref())
    }
}

/// True while a profile that may be for the Pod names a namespace or a PriorityClass that is not known.
pub(super) fn is_unknown(request: &Request, draft: &Draft<'_>, store: &Colocation) -> bool {
    if request.operation != Operation::Create {
        return false;
    }
    // What cannot be read, the step tells.
    let Ok(newcomer) = Newcomer::read(request, draft, store) else {
        return false;
    };
    let profiles = store.profiles.profiles();
    let mut compiled = profiles.values().filter_map(|known| known.compiled.as_ref().ok());
    compiled.any(|profile| match newcomer.matches(profile) {
        ProfileMatch::OtherLabels | ProfileMatch::OtherNamespace => false,
        ProfileMatch::UnknownNamespace => true,
        ProfileMatch::Matches => {
            let class = profile.priority_class_name();
            class.is_some_and(|name| store.profiles.priority_class(name).is_none())
        }
    })
}

fn apply_all(ctx: &PodCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    if ctx.request.operation != Operation::Create {
        return Ok(());
    }
    let profiles = ctx.store.profiles.profiles();
    if profiles.is_empty() {
        return Ok(());
    }
    let newcomer = Newcomer::read(ctx.request, draft, ctx.store)?;
    let (mut wish, mut results) = (TranslationWish::default(), Vec::new());
    for (name, known) in profiles.iter() {
        let Some(result) = apply(ctx, draft, &newcomer, name, known) else {
            continue;
        };
        metrics::PROFILES.with([result.word()]).increment(1);
        match &result {
            ProfileResult::Applied => wish.count(true, known.skip.as_deref(), ctx.switches),
            ProfileResult::LeftOut => wish.count(false, known.skip.as_deref(), ctx.switches),
            ProfileResult::Failed(reason) => {
                let is_readable = known.compiled.is_ok();
                if is_readable && !ctx.switches.is_on(&FAILURES_SKIP) {
                    let (profile, reason) = (name.to_string(), reason.clone());
                    return Err(StepError::Profile { profile, reason }.into());
                }
                draft.warn(format!("colocation profile {name} was not applied: {reason}"));
            }
        }
        results.push(format!("{name}={}", result.word()));
    }
    if !results.is_empty() {
        let mut text = results.join(" ");
        text.truncate(text.floor_char_boundary(LONGEST_AUDIT));
        draft.audit("profiles", text);
    }
    if wish.is_granted() && !ctx.gates.enabled(&SKIPPED) {
        translate::translate(draft)?;
    }
    Ok(())
}

/// Applies one profile; `None` if it is not for the Pod. One that cannot be read might be for any.
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
    match newcomer.matches(profile) {
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
    let written: Result<(), ProfileFailure> = draft.rewrite(&[], |pod| {
        Ok(profile.apply(pod, class.as_deref(), ctx.switches)?)
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
