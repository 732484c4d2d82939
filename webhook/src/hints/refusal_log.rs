//! Limits the log lines about refused calls to one a second after a burst of 50, so that a flood of calls fills no
//! disk. The hint service and the debug services use it.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use headroom_kit::pace::Pace;
use tokio::time::Instant;

const LINE_EVERY: Duration = Duration::from_secs(1);
/// Lines after a quiet time: a fleet of some size that is misconfigured shows itself.
const LINE_BURST: u32 = 50;

/// Selects the refused calls that are logged.
pub(super) struct RefusalLog {
    started: Instant,
    state: Mutex<RefusalCounts>,
}

struct RefusalCounts {
    pace: Pace,
    left_out: u64,
}

impl RefusalLog {
    /// The number of refused calls without a line before this one; `None` if this one gets no line either.
    pub(super) fn line(&self) -> Option<u64> {
        self.line_at(self.started.elapsed())
    }

    fn line_at(&self, now: Duration) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.pace.try_acquire(now).is_err() {
            state.left_out = state.left_out.saturating_add(1);
            return None;
        }
        Some(std::mem::take(&mut state.left_out))
    }
}

impl Default for RefusalLog {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            state: Mutex::new(RefusalCounts {
                pace: Pace::new(LINE_EVERY, LINE_BURST),
                left_out: 0,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_has_few_lines_and_the_next_one_counts_the_rest() {
        let log = RefusalLog::default();
        let lines = (0..10_000).filter_map(|_| log.line_at(Duration::ZERO)).count();
        assert_eq!(lines, LINE_BURST as usize);
        assert_eq!(log.line_at(LINE_EVERY), Some(10_000 - u64::from(LINE_BURST)));
        assert_eq!(log.line_at(LINE_EVERY * 2), Some(0));
    }
}
