//! Step `profile`: applies the colocation profiles that are for a new Reservation.

use headroom_rules::{profile::ProfileTarget, switch::Switches};
use serde::de::IgnoredAny;

use crate::{
    admission::{
        draft::{Draft, Fields as _},
        endpoint::{Colocation, UnknownSource, When},
        endpoints::{
            pod_types::{PodCtx, PodStep},
            profiles,
        },
        review::Request,
    },
    store::sources::{COLOCATION_PROFILES, PRIORITY_CLASSES},
};

pub(super) static STEP: PodStep = PodStep {
    name: "profile",
    when: When::Always,
    about: "Applies the colocation profiles that select a new Reservation by its labels; cpu and memory stay.",
    reads: &[&COLOCATION_PROFILES, &PRIORITY_CLASSES],
    unknown: UnknownSource::FailsTheCall,
    run: |ctx: &PodCtx<'_>, draft| {
        // The effect of profiles on cpu and memory applies to pods only.
        let _wish = profiles::apply_all(ctx, ProfileTarget::Reservation, draft)?;
        Ok(())
    },
};

/// True while a profile that may be for the Reservation names a PriorityClass that is not known, and has a template to write it
/// into.
pub(super) fn is_unknown(
    request: &Request,
    draft: &Draft<'_>,
    store: &Colocation,
    switches: &Switches,
) -> bool {
    let template = draft.read::<IgnoredAny>(&["spec", "template"]);
    matches!(template, Ok(Some(_)))
        && profiles::is_unknown((request, draft), ProfileTarget::Reservation, store, switches)
}
