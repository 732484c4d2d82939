//! Types of the endpoints whose steps read what is known about pods.

use crate::admission::endpoint::{Colocation, Ctx, Endpoint, Step};

/// An endpoint of pods.
pub(super) type PodEndpoint = Endpoint<Colocation>;
/// A step of one.
pub(super) type PodStep = Step<Colocation>;
/// What it may look at.
pub(super) type PodCtx<'a> = Ctx<'a, Colocation>;
