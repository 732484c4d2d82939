//! Step `agent-annotations`: warns of annotations that Koordinator's agent on the node would ignore.

use headroom_rules::agent_annotations::{Annotations, warnings};

use super::{is_checked, part};
use crate::admission::{
    draft::{Draft, Fields},
    endpoint::{Stop, UnknownSource, When},
    endpoints::pod_types::{PodCtx, PodStep},
    error::StepError,
};

pub(super) static STEP: PodStep = PodStep {
    name: "agent-annotations",
    when: When::Always,
    about: "Warns of annotations with values that Koordinator's agent on the node would ignore.",
    reads: &[],
    unknown: UnknownSource::IsHandled,
    run: check,
};

#[expect(clippy::unnecessary_wraps, reason = "the type of a step's function")]
fn check(ctx: &PodCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    if !is_checked(ctx) {
        return Ok(());
    }
    // Annotations that cannot be read are a matter of the other steps: no pod fails because of a warning.
    let Ok(annotations) = annotations(draft) else {
        return Ok(());
    };
    let stored = draft.old().and_then(|old| self::annotations(old).ok());
    for warning in warnings(&annotations, stored.as_ref()) {
        draft.warn(warning);
    }
    Ok(())
}

fn annotations(pod: &impl Fields) -> Result<Annotations, StepError> {
    part(pod, &["metadata", "annotations"])
}
