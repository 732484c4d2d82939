//! Step `colocation`: refuses Pods whose QoS class and priority do not go together or change, and requests that do not go with
//! the class.

use headroom_domain::{pod::PodSpec, selector::Labels};
use headroom_kit::gate::Gate;
use headroom_rules::colocation::{self, ColocatedPod, SubPriority};

use super::{is_checked, part, refuse};
use crate::admission::{
    draft::{Draft, Fields},
    endpoint::{Stop, UnknownSource, When},
    endpoints::pod_types::{PodCtx, PodStep},
    error::StepError,
};

/// Lets the label `koordinator.sh/priority` change.
pub(super) static SUB_PRIORITY_MAY_CHANGE: Gate = Gate::negative(
    "ColocationProfileSkipValidatingPriority",
    "Lets the label koordinator.sh/priority of pods change.",
);

pub(super) static STEP: PodStep = PodStep {
    name: "colocation",
    when: When::Always,
    about: "Refuses pods whose QoS class, priority band and requests are inconsistent, and changes of class \
     and band.",
    reads: &[],
    unknown: UnknownSource::IsHandled,
    run: check,
};

/// Fields of a Pod that are read.
struct PodParts {
    labels: Labels,
    spec: PodSpec,
}

impl PodParts {
    fn read(pod: &impl Fields) -> Result<Self, StepError> {
        Ok(Self {
            labels: part(pod, &["metadata", "labels"])?,
            spec: part(pod, &["spec"])?,
        })
    }

    fn view(&self) -> ColocatedPod<'_> {
        let Self { labels, spec } = self;
        ColocatedPod { labels, spec }
    }
}

fn check(ctx: &PodCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    if !is_checked(ctx) {
        return Ok(());
    }
    let sub_priority = if ctx.gates.enabled(&SUB_PRIORITY_MAY_CHANGE) {
        SubPriority::MayChange
    } else {
        SubPriority::Stays
    };
    let pod = PodParts::read(draft)?;
    let stored = draft.old().map(PodParts::read).transpose()?;
    let stored = stored.as_ref().map(PodParts::view);
    let errors = colocation::check(pod.view(), stored, sub_priority, ctx.switches);
    refuse(draft, errors)
}
