//! [`ClaimList`]: what a request that is let through leaves in the stores until its object is seen, held back until its
//! answer leaves.

use std::{
    fmt::Debug,
    sync::{Mutex, PoisonError},
};

/// A record in a store that ends when it is dropped.
pub trait Claim: Debug + Send {
    /// Leaves it in the store.
    fn keep(self: Box<Self>);
}

/// The claims of one request. Dropped, they end.
#[derive(Debug, Default)]
pub struct ClaimList(Mutex<Vec<Box<dyn Claim>>>);

impl ClaimList {
    /// Adds one.
    pub fn push(&self, claim: Box<dyn Claim>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(claim);
    }

    /// Leaves them in their stores: the answer goes out.
    pub fn keep(self) {
        let claims = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        claims.into_iter().for_each(Claim::keep);
    }
}
