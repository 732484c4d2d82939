//! A queue in which nodes wait for their nudges: first come, first served, at a steady rate. A waiting node costs
//! nothing until it is first.

use std::time::Duration;

use headroom_kit::pace::Pace;
use tokio::{
    sync::{Mutex, MutexGuard},
    time::{Instant, sleep},
};

#[derive(Debug)]
pub(super) struct Queue {
    /// Its holder is first; waiting nodes get it in their order of arrival.
    pace: Mutex<Pace>,
    started: Instant,
}

/// The first place while a slot is free. The slot stays free if it is not taken.
#[derive(Debug)]
pub(super) struct NudgePermit<'a> {
    pace: MutexGuard<'a, Pace>,
    now: Duration,
}

impl Queue {
    /// A line that moves at this pace.
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            pace: Mutex::new(pace),
            started: Instant::now(),
        }
    }

    /// Waits to be first, and then for a slot; `every` returns the time between two slots. A dropped future loses its
    /// place.
    pub(super) async fn acquire(&self, every: impl Fn() -> Duration) -> NudgePermit<'_> {
        let mut pace = self.pace.lock().await;
        loop {
            pace.set_every(every());
            let now = self.started.elapsed();
            let wait = pace.wait(now);
            if wait.is_zero() {
                return NudgePermit { pace, now };
            }
            sleep(wait).await;
        }
    }
}

impl NudgePermit<'_> {
    pub(super) fn consume(mut self) {
        // The slot was free when the permit was granted, and no other node can have used it.
        let _is_free = self.pace.try_acquire(self.now).is_ok();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::mpsc;

    use super::*;

    const EVERY: Duration = Duration::from_millis(100);

    #[tokio::test(start_paused = true)]
    async fn slots_go_to_who_came_first_at_the_steady_rate_and_are_kept_for_the_next_if_not_taken() {
        let queue = Arc::new(Queue::new(Pace::new(EVERY, 1)));
        let began = Instant::now();
        let (served_tx, mut served) = mpsc::unbounded_channel();
        for number in 0..6_u32 {
            let (queue, served_tx) = (Arc::clone(&queue), served_tx.clone());
            tokio::spawn(async move {
                let permit = queue.acquire(|| EVERY).await;
                if number % 2 == 0 {
                    permit.consume();
                }
                served_tx
                    .send((number, began.elapsed()))
                    .expect("a receiver exists");
            });
            tokio::task::yield_now().await;
        }
        drop(served_tx);
        let mut order = Vec::new();
        while let Some((number, at)) = served.recv().await {
            order.push((number, at.as_millis() / EVERY.as_millis()));
        }
        assert_eq!(order, [(0, 0), (1, 1), (2, 1), (3, 2), (4, 2), (5, 3)]);
    }
}
