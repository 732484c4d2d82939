//! [`Wait`]: the wait of a review for the object it names, and the number of attempts meanwhile.

use std::time::{Duration, Instant};

use tokio::{
    sync::watch,
    time::{Instant as TokioInstant, sleep_until, timeout_at},
};

/// Shortest time between two attempts; each further one waits twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// Longest time between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// Wait limit of a review whose object names something unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitLimit {
    NotReached,
    /// It has waited long enough.
    Reached,
}

/// Wait of one review. In a busy cluster objects arrive all the time, and most are not the awaited one: pauses bound
/// the number of attempts.
pub(super) struct Wait {
    arrivals: watch::Receiver<u64>,
    give_up: TokioInstant,
    pause: Duration,
}

impl Wait {
    /// A wait until `give_up` at most.
    pub(super) fn new(arrivals: watch::Receiver<u64>, give_up: Instant) -> Self {
        Self {
            arrivals,
            give_up: give_up.into(),
            pause: FIRST_PAUSE,
        }
    }

    /// Returns when an object has arrived since the last attempt, or at the wait limit.
    pub(super) async fn for_arrivals(&mut self) -> WaitLimit {
        let pause_end = TokioInstant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        let arrived = timeout_at(self.give_up, self.arrivals.changed()).await;
        if !matches!(arrived, Ok(Ok(()))) {
            return WaitLimit::Reached;
        }
        sleep_until(pause_end.min(self.give_up)).await;
        // The next attempt sees the objects that arrived during the pause.
        self.arrivals.mark_unchanged();
        if pause_end < self.give_up {
            WaitLimit::NotReached
        } else {
            WaitLimit::Reached
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep};

    use super::*;
    use crate::store::arrivals::Arrivals;

    const LONGEST: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn ten_thousand_arrivals_a_second_make_few_attempts() {
        let arrivals = Arrivals::default();
        let started = TokioInstant::now();
        let mut wait = Wait::new(arrivals.subscribe(), (started + LONGEST).into());
        let storm = tokio::spawn(async move {
            loop {
                arrivals.notify();
                sleep(Duration::from_micros(100)).await;
            }
        });
        let mut attempts = 1;
        while wait.for_arrivals().await == WaitLimit::NotReached {
            attempts += 1;
        }
        storm.abort();
        // 1 to 32 ms, and then 64 ms each.
        assert!((10..=22).contains(&attempts), "{attempts}");
        let waited = started.elapsed();
        assert!((LONGEST..LONGEST + LONGEST_PAUSE).contains(&waited), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_is_noticed_within_a_millisecond_and_again_within_the_pause() {
        let arrivals = Arrivals::default();
        let mut wait = Wait::new(arrivals.subscribe(), Instant::now() + LONGEST);
        let mut waited = Vec::new();
        for _ in 0..3 {
            arrivals.notify();
            let before = TokioInstant::now();
            assert_eq!(wait.for_arrivals().await, WaitLimit::NotReached);
            waited.push(before.elapsed().as_millis());
        }
        assert_eq!(waited, [1, 2, 4]);
        advance(Duration::from_millis(300)).await;
        arrivals.notify();
        let before = TokioInstant::now();
        assert_eq!(wait.for_arrivals().await, WaitLimit::NotReached);
        assert!(before.elapsed() <= Duration::from_millis(8));
    }
}
