//! Permits to work on a review, apart for each endpoint. A review waits for its permit once its body is whole.
//!
//! No endpoint waits for another, so a heartbeat never waits for other kinds of requests. Long reviews wait for each
//! other alone, and nothing else waits for them.

use std::{collections::BTreeMap, sync::Arc};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout_at,
};

use super::{Limits, intake::SMALL_BYTES};
use crate::admission::{
    endpoint::{AnyEndpoint, Deadline, Work},
    error::AdmissionError,
};

/// The permits of all endpoints.
pub(super) struct Lanes {
    /// Those of each, by path.
    endpoints: BTreeMap<&'static str, Lane>,
    /// For a review that is long, of whatever endpoint.
    large: Arc<Semaphore>,
    /// Requests of one endpoint that are answered or wait for it.
    limit: usize,
}

/// The permits of one endpoint.
struct Lane {
    /// To be here at all.
    present: Arc<Semaphore>,
    /// To work.
    working: Arc<Semaphore>,
}

/// Leave to answer one review.
pub(super) struct LanePermit {
    /// True if answering takes so long that it must not be done in passing.
    pub(super) is_apart: bool,
    _present: OwnedSemaphorePermit,
    _working: OwnedSemaphorePermit,
}

impl Lanes {
    /// Permits for these endpoints.
    pub(super) fn new(endpoints: &[&'static dyn AnyEndpoint], limits: &Limits) -> Self {
        let lane = |endpoint: &&'static dyn AnyEndpoint| {
            let declaration = endpoint.declaration();
            let working = match declaration.work {
                Work::InPassing => declaration.limits.working,
                Work::Apart => 1,
            };
            let lane = Lane {
                present: Arc::new(Semaphore::new(limits.concurrent)),
                working: Arc::new(Semaphore::new(working)),
            };
            (declaration.path, lane)
        };
        Self {
            endpoints: endpoints.iter().map(lane).collect(),
            large: Arc::new(Semaphore::new(1)),
            limit: limits.concurrent,
        }
    }

    /// Waits for the turn of a review that is `bytes` long.
    ///
    /// # Errors
    /// If too many wait already, or the deadline passes.
    pub(super) async fn turn(
        &self,
        endpoint: &dyn AnyEndpoint,
        bytes: usize,
        deadline: Deadline,
    ) -> Result<LanePermit, AdmissionError> {
        let too_many = || AdmissionError::TooMany { limit: self.limit };
        let lane = self
            .endpoints
            .get(endpoint.declaration().path)
            .ok_or_else(too_many)?;
        let present = Arc::clone(&lane.present);
        let present = present.try_acquire_owned().map_err(|_full| too_many())?;
        let is_large = bytes > SMALL_BYTES;
        let working = if is_large { &self.large } else { &lane.working };
        let working = timeout_at(deadline.at().into(), Arc::clone(working).acquire_owned()).await;
        // The semaphores are never closed.
        let working = working
            .map_err(|_elapsed| deadline.error())?
            .map_err(|_closed| too_many())?;
        Ok(LanePermit {
            is_apart: is_large || endpoint.declaration().work == Work::Apart,
            _present: present,
            _working: working,
        })
    }

    /// All permits to answer reviews of an endpoint in passing.
    #[cfg(test)]
    pub(super) fn acquire_all(&self, path: &str) -> OwnedSemaphorePermit {
        let working = Arc::clone(&self.endpoints[path].working);
        working
            .try_acquire_many_owned(
                u32::try_from(crate::admission::endpoint::RequestLimits::DEFAULT.working).unwrap(),
            )
            .unwrap()
    }
}
