//! Decides when a node may be nudged again after nudges that failed, changed nothing or raised it.

use std::time::Duration;

use tokio::time::Instant;

use super::{Direction, Nudge};

/// Least time between two rises of one node.
pub(super) const RISE_EVERY: Duration = Duration::from_secs(1);
/// First pause after a failed write; it doubles up to [`LONGEST_PAUSE`].
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Pause before a successful write without effect is repeated; it doubles up to [`LONGEST_REPEAT`].
pub(super) const FIRST_REPEAT: Duration = Duration::from_secs(1);
pub(super) const LONGEST_REPEAT: Duration = Duration::from_secs(60);

/// Outcomes of earlier nudges for one node.
#[derive(Debug, Default)]
pub(super) struct RetryState {
    due_since: Option<(Direction, Instant)>,
    last_rise: Option<Instant>,
    failures: u32,
    failed_at: Option<Instant>,
    /// Last nudge that was written and not applied, its number in a row, and its time.
    unapplied: Option<(Nudge, u32, Instant)>,
}

impl RetryState {
    /// Notes that nothing is due.
    pub(super) fn not_due(&mut self) {
        self.due_since = None;
    }

    /// Time for which a nudge must wait because of earlier outcomes; `None` if it need not wait.
    pub(super) fn wait(&mut self, nudge: &Nudge, now: Instant) -> Option<Duration> {
        if self
            .due_since
            .is_none_or(|(direction, _)| direction != nudge.direction)
        {
            self.due_since = Some((nudge.direction, now));
        }
        let after = |time: Option<Instant>, pause: Duration| {
            time.map(|time| (time + pause).saturating_duration_since(now))
                .unwrap_or_default()
        };
        let failed = after(
            self.failed_at,
            doubled(FIRST_PAUSE, self.failures.saturating_sub(1), LONGEST_PAUSE),
        );
        let risen = match nudge.direction {
            Direction::Rise => after(self.last_rise, RISE_EVERY),
            Direction::Lower | Direction::Note => Duration::ZERO,
        };
        let repeated = match &self.unapplied {
            Some((before, times, last)) if before.asks_the_same_as(nudge) => after(
                Some(*last),
                doubled(FIRST_REPEAT, times.saturating_sub(1), LONGEST_REPEAT),
            ),
            Some(_) | None => Duration::ZERO,
        };
        Some(failed.max(risen).max(repeated)).filter(|wait| *wait > Duration::ZERO)
    }

    /// Time for which the current nudge has been due.
    pub(super) fn due_for(&self, now: Instant) -> Duration {
        self.due_since
            .map(|(_, since)| now.saturating_duration_since(since))
            .unwrap_or_default()
    }

    /// Records a successful write.
    pub(super) fn written(&mut self, nudge: &Nudge, is_applied: bool, now: Instant) {
        (self.failures, self.failed_at, self.due_since) = (0, None, None);
        if nudge.direction == Direction::Rise {
            self.last_rise = Some(now);
        }
        let times = match &self.unapplied {
            Some((before, times, _)) if before.asks_the_same_as(nudge) => times.saturating_add(1),
            Some(_) | None => 1,
        };
        self.unapplied = (!is_applied).then(|| (nudge.clone(), times, now));
    }

    /// Remembers a write that failed.
    pub(super) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.failed_at = Some(now);
    }
}

/// Doubles `first` the given number of times, up to `longest`.
pub(crate) fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times)).min(longest)
}
