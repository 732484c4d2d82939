//! `Backoff` draws the wait before the next attempt to connect: full jitter under a limit that doubles.

use std::time::Duration;

use rand::Rng;

/// Waits between attempts, drawn evenly from zero to a limit that doubles with each failure, so that agents that
/// lost a server in the same second do not come back in the same second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    limit: Duration,
}

impl Backoff {
    pub(super) const FIRST: Duration = Duration::from_millis(100);
    pub(super) const LAST: Duration = Duration::from_secs(30);

    /// The wait before the next attempt.
    pub(super) fn next(&mut self, random: &mut impl Rng) -> Duration {
        let limit = self.limit;
        self.limit = limit.saturating_mul(2).min(Self::LAST);
        random.random_range(Duration::ZERO..=limit)
    }

    /// Resets the delay after a successful attempt.
    pub(super) const fn reset(&mut self) {
        self.limit = Self::FIRST;
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self { limit: Self::FIRST }
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng as _, rngs::StdRng};

    use super::*;

    #[test]
    fn limits_double_up_to_the_last_and_begin_anew() {
        let mut random = StdRng::seed_from_u64(1);
        let mut backoff = Backoff::default();
        let mut limits = Vec::new();
        for _ in 0..12 {
            limits.push(backoff.limit.as_millis());
            let limit = backoff.limit;
            assert!(backoff.next(&mut random) <= limit);
        }
        assert_eq!(
            limits,
            [
                100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000, 30_000
            ]
        );
        backoff.reset();
        assert!(backoff.next(&mut random) <= Backoff::FIRST);
    }

    #[test]
    fn waits_fill_the_whole_range() {
        let mut random = StdRng::seed_from_u64(2);
        let waits: Vec<_> = (0..1000)
            .map(|_| Backoff { limit: Backoff::LAST }.next(&mut random))
            .collect();
        assert!(waits.iter().any(|wait| *wait < Backoff::LAST / 10));
        assert!(waits.iter().any(|wait| *wait > Backoff::LAST / 10 * 9));
    }
}
