//! [`QuotaCounting`]: the pods, and the parts of their requests, that count against quotas.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Time after the end of its grace after which a pod under deletion is overdue: its node is lost, or a finalizer keeps the
/// object.
const OVERDUE: Duration = Duration::from_secs(30);

/// Rules about counted pods, set at the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotaCounting {
    /// True if the overhead of a RuntimeClass does not count.
    pub ignores_overhead: bool,
    pub terminating: TerminatingPods,
}

/// End of the count of a pod under deletion, if it has not ended before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TerminatingPods {
    /// [`OVERDUE`] after its grace.
    #[default]
    UntilOverdue,
    /// After its grace has passed twice, as in Koordinator's scheduler, and at the latest when it is overdue.
    UntilGraceTwice,
    /// At its deletion mark.
    Never,
}

impl QuotaCounting {
    /// The time from which a pod does not count any more; `None` if it is not under deletion.
    pub(super) fn end_of(self, metadata: &ObjectMeta, now: Instant) -> Option<Instant> {
        let grace_end = metadata.deletion_timestamp.as_ref()?.0;
        let more = match self.terminating {
            TerminatingPods::Never => return Some(now),
            TerminatingPods::UntilOverdue => OVERDUE,
            TerminatingPods::UntilGraceTwice => {
                let grace = metadata.deletion_grace_period_seconds.unwrap_or_default();
                Duration::from_secs(u64::try_from(grace).unwrap_or_default()).min(OVERDUE)
            }
        };
        let left = grace_end.duration_since(Timestamp::now());
        let left = left.saturating_add(more.try_into().unwrap_or_default());
        let left = Duration::try_from(left).unwrap_or_default();
        now.checked_add(left)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use rstest::rstest;

    use super::*;

    /// Seconds until a pod whose grace of a minute ended `ago` seconds ago does not count any more.
    fn left(terminating: TerminatingPods, ago: i64) -> Option<u64> {
        let counting = QuotaCounting {
            terminating,
            ..QuotaCounting::default()
        };
        let now = Instant::now();
        let end = Timestamp::now() - jiff::SignedDuration::from_secs(ago);
        let metadata = ObjectMeta {
            deletion_timestamp: Some(Time(end)),
            deletion_grace_period_seconds: Some(60),
            ..ObjectMeta::default()
        };
        let end = counting.end_of(&metadata, now)?;
        Some((end.duration_since(now) + Duration::from_millis(500)).as_secs())
    }

    #[rstest]
    #[case::in_its_grace(TerminatingPods::UntilOverdue, -20, 50)]
    #[case::after_it(TerminatingPods::UntilOverdue, 20, 10)]
    #[case::overdue(TerminatingPods::UntilOverdue, 31, 0)]
    #[case::never_later_than_overdue(TerminatingPods::UntilGraceTwice, 20, 10)]
    #[case::marked(TerminatingPods::Never, -20, 0)]
    fn pods_under_deletion_count_until_their_rule_ends_it(
        #[case] rule: TerminatingPods,
        #[case] ago: i64,
        #[case] expected: u64,
    ) {
        assert_eq!(left(rule, ago), Some(expected));
    }

    #[test]
    fn a_short_grace_ends_the_count_earlier_with_koordinators_gate() {
        let counting = QuotaCounting {
            terminating: TerminatingPods::UntilGraceTwice,
            ..QuotaCounting::default()
        };
        let now = Instant::now();
        let metadata = ObjectMeta {
            deletion_timestamp: Some(Time(Timestamp::now())),
            deletion_grace_period_seconds: Some(0),
            ..ObjectMeta::default()
        };
        assert_eq!(counting.end_of(&metadata, now), Some(now));
        assert_eq!(counting.end_of(&ObjectMeta::default(), now), None);
    }

    #[test]
    fn a_deletion_at_the_end_of_time_is_no_overflow() {
        let metadata = ObjectMeta {
            deletion_timestamp: Some(Time(Timestamp::MAX)),
            ..ObjectMeta::default()
        };
        let end = QuotaCounting::default().end_of(&metadata, Instant::now());
        assert!(end.is_none_or(|end| end > Instant::now()));
    }
}
