//! [`Arrivals`]: the signal that an object came, for requests that wait for what they name.

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
    /// Notifies those who wait that an object came.
    pub fn notify(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Changes with each object that comes from now on.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}
