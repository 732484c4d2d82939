//! [`ErrorLog`]: the log lines about one resource that cannot be followed, or about its unreadable objects, at most one
//! a minute.

use std::{error::Error, time::Duration};

use headroom_kit::log::chain;
use tokio::time::Instant;
use tracing::warn;

/// Minimum time between two log lines.
const PAUSE: Duration = Duration::from_secs(60);

/// Time of the last log line, and the number of errors without one since.
#[derive(Debug, Default)]
pub(super) struct ErrorLog {
    last: Option<Instant>,
    unlogged: u64,
}

impl ErrorLog {
    /// Writes a line, unless the last one is too recent; the line contains the number of omitted ones.
    pub(super) fn record(&mut self, resource: &'static str, error: &(dyn Error + 'static), pause: Duration) {
        if let Some(unlogged) = self.permit() {
            warn!(resource, error = %chain(error), ?pause, unlogged, "could not list or watch; retrying");
        }
    }

    /// Writes a line about an object that cannot be read, under the same limit.
    pub(super) fn record_unreadable(
        &mut self,
        resource: &'static str,
        object: &str,
        error: &(dyn Error + 'static),
    ) {
        if let Some(unlogged) = self.permit() {
            warn!(
                resource,
                object,
                error = %chain(error),
                unlogged,
                "this object cannot be read: its last readable state counts, or its node or quota is unknown"
            );
        }
    }

    /// Number of omitted lines if a line may be written now.
    fn permit(&mut self) -> Option<u64> {
        if self.last.is_some_and(|last| last.elapsed() < PAUSE) {
            self.unlogged = self.unlogged.saturating_add(1);
            return None;
        }
        self.last = Some(Instant::now());
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_hour_of_errors_has_a_line_a_minute() {
        let (mut log, mut lines) = (ErrorLog::default(), 0);
        for _ in 0..3600 {
            log.record("configmaps", &fmt::Error, Duration::ZERO);
            lines += u32::from(log.last == Some(Instant::now()));
            advance(Duration::from_secs(1)).await;
        }
        assert_eq!(lines, 60);
    }
}
