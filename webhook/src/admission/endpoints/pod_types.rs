//! Types of the endpoints whose steps read the stores of pods: those of pods, and of Reservations, which represent
//! pods.

use crate::admission::endpoint::{Colocation, Ctx, Endpoint, Step};

/// An endpoint of pods or Reservations.
pub(super) type PodEndpoint = Endpoint<Colocation>;
pub(super) type PodStep = Step<Colocation>;
/// Inputs of a step of pods.
pub(super) type PodCtx<'a> = Ctx<'a, Colocation>;
