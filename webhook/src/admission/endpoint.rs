//! Types that declare admission endpoints as static data, and the context that a step reads.
//!
//! An [`Endpoint`] is one path, a [`Step`] one behaviour inside it. Webhook configurations, RBAC rules, informers, gates,
//! metric labels and documentation follow from the declarations. The type parameter is the store that the steps see: a
//! step cannot name a store that its endpoint did not declare.

mod deadline;
mod declaration;
mod erased;
mod run;
mod stores;

use std::{fmt, time::Duration};

pub use headroom_domain::installation::Family;
use headroom_kit::gate::GateSet;
use headroom_rules::switch::Switches;
use jiff::Timestamp;

pub use self::{
    deadline::Deadline,
    declaration::{
        BrokenStep, Condition, ConfigurationObject, Declaration, Denials, Entry, FailurePolicy, Kind,
        LONGEST_REVIEW, Namespaces, Objects, Pass, Reinvocation, RequestLimits, Rule, SideEffects,
        UnknownSource, When, Work,
    },
    erased::{AnyEndpoint, StepInfo},
    run::{Admitted, StepContext},
    stores::{Colocation, NoStore, PodQuotas, Provides, SloConfiguration, Stores},
};
use crate::{
    admission::{draft::Draft, error::StepError, refusal::Denial, review::Request},
    store::{pending_admissions::PendingAdmissions, sources::Source},
};

/// One path of the admission port and its behaviours.
pub struct Endpoint<S: ?Sized + 'static> {
    /// Properties for the API server and for users.
    pub declaration: Declaration,
    /// Object that its steps wait for.
    pub awaits: Option<Awaited<S>>,
    /// The behaviours, in the order in which they run.
    pub steps: &'static [&'static Step<S>],
}

/// An object that a request names, that is not known yet and that is probably on its way.
pub struct Awaited<S: ?Sized> {
    /// True while there is one.
    pub is_missing: fn(&Request, &Draft<'_>, &S, &Switches) -> bool,
    /// Maximum time that the steps wait for it, from the arrival of the request on. In an idle cluster a watch
    /// delivers an object within milliseconds.
    pub longest: Duration,
}

/// One behaviour of an endpoint.
pub struct Step<S: ?Sized + 'static> {
    /// Metric label, log field and anchor in the documentation.
    pub name: &'static str,
    /// Switches it; an endpoint without a step that is on is not registered.
    pub when: When,
    /// Effect of the step, in one sentence.
    pub about: &'static str,
    /// Sources that the stores follow for it. An empty list needs no informer and no right.
    pub reads: &'static [&'static Source],
    /// Consequence of an unknown source.
    pub unknown: UnknownSource,
    /// Reads the context, writes the draft; no I/O.
    pub run: StepFn<S>,
}

/// The code of a step.
pub type StepFn<S> = fn(&Ctx<'_, S>, &mut Draft<'_>) -> Result<(), Stop>;

/// Inputs of a step besides the draft.
pub struct Ctx<'a, S: ?Sized> {
    /// User, operation and object of the request.
    pub request: &'a Request,
    /// The store that its endpoint declares.
    pub store: &'a S,
    pub gates: &'a GateSet,
    /// Differences from Koordinator's rules that are in force.
    pub switches: &'a Switches,
    /// Records that stay in the stores if the answer is sent in time.
    pub pending: &'a PendingAdmissions,
    /// Time of day, for texts that users read; it decides nothing.
    pub now: Timestamp,
}

/// Why a step ends admission.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    #[error(transparent)]
    Denied(#[from] Denial),
    /// The step could not do its work.
    #[error(transparent)]
    Failed(#[from] StepError),
}

impl<S: ?Sized> fmt::Debug for Endpoint<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("path", &self.declaration.path)
            .finish_non_exhaustive()
    }
}

impl<S: ?Sized> fmt::Debug for Step<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
