//! Permits to work on a review, apart for each endpoint. A review waits for its permit once its body is whole.
//!
//! No endpoint waits for another, so a heartbeat never waits for other kinds of requests. Long reviews wait for each
//! other alone, those of Nodes for none but long ones of Nodes, and nothing else waits for them. Endpoints whose reviews
//! are all offloaded have one queue each, for reviews of any length: their verdicts depend on the order.

use std::{collections::BTreeMap, sync::Arc};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout_at,
};

use super::{Limits, intake::SMALL_BYTES, serial_queue::SerialQueue};
use crate::admission::{
    endpoint::{AnyEndpoint, Deadline, Family, Work},
    error::AdmissionError,
};

/// The permits of all endpoints.
pub(super) struct Lanes {
    /// Lane of each endpoint, by path.
    endpoints: BTreeMap<&'static str, Lane>,
    /// For reviews of node endpoints that are long.
    large_of_nodes: Arc<SerialQueue>,
    /// For those of all other endpoints.
    large_of_others: Arc<SerialQueue>,
    /// Requests of one endpoint that are answered or wait for it.
    limit: usize,
}

/// The permits of one endpoint.
struct Lane {
    /// To be here at all.
    present: Arc<Semaphore>,
    working: LaneWork,
}

enum LaneWork {
    /// On the thread that received the review, with a permit.
    Inline(Arc<Semaphore>),
    /// One review after the other.
    Offloaded(Arc<SerialQueue>),
}

/// Leave to answer one review.
pub(super) struct LanePermit {
    /// Queue for answers that take too long to run on the request's own thread.
    pub(super) offload_queue: Option<Arc<SerialQueue>>,
    _present: OwnedSemaphorePermit,
    _working: Option<OwnedSemaphorePermit>,
}

impl Lanes {
    pub(super) fn new(endpoints: &[&'static dyn AnyEndpoint], limits: &Limits) -> Self {
        let lane = |endpoint: &&'static dyn AnyEndpoint| {
            let declaration = endpoint.declaration();
            let working = match declaration.work {
                Work::Inline => LaneWork::Inline(Arc::new(Semaphore::new(declaration.limits.working))),
                Work::Offloaded => LaneWork::Offloaded(Arc::default()),
            };
            let lane = Lane {
                present: Arc::new(Semaphore::new(limits.concurrent)),
                working,
            };
            (declaration.path, lane)
        };
        Self {
            endpoints: endpoints.iter().map(lane).collect(),
            large_of_nodes: Arc::default(),
            large_of_others: Arc::default(),
            limit: limits.concurrent,
        }
    }

    /// Waits for the permit of a review that is `bytes` long. A review for the offload thread waits in its queue.
    ///
    /// # Errors
    /// If too many wait already, or the deadline passes.
    pub(super) async fn acquire(
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
        let offloaded = |queue: &Arc<SerialQueue>, present| LanePermit {
            offload_queue: Some(Arc::clone(queue)),
            _present: present,
            _working: None,
        };
        let large = match endpoint.declaration().family() {
            Family::Nodes => &self.large_of_nodes,
            Family::Koordinator | Family::Fluid => &self.large_of_others,
        };
        let permits = match &lane.working {
            LaneWork::Offloaded(queue) => return Ok(offloaded(queue, present)),
            LaneWork::Inline(_) if bytes > SMALL_BYTES => return Ok(offloaded(large, present)),
            LaneWork::Inline(permits) => permits,
        };
        let working = timeout_at(deadline.at().into(), Arc::clone(permits).acquire_owned()).await;
        // The semaphores are never closed.
        let working = working
            .map_err(|_elapsed| deadline.error())?
            .map_err(|_closed| too_many())?;
        Ok(LanePermit {
            offload_queue: None,
            _present: present,
            _working: Some(working),
        })
    }

    /// All permits to answer reviews of an endpoint in passing.
    #[cfg(test)]
    pub(super) fn acquire_all(&self, path: &str) -> OwnedSemaphorePermit {
        let LaneWork::Inline(working) = &self.endpoints[path].working else {
            panic!("{path} does not run inline")
        };
        Arc::clone(working)
            .try_acquire_many_owned(
                u32::try_from(crate::admission::endpoint::RequestLimits::DEFAULT.working).unwrap(),
            )
            .unwrap()
    }
}
