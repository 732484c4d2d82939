//! Suspends the scheduler of a [`Cluster`], as if it had other work.

use anyhow::{Context as _, Result};
use rustix::process::Signal;

use super::Cluster;

impl Cluster {
    /// Suspends the scheduler: no pod is bound until [`Self::continue_scheduler`].
    ///
    /// # Errors
    /// If there is no scheduler, or the kernel refuses the signal.
    pub fn suspend_scheduler(&mut self) -> Result<()> {
        self.signal_scheduler(Signal::STOP)
    }

    /// Ends [`Self::suspend_scheduler`].
    ///
    /// # Errors
    /// Errors of [`Self::suspend_scheduler`].
    pub fn continue_scheduler(&mut self) -> Result<()> {
        self.signal_scheduler(Signal::CONT)
    }

    fn signal_scheduler(&mut self, signal: Signal) -> Result<()> {
        let scheduler = self.scheduler.as_mut().context("no scheduler")?;
        scheduler.signal(signal).context("signal the scheduler")
    }
}
