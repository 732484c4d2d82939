//! [`Answering`]: the part of a request that keeps its connection busy, from the end of the body to the response.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use super::places::ConnectionPlace;

/// A request in progress: its connection is idle until the body is complete, and busy until the response is ready.
#[derive(Clone, Debug)]
pub(super) struct Answering(Arc<AnsweringState>);

#[derive(Debug)]
struct AnsweringState {
    place: ConnectionPlace,
    /// One of the constants below.
    phase: AtomicU8,
}

/// The client has not sent the whole body.
const BODY: u8 = 0;
/// The response is being made.
const BUSY: u8 = 1;
/// The response is ready.
const ENDED: u8 = 2;

impl Answering {
    pub(super) fn new(place: ConnectionPlace) -> Self {
        Self(Arc::new(AnsweringState {
            place,
            phase: AtomicU8::new(BODY),
        }))
    }

    /// Marks the end of the request's body: the connection is busy.
    pub(super) fn begin_answer(&self) {
        let AnsweringState { place, phase } = &*self.0;
        place.begin_answer();
        if phase
            .compare_exchange(BODY, BUSY, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            place.end_answer();
        }
    }

    /// Marks the response as ready: a body that ends later no longer makes the connection busy.
    pub(super) fn end(&self) {
        let AnsweringState { place, phase } = &*self.0;
        let before = phase.swap(ENDED, Ordering::AcqRel);
        if before != ENDED {
            place.end_request();
        }
        if before == BUSY {
            place.end_answer();
        }
    }
}

impl Drop for AnsweringState {
    fn drop(&mut self) {
        if *self.phase.get_mut() == BUSY {
            self.place.end_answer();
        }
    }
}
