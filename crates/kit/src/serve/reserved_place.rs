//! [`ReservedPlace`]: a place that a process keeps free for its own connection to its listener.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Place for one connection of this process to its own listener: its address is known before it connects.
#[derive(Clone, Debug, Default)]
pub struct ReservedPlace(Arc<Mutex<Option<SocketAddr>>>);

impl ReservedPlace {
    /// Reserves the place for a connection from this address, in addition to all limits. It replaces an earlier one.
    pub fn set(&self, address: SocketAddr) {
        *self.lock() = Some(address);
    }

    /// True for a connection from the address; it is reserved for one connection.
    pub(super) fn claim(&self, address: SocketAddr) -> bool {
        self.lock().take_if(|reserved| *reserved == address).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Option<SocketAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
