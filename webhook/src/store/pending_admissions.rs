//! [`PendingAdmissions`]: records of an admitted request in the stores until its object is observed, held back until
//! its answer is sent.

use std::{
    fmt::Debug,
    sync::{Mutex, PoisonError},
};

/// A record in a store that ends when it is dropped.
pub trait PendingAdmission: Debug + Send {
    /// Leaves it in the store.
    fn keep(self: Box<Self>);
}

/// The claims of one request. Dropped, they end.
#[derive(Debug, Default)]
pub struct PendingAdmissions(Mutex<Vec<Box<dyn PendingAdmission>>>);

impl PendingAdmissions {
    pub fn push(&self, pending: Box<dyn PendingAdmission>) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(pending);
    }

    /// Keeps them in their stores: the answer is sent.
    pub fn keep(self) {
        let pending = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        pending.into_iter().for_each(PendingAdmission::keep);
    }
}
