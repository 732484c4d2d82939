//! Step `enhanced`: refuses Pods without the labels that the rules of a ConfigMap ask for.

use headroom_domain::selector::Labels;
use headroom_kit::gate::Gate;
use headroom_rules::enhanced::{BrokenRules, LabelledPod};

use super::{is_checked, part};
use crate::{
    admission::{
        draft::{Draft, Fields},
        endpoint::{Stop, UnknownSource, When},
        endpoints::pod_types::{PodCtx, PodStep},
        error::StepError,
        refusal::Denial,
    },
    store::sources::LABEL_RULES,
};

static GATE: Gate = Gate::alpha(
    "EnablePodEnhancedValidator",
    "Requires the labels of the ConfigMap pod-enhanced-validator-config on pods.",
);

pub(super) static STEP: PodStep = PodStep {
    name: "enhanced",
    when: When::On(&GATE),
    about: "Refuses pods without the labels that the rules of a ConfigMap require.",
    reads: &[&LABEL_RULES],
    unknown: UnknownSource::FailsTheCall,
    run: check,
};

fn check(ctx: &PodCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    if !is_checked(ctx) {
        return Ok(());
    }
    let new = labels(draft)?;
    let stored = draft.old().map(labels).transpose()?;
    let pod = LabelledPod {
        namespace: &ctx.request.namespace,
        labels: &new,
        stored: stored.as_ref(),
    };
    let BrokenRules { texts, fields } = ctx.store.label_rules.label_rules().check(pod, ctx.switches);
    if texts.is_empty() {
        Ok(())
    } else {
        Err(Stop::Denied(Denial::Texts { texts, fields }))
    }
}

fn labels(pod: &impl Fields) -> Result<Labels, StepError> {
    part(pod, &["metadata", "labels"])
}
