//! Runs the steps of an endpoint on a draft; the router calls it for each review.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use headroom_kit::gate::GateSet;
use headroom_rules::{explain::Writer, switch::Switches};
use jiff::Timestamp;

use super::{BrokenStep, Ctx, Deadline, Endpoint, Step, Stop, Stores, UnknownSource};
use crate::{
    admission::{
        draft::Draft,
        error::{AdmissionError, StepError},
        metrics,
        refusal::{Denial, Refusal},
        review::Operation,
        shadow::Shadow,
    },
    store::pending_admissions::PendingAdmissions,
};

/// Inputs of the steps of every endpoint.
#[derive(Clone, Copy)]
pub struct StepContext<'a> {
    /// The stores of this replica.
    pub stores: &'a Stores,
    pub gates: &'a GateSet,
    /// Differences from Koordinator's rules that are in force.
    pub switches: &'a Switches,
    /// The steps whose refusals are warnings.
    pub shadow: &'a Shadow,
    pub now: Timestamp,
}

/// Result of the steps of an endpoint, if no rule refused.
#[derive(Debug, Default)]
pub struct Admitted {
    /// Names of the steps that wrote or warned.
    pub acted: Vec<&'static str>,
    /// Steps that could not do their work and were passed over.
    pub skipped: Vec<AdmissionError>,
    /// Records of the steps in the stores.
    pub pending: PendingAdmissions,
}

/// Result of one step.
enum StepVerdict {
    Passed,
    Denied(Denial),
    /// It could not do its work.
    Broken(AdmissionError),
}

impl<S: ?Sized> Endpoint<S> {
    /// Runs the enabled steps in order, until one refuses or the deadline passes.
    ///
    /// # Errors
    /// A denial; a step that broke, unless the endpoint passes over it or an earlier step said no; the deadline.
    pub(super) fn run(
        &self,
        context: &StepContext<'_>,
        ctx: &Ctx<'_, S>,
        draft: &mut Draft<'_>,
        deadline: Deadline,
    ) -> Result<Admitted, AdmissionError> {
        let mut admitted = Admitted::default();
        let mut refusal = Refusal::new(self.declaration.denial_style);
        for step in self.steps.iter().filter(|step| step.when.is_on(ctx.gates)) {
            deadline.check()?;
            let is_shadowed = context.shadow.has(step.name);
            let checkpoint = match self.declaration.broken_step {
                BrokenStep::FailsTheCall if !is_shadowed => None,
                BrokenStep::IsSkipped | BrokenStep::FailsTheCall => Some(draft.checkpoint()),
            };
            let (before, started) = (draft.changes(), Instant::now());
            let result = step.attempt(context, ctx, draft);
            let label = match &result {
                StepVerdict::Passed if draft.changes() == before => "unchanged",
                StepVerdict::Passed => "acted",
                StepVerdict::Denied(_) if is_shadowed => "shadowed",
                StepVerdict::Denied(_) => "denied",
                StepVerdict::Broken(_) => "failed",
            };
            metrics::STEP_SECONDS
                .with([self.declaration.label(), step.name, label])
                .record(started.elapsed());
            match (result, checkpoint) {
                (StepVerdict::Passed, _) if draft.changes() == before => {}
                (StepVerdict::Passed, _) => admitted.acted.push(step.name),
                (StepVerdict::Denied(denial), Some(checkpoint)) if is_shadowed => {
                    draft.roll_back(checkpoint);
                    draft.warn(format!("step {} would refuse this: {denial}", step.name));
                    admitted.acted.push(step.name);
                }
                (StepVerdict::Denied(denial), _) => {
                    refusal.push(denial);
                    if self.declaration.denials.end_with_first(ctx.switches) {
                        break;
                    }
                }
                (StepVerdict::Broken(error), Some(checkpoint))
                    if self.declaration.broken_step == BrokenStep::IsSkipped =>
                {
                    draft.roll_back(checkpoint);
                    admitted.skipped.push(error);
                }
                (StepVerdict::Broken(error), _) if refusal.is_empty() => return Err(error),
                // A refusal stays, whatever the later steps would decide.
                (StepVerdict::Broken(_), _) => break,
            }
        }
        deadline.check()?;
        if refusal.is_empty() {
            Ok(admitted)
        } else {
            Err(AdmissionError::Denied(refusal))
        }
    }
}

impl<S: ?Sized> Step<S> {
    /// Runs the step; a defect in it ends this request only.
    fn attempt(&self, context: &StepContext<'_>, ctx: &Ctx<'_, S>, draft: &mut Draft<'_>) -> StepVerdict {
        let step = self.name;
        draft.explain(|explanation| explanation.begin(Writer::Rule(step)));
        let needs_sources = match self.unknown {
            UnknownSource::IsHandled | UnknownSource::FailsSomeCalls => false,
            UnknownSource::FailsTheCall => true,
            UnknownSource::FailsCreation => ctx.request.operation == Operation::Create,
        };
        if needs_sources {
            let known = &context.stores.known;
            if let Some(source) = self.reads.iter().find(|source| !known.is_known(source)) {
                let resource = source.name;
                return StepVerdict::Broken(AdmissionError::UnknownSource { step, resource });
            }
        }
        // The draft of a step that panicked is rolled back or dropped, so no half-written draft is used.
        let result = catch_unwind(AssertUnwindSafe(|| (self.run)(ctx, draft)));
        // A decision that used a seemingly absent value does not count.
        if let (Ok(_), Some(field)) = (&result, draft.too_wide()) {
            let source = StepError::TooWide { field };
            return StepVerdict::Broken(AdmissionError::Step { step, source });
        }
        match result {
            Ok(Ok(())) => StepVerdict::Passed,
            Ok(Err(Stop::Denied(denial))) => StepVerdict::Denied(denial),
            Ok(Err(Stop::Failed(source))) => StepVerdict::Broken(AdmissionError::Step { step, source }),
            Err(_payload) => StepVerdict::Broken(AdmissionError::Panicked { step }),
        }
    }
}
