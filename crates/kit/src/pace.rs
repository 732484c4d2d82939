//! Rate limit: a steady rate with a burst. The caller passes the time. Admin pages and the webhook use it.

use std::time::Duration;

/// A rate limit. Its state is a single time: the due time of the next event at the steady rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    every: Duration,
    burst: Duration,
    due: Duration,
}

impl Pace {
    /// Allows one event per `every`, and up to `burst` events at once after an idle period.
    pub fn new(every: Duration, burst: u32) -> Self {
        Self {
            every,
            burst: every.saturating_mul(burst.saturating_sub(1)),
            due: Duration::ZERO,
        }
    }

    /// Changes the interval of the steady rate.
    pub fn set_every(&mut self, every: Duration) {
        self.every = every;
    }

    /// Time until an event is allowed, measured from `now`; zero if it is allowed now.
    pub fn wait(&self, now: Duration) -> Duration {
        self.due.saturating_sub(now.saturating_add(self.burst))
    }

    /// Records an event at `now`.
    ///
    /// # Errors
    /// The event is too early; the error is the time to wait.
    pub fn try_acquire(&mut self, now: Duration) -> Result<(), Duration> {
        let wait = self.wait(now);
        if wait > Duration::ZERO {
            return Err(wait);
        }
        self.charge(now);
        Ok(())
    }

    /// Records an event at `now` even if it is too early: later events wait correspondingly longer.
    pub fn charge(&mut self, now: Duration) {
        self.due = self.due.max(now).saturating_add(self.every);
    }

    /// Returns true if the limit has fully recovered: a new limit would allow the same at `now`.
    pub fn is_rested(&self, now: Duration) -> bool {
        self.due <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_burst_passes_and_then_the_steady_rate() {
        let mut pace = Pace::new(ms(50), 3);
        let taken: Vec<_> = (0..5).map(|_| pace.try_acquire(ms(1000)).is_ok()).collect();
        assert_eq!(taken, [true, true, true, false, false]);
        assert_eq!(pace.try_acquire(ms(1049)), Err(ms(1)));
        assert_eq!(pace.try_acquire(ms(1050)), Ok(()));
        assert_eq!(pace.try_acquire(ms(1051)), Err(ms(49)));
    }

    #[test]
    fn idle_time_does_not_raise_the_burst() {
        let mut pace = Pace::new(ms(50), 2);
        assert_eq!(pace.try_acquire(ms(0)), Ok(()));
        let passed = (0..10).filter(|_| pace.try_acquire(ms(100_000)).is_ok()).count();
        assert_eq!(passed, 2);
    }

    #[test]
    fn an_early_charge_delays_the_next_event() {
        let mut pace = Pace::new(ms(50), 1);
        for _ in 0..4 {
            pace.charge(ms(100));
        }
        assert_eq!(pace.try_acquire(ms(150)), Err(ms(150)));
        assert_eq!(pace.try_acquire(ms(300)), Ok(()));
    }

    #[test]
    fn a_limit_is_rested_after_all_charges_recovered() {
        let mut pace = Pace::new(ms(50), 3);
        assert!(pace.is_rested(ms(0)));
        let _taken = [pace.try_acquire(ms(100)), pace.try_acquire(ms(100))];
        assert_eq!([199, 200].map(|now| pace.is_rested(ms(now))), [false, true]);
    }

    #[test]
    fn a_burst_of_one_is_a_plain_interval() {
        let mut pace = Pace::new(ms(1000), 1);
        assert_eq!(pace.try_acquire(ms(10)), Ok(()));
        assert_eq!(pace.try_acquire(ms(500)), Err(ms(510)));
    }
}
