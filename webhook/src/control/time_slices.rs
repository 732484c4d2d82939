//! Splits long work into slices of a millisecond, so that other tasks of the same thread wait no longer than one slice.
//! The sweep and the debug service use it.

use std::time::Duration;

use tokio::{task::yield_now, time::Instant};

/// The longest slice, but for the piece of work that ends it.
pub const SLICE: Duration = Duration::from_millis(1);

/// Reports the end of a slice.
#[derive(Debug)]
pub struct Slices {
    began: Instant,
}

impl Slices {
    pub fn begin() -> Self {
        Self {
            began: Instant::now(),
        }
    }

    /// Between two pieces of work: lets others have the thread, if the slice is over.
    pub async fn rest(&mut self) {
        if self.began.elapsed() >= SLICE {
            yield_now().await;
            self.began = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn task_yields_only_after_each_time_slice() {
        static TURNS: AtomicU32 = AtomicU32::new(0);
        let other = tokio::spawn(async {
            loop {
                TURNS.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
        });
        yield_now().await;
        let turns = || TURNS.load(Ordering::Relaxed);
        let mut slices = Slices::begin();
        let before = turns();
        for _ in 0..100 {
            slices.rest().await;
        }
        assert_eq!(turns(), before, "no time has passed");
        advance(SLICE).await;
        let before = turns();
        slices.rest().await;
        assert!(turns() > before);
        let before = turns();
        slices.rest().await;
        assert_eq!(turns(), before, "the next slice has begun");
        other.abort();
    }
}
