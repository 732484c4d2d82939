//! [`SerialQueue`]: jobs that run one after the other, off the threads that keep others waiting.
//!
//! The first job takes a thread, which stays until the queue is empty: under load no thread is woken for each job.

use std::{
    collections::VecDeque,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::task::spawn_blocking;
use tracing::error;

/// Work of one request.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// Jobs in the order of arrival.
#[derive(Default)]
pub(super) struct SerialQueue {
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    /// True while a thread takes them.
    is_running: bool,
}

impl SerialQueue {
    /// Adds a job. It runs after all earlier jobs.
    pub(super) fn push(self: &Arc<Self>, job: Job) {
        let was_running = {
            let mut state = self.lock();
            state.jobs.push_back(job);
            mem::replace(&mut state.is_running, true)
        };
        if !was_running {
            let queue = Arc::clone(self);
            drop(spawn_blocking(move || queue.run()));
        }
    }

    fn run(&self) {
        while let Some(job) = self.next() {
            // The waiting request notices; the other jobs continue.
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                error!("a job of a queue panicked");
            }
        }
    }

    /// The next job; without one the thread ends.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        let job = state.jobs.pop_front();
        state.is_running = job.is_some();
        job
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
        time::Duration,
    };

    use tokio::sync::oneshot;

    use super::*;

    /// Runs a job and waits until it has run.
    async fn run<T: Send + 'static>(
        queue: &Arc<SerialQueue>,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, oneshot::error::RecvError> {
        let (done_tx, done) = oneshot::channel();
        queue.push(Box::new(move || {
            let _is_read = done_tx.send(job()).is_ok();
        }));
        done.await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn jobs_run_in_their_order_and_one_at_a_time() {
        let queue = Arc::new(SerialQueue::default());
        let (running, order) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        for index in 0..50 {
            let (running, order) = (Arc::clone(&running), Arc::clone(&order));
            queue.push(Box::new(move || {
                assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
                thread::sleep(Duration::from_micros(50));
                order.lock().unwrap().push(index);
                running.fetch_sub(1, Ordering::SeqCst);
            }));
        }
        run(&queue, || ()).await.unwrap();
        assert_eq!(*order.lock().unwrap(), (0..50).collect::<Vec<_>>());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_job_that_panics_keeps_nobody_from_running() {
        let queue = Arc::new(SerialQueue::default());
        run(&queue, || panic!("for the test")).await.unwrap_err();
        assert_eq!(run(&queue, || 1).await, Ok(1));
        // The thread has ended meanwhile, or ends soon: another one is taken.
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(run(&queue, || 2).await, Ok(2));
    }
}
