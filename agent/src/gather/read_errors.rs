//! `ReadErrors` keeps the signals that fail at the moment. It logs a failure when it begins, not at each failed read,
//! and counts all of them.

use std::collections::BTreeSet;

use headroom_kit::log::chain;
use tracing::warn;

use super::GatheredSignal;
use crate::{metrics::SAMPLE_ERRORS, sample::SampleError};

/// Signals whose last reading failed.
#[derive(Debug, Default)]
pub(super) struct ReadErrors(BTreeSet<GatheredSignal>);

impl ReadErrors {
    /// Counts a failure, and logs it when it is the first in a row.
    pub(super) fn note<T>(&mut self, result: Result<T, SampleError>, reading: GatheredSignal) -> Option<T> {
        match result {
            Ok(value) => {
                self.0.remove(&reading);
                Some(value)
            }
            Err(error) => {
                SAMPLE_ERRORS.with([reading.name()]).increment(1);
                if self.0.insert(reading) {
                    warn!(signal = reading.name(), error = %chain(&error), "could not read a signal; sampling continues");
                }
                None
            }
        }
    }

    /// Signals that fail now.
    pub(super) const fn failing(&self) -> &BTreeSet<GatheredSignal> {
        &self.0
    }
}
