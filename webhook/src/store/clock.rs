//! Monotonic clock that leaves out pauses of more than five seconds in which this process did not run.
//!
//! Hints age by it. While the process or its machine is frozen, no report can arrive; without this clock all hints
//! would be too old immediately afterwards.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    select,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Maximum interval between two reads of the time.
const EVERY: Duration = Duration::from_secs(1);
/// A longer interval without a read counts as time in which the process was stopped.
const LONGEST: Duration = Duration::from_secs(5);

/// The clock of this process.
#[derive(Debug)]
pub struct Clock {
    origin: Instant,
    state: Mutex<ClockState>,
    longest: Duration,
}

#[derive(Debug, Default)]
struct ClockState {
    asked: Duration,
    lost: Duration,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// Clock that starts now. The owner must read it regularly.
    pub fn new() -> Self {
        Self {
            origin: Instant::now(),
            state: Mutex::default(),
            longest: LONGEST,
        }
    }

    /// Clock that omits no time: for models, which do not read it regularly.
    pub fn uninterrupted() -> Self {
        Self {
            longest: Duration::MAX,
            ..Self::new()
        }
    }

    pub fn now(&self) -> Duration {
        self.at(self.origin.elapsed())
    }

    /// Reads it regularly until `stop` is cancelled.
    pub async fn keep(&self, stop: CancellationToken) {
        loop {
            select! {
                () = stop.cancelled() => return,
                () = sleep(EVERY) => {}
            }
            self.now();
        }
    }

    fn at(&self, elapsed: Duration) -> Duration {
        let ClockState { asked, lost } = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = elapsed.saturating_sub(*asked);
        if pause > self.longest {
            warn!(
                ?pause,
                "the process was stopped for a while; hints do not age by that time"
            );
            *lost = lost.saturating_add(pause);
        }
        *asked = elapsed.max(*asked);
        elapsed.saturating_sub(*lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn time_in_which_nothing_ran_is_left_out() {
        let clock = Clock::new();
        for second in 0..=10 {
            assert_eq!(clock.at(seconds(second)), seconds(second));
        }
        assert_eq!(clock.at(seconds(610)), seconds(10), "suspended for ten minutes");
        assert_eq!(clock.at(seconds(611)), seconds(11));
        assert_eq!(clock.at(seconds(610)), seconds(10), "asked by two at once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_kept_going_loses_nothing() {
        let clock = Clock::new();
        let stop = CancellationToken::new();
        let kept = clock.keep(stop.clone());
        let ended = async {
            sleep(seconds(300)).await;
            let now = clock.now();
            stop.cancel();
            now
        };
        let ((), now) = tokio::join!(kept, ended);
        assert!(now >= seconds(300), "{now:?}");
    }
}
