//! [`AnyEndpoint`]: an endpoint without the type of its store, so that one list contains all endpoints.

use std::{fmt::Debug, time::Duration};

use headroom_kit::gate::{Gate, GateSet};

use super::{
    Admitted, Ctx, Deadline, Declaration, Endpoint, Provides, StepContext, Stores, UnknownSource, When,
};
use crate::{
    admission::{draft::Draft, error::AdmissionError, review::Request},
    store::{pending_admissions::PendingAdmissions, sources::Source},
};

/// Declaration of a step, without the type of its store.
#[derive(Debug, Clone, Copy)]
pub struct StepInfo {
    /// Metric label, log field and anchor in the documentation.
    pub name: &'static str,
    pub when: When,
    /// Effect of the step, in one sentence.
    pub about: &'static str,
    /// Sources that the stores follow for it.
    pub reads: &'static [&'static Source],
    /// Consequence of an unknown source.
    pub unknown: UnknownSource,
}

/// An endpoint over some store.
pub trait AnyEndpoint: Debug + Sync {
    fn declaration(&self) -> &Declaration;

    /// Declarations of its steps, in order.
    fn steps(&self) -> Vec<StepInfo>;

    /// Maximum time that a request waits for the object it names.
    fn longest_wait(&self) -> Duration;

    /// True while the request names an object that is not known yet and probably on its way.
    fn is_awaiting(&self, context: &StepContext<'_>, request: &Request, draft: &Draft<'_>) -> bool;

    /// Runs the enabled steps in order, until one refuses or the deadline passes.
    ///
    /// # Errors
    /// A denial; a step that broke, unless the endpoint passes over it or an earlier step said no; the deadline.
    fn admit(
        &self,
        context: &StepContext<'_>,
        request: &Request,
        draft: &mut Draft<'_>,
        deadline: Deadline,
    ) -> Result<Admitted, AdmissionError>;
}

impl dyn AnyEndpoint + '_ {
    /// Metric label, log field and anchor in the documentation.
    pub fn label(&self) -> &'static str {
        self.declaration().label()
    }

    /// True if its gate is on, and at least one step.
    pub fn is_enabled(&self, gates: &GateSet) -> bool {
        let gate = self.declaration().gate;
        gate.is_none_or(|gate| gates.enabled(gate)) && self.steps().iter().any(|step| step.when.is_on(gates))
    }

    /// Its own gate, those of its steps, and those that change a rule.
    pub fn gates(&self) -> impl Iterator<Item = &'static Gate> + use<> {
        let declaration = self.declaration();
        let of_steps = self.steps().into_iter().filter_map(|step| step.when.gate());
        let modifiers = declaration.modifiers.iter().copied();
        declaration.gate.into_iter().chain(of_steps).chain(modifiers)
    }

    /// Sources that the stores follow for its steps.
    pub fn sources(&self) -> impl Iterator<Item = &'static Source> + use<> {
        self.steps().into_iter().flat_map(|step| step.reads).copied()
    }
}

impl<S: ?Sized + 'static> AnyEndpoint for Endpoint<S>
where
    Stores: Provides<S>,
{
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn steps(&self) -> Vec<StepInfo> {
        let steps = self.steps.iter();
        steps
            .map(|step| StepInfo {
                name: step.name,
                when: step.when,
                about: step.about,
                reads: step.reads,
                unknown: step.unknown,
            })
            .collect()
    }

    fn longest_wait(&self) -> Duration {
        self.awaits
            .as_ref()
            .map_or(Duration::ZERO, |awaited| awaited.longest)
    }

    fn is_awaiting(&self, context: &StepContext<'_>, request: &Request, draft: &Draft<'_>) -> bool {
        let (store, switches) = (context.stores.provide(), context.switches);
        let awaited = self.awaits.as_ref();
        awaited.is_some_and(|awaited| (awaited.is_missing)(request, draft, store, switches))
    }

    fn admit(
        &self,
        context: &StepContext<'_>,
        request: &Request,
        draft: &mut Draft<'_>,
        deadline: Deadline,
    ) -> Result<Admitted, AdmissionError> {
        let pending = PendingAdmissions::default();
        let ctx = Ctx {
            request,
            store: context.stores.provide(),
            gates: context.gates,
            switches: context.switches,
            pending: &pending,
            now: context.now,
        };
        let admitted = self.run(context, &ctx, draft, deadline)?;
        Ok(Admitted { pending, ..admitted })
    }
}
