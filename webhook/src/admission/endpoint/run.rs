//! Runs the steps of an endpoint on a draft; the router calls it for each review.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use super::{BrokenStep, Ctx, Deadline, Endpoint, Step, Stop};
use crate::admission::{
    draft::Draft,
    error::{AdmissionError, StepError},
    metrics,
};

/// What the steps of an endpoint came to, if no rule said no.
#[derive(Debug, Default)]
pub struct Admitted {
    /// Names of the steps that wrote or warned.
    pub acted: Vec<&'static str>,
    /// Steps that could not do their work and were passed over.
    pub skipped: Vec<AdmissionError>,
}

impl Endpoint {
    /// Runs the steps that are on, in order, until one says no or the deadline passes.
    ///
    /// # Errors
    /// A denial; a step that broke, unless the endpoint passes over it; the deadline.
    pub fn admit(
        &self,
        ctx: &Ctx<'_>,
        draft: &mut Draft<'_>,
        deadline: Deadline,
    ) -> Result<Admitted, AdmissionError> {
        let mut admitted = Admitted::default();
        for step in self.steps.iter().filter(|step| ctx.gates.enabled(&step.gate)) {
            deadline.check()?;
            let checkpoint = match self.broken_step {
                BrokenStep::IsSkipped => Some(draft.checkpoint()),
                BrokenStep::FailsTheCall => None,
            };
            let (before, started) = (draft.changes(), Instant::now());
            let result = step.attempt(ctx, draft);
            let label = match &result {
                Ok(()) if draft.changes() == before => "unchanged",
                Ok(()) => "acted",
                Err(AdmissionError::Denied(_)) => "denied",
                Err(_) => "failed",
            };
            metrics::STEP_SECONDS
                .with([self.label(), step.name, label])
                .record(started.elapsed());
            match (result, checkpoint) {
                (Ok(()), _) if draft.changes() == before => {}
                (Ok(()), _) => admitted.acted.push(step.name),
                (
                    Err(error @ (AdmissionError::Step { .. } | AdmissionError::Panicked { .. })),
                    Some(checkpoint),
                ) => {
                    draft.roll_back(checkpoint);
                    admitted.skipped.push(error);
                }
                (Err(error), _) => return Err(error),
            }
        }
        deadline.check()?;
        Ok(admitted)
    }
}

impl Step {
    /// Runs the step; a defect in it ends this request only.
    fn attempt(&self, ctx: &Ctx<'_>, draft: &mut Draft<'_>) -> Result<(), AdmissionError> {
        let step = self.name;
        // The draft of a step that panicked is rolled back or dropped, so nobody sees it half written.
        let result = catch_unwind(AssertUnwindSafe(|| (self.run)(ctx, draft)))
            .map_err(|_payload| AdmissionError::Panicked { step })?;
        // Neither a yes nor a no counts that was made of what seemed to be absent.
        let result = match draft.too_wide() {
            Some(field) => Err(Stop::Failed(StepError::TooWide { field })),
            None => result,
        };
        result.map_err(|stop| match stop {
            Stop::Denied(denial) => AdmissionError::Denied(denial),
            Stop::Failed(source) => AdmissionError::Step { step, source },
        })
    }
}
