//! [`Arrivals`]: the signal for requests that wait for the object they name.

use tokio::sync::watch;

/// Counts objects that come. Clones share the count.
#[derive(Debug, Clone)]
pub struct Arrivals(watch::Sender<u64>);

impl Default for Arrivals {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Arrivals {
    /// Notifies waiting requests of a new object.
    pub fn notify(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Changes with each later object.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}
