//! Runs the named tasks of a process until a signal arrives or one of them ends, then stops the rest in order.

use std::{
    collections::HashMap,
    error::Error,
    future::{Future, pending},
    io,
    time::Duration,
};

use tokio::{
    runtime::Handle,
    select,
    signal::unix::{Signal, SignalKind, signal},
    task::{Id, JoinError, JoinSet},
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::log::chain;

/// Error of a task, of any type.
pub type TaskError = Box<dyn Error + Send + Sync>;

/// The two phases of shutdown, for every task that serves.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    draining: CancellationToken,
    stopping: CancellationToken,
}

/// Time limits of the shutdown phases.
#[derive(Clone, Copy, Debug)]
pub struct Grace {
    /// Time to keep serving, not ready, while clients move to other replicas.
    pub linger: Duration,
    /// Time for tasks to end after the stop signal; must be longer than the drain of any listener.
    pub deadline: Duration,
}

/// Runs the tasks of a process and ends them in order.
#[derive(Debug)]
pub struct Supervisor {
    shutdown: Shutdown,
    signals: Signals,
    tasks: Tasks,
}

/// Signals that end the process: SIGTERM and SIGINT.
#[derive(Debug)]
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// Running tasks with their names.
#[derive(Debug, Default)]
struct Tasks {
    running: JoinSet<Result<(), TaskError>>,
    names: HashMap<Id, &'static str>,
}

/// Result of a task: `()` or a `Result`.
pub trait TaskOutcome {
    /// Converts the outcome into a result.
    ///
    /// # Errors
    /// The task's own error.
    fn into_result(self) -> Result<(), TaskError>;
}

/// Reasons why a process ends other than a signal.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// Signal handlers cannot be installed.
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),
    /// A task ended without being asked to.
    #[error("task {task} ended by itself")]
    Ended {
        /// Name of the task that ended.
        task: &'static str,
    },
    /// A task returned an error.
    #[error("task {task} failed")]
    Failed {
        /// Name of the task that failed.
        task: &'static str,
        /// Error that the task returned.
        #[source]
        source: TaskError,
    },
    /// A task panicked; the other tasks were stopped.
    #[error("task {task} panicked: {message}")]
    Panicked {
        /// Name of the task that panicked.
        task: &'static str,
        /// Panic message, or a placeholder if the payload is not text.
        message: String,
    },
    /// Tasks did not stop in time, or a second signal shortened the wait. They were aborted.
    #[error("still running when the process had to end: {tasks}")]
    Late {
        /// Names of the tasks, joined by commas.
        tasks: String,
    },
}

impl Shutdown {
    /// Creates the state of a running process: neither draining nor stopping.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancelled when clients should move elsewhere: no longer ready, still serving.
    pub fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    /// Cancelled when new requests are refused and requests in flight are finished.
    pub fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Starts the first phase: not ready, still serving.
    pub fn drain(&self) {
        self.draining.cancel();
    }

    /// Starts the last phase: new requests are refused.
    pub fn stop(&self) {
        self.draining.cancel();
        self.stopping.cancel();
    }
}

impl TaskOutcome for () {
    fn into_result(self) -> Result<(), TaskError> {
        Ok(())
    }
}

impl<E: Into<TaskError>> TaskOutcome for Result<(), E> {
    fn into_result(self) -> Result<(), TaskError> {
        self.map_err(Into::into)
    }
}

impl Supervisor {
    /// Listens for SIGTERM and SIGINT from here on. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// The signal handlers cannot be installed.
    pub fn new() -> Result<Self, SuperviseError> {
        let listen = |kind| signal(kind).map_err(SuperviseError::Signals);
        let signals = Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        };
        Ok(Self {
            shutdown: Shutdown::new(),
            signals,
            tasks: Tasks::default(),
        })
    }

    /// Shutdown phases, for the tasks.
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }

    /// Starts a task that runs until [`Shutdown::stopping`] is cancelled.
    pub fn spawn<F>(&mut self, name: &'static str, task: F)
    where
        F: Future<Output: TaskOutcome> + Send + 'static,
    {
        self.spawn_on(&Handle::current(), name, task);
    }

    /// Starts a task on another runtime, which must live until the process has ended.
    pub fn spawn_on<F>(&mut self, runtime: &Handle, name: &'static str, task: F)
    where
        F: Future<Output: TaskOutcome> + Send + 'static,
    {
        let task = async move { task.await.into_result() };
        let task = self.tasks.running.spawn_on(task, runtime);
        self.tasks.names.insert(task.id(), name);
    }

    /// Waits for a signal or for the first task to end, then ends the process in order.
    ///
    /// On a signal: drain, linger, stop, join. After the early end of a task the linger is skipped. A second signal
    /// ends the current phase immediately.
    ///
    /// # Errors
    /// The first task that ended early, failed or panicked; otherwise the tasks that did not stop in time.
    pub async fn run(self, grace: Grace) -> Result<(), SuperviseError> {
        let Self {
            shutdown,
            mut signals,
            mut tasks,
        } = self;
        let Grace { linger, deadline } = grace;
        let mut first = select! {
            () = signals.next() => Ok(()),
            ended = tasks.ended_early() => Err(ended),
        };
        if first.is_ok() {
            shutdown.drain();
            info!(?linger, "draining");
            first = select! {
                () = sleep(linger) => Ok(()),
                () = signals.next() => Ok(()),
                ended = tasks.ended_early() => Err(ended),
            };
        }
        if let Err(cause) = &first {
            error!(error = %chain(cause), "a task ended the process");
        }
        shutdown.stop();
        info!(?deadline, tasks = tasks.running.len(), "stopping");
        let joined = select! {
            // Checked first, so that a task that has just ended does not count as late.
            biased;
            joined = tasks.join() => joined,
            () = sleep(deadline) => Err(tasks.late()),
            () = signals.next() => Err(tasks.late()),
        };
        tasks.running.shutdown().await;
        first.and(joined)
    }
}

impl Signals {
    /// Completes when a signal asks the process to end.
    async fn next(&mut self) {
        let name = select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        };
        info!(signal = name, "received a signal; shutting down");
    }
}

impl Tasks {
    /// Waits for all tasks and returns the first failure.
    async fn join(&mut self) -> Result<(), SuperviseError> {
        let mut first = Ok(());
        while !self.running.is_empty() {
            let (task, result) = self.ended().await;
            if let Err(error) = &result {
                // Logged here as well: the wait may be shortened before it returns.
                error!(task, error = %chain(error), "a task failed during shutdown");
            }
            first = first.and(result);
        }
        first
    }

    /// Completes when a task ends. An end at this time is early, so the reason is always an error.
    async fn ended_early(&mut self) -> SuperviseError {
        let (task, result) = self.ended().await;
        result.err().unwrap_or(SuperviseError::Ended { task })
    }

    /// Returns the next task that ends, with its result; waits forever if there are no tasks. Cancel safe.
    async fn ended(&mut self) -> (&'static str, Result<(), SuperviseError>) {
        let Some(joined) = self.running.join_next_with_id().await else {
            return pending().await;
        };
        let id = joined.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let task = self.names.remove(&id).unwrap_or("unnamed");
        let result = match joined {
            Ok((_, result)) => result.map_err(|source| SuperviseError::Failed { task, source }),
            Err(error) => Err(SuperviseError::Panicked {
                task,
                message: panic_message(error),
            }),
        };
        (task, result)
    }

    /// The tasks that still run, as an error.
    fn late(&self) -> SuperviseError {
        let mut names: Vec<_> = self.names.values().copied().collect();
        names.sort_unstable();
        SuperviseError::Late {
            tasks: names.join(", "),
        }
    }
}

/// Panic message of a task.
fn panic_message(error: JoinError) -> String {
    let Ok(payload) = error.try_into_panic() else {
        return "cancelled".to_owned();
    };
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => (*payload.downcast_ref::<&str>().unwrap_or(&"no message")).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const GRACE: Grace = Grace {
        linger: Duration::from_secs(3600),
        deadline: Duration::from_millis(50),
    };

    #[tokio::test]
    async fn a_task_that_ends_stops_the_others_and_is_named() {
        let mut supervisor = Supervisor::new().unwrap();
        let shutdown = supervisor.shutdown();
        supervisor.spawn("patient", async move { shutdown.stopping().cancelled().await });
        supervisor.spawn("hasty", async { Ok::<(), Infallible>(()) });
        assert_eq!(
            supervisor.run(GRACE).await.unwrap_err().to_string(),
            "task hasty ended by itself"
        );
    }

    #[tokio::test]
    async fn the_error_of_a_task_is_kept_as_the_cause() {
        let mut supervisor = Supervisor::new().unwrap();
        supervisor.spawn("reader", async { Err(io::Error::other("disk on fire")) });
        let error = supervisor.run(GRACE).await.unwrap_err();
        assert_eq!(chain(&error).to_string(), "task reader failed: disk on fire");
    }

    #[tokio::test]
    async fn a_panic_is_an_end_like_any_other() {
        let mut supervisor = Supervisor::new().unwrap();
        supervisor.spawn("nervous", async { assert_eq!(1 + 1, 3, "sums are hard") });
        let text = supervisor.run(GRACE).await.unwrap_err().to_string();
        assert!(
            text.starts_with("task nervous panicked: ") && text.contains("sums are hard"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn the_first_cause_is_returned_even_when_others_are_late() {
        let mut supervisor = Supervisor::new().unwrap();
        supervisor.spawn("deaf", pending::<()>());
        supervisor.spawn("hasty", async {});
        assert_eq!(
            supervisor.run(GRACE).await.unwrap_err().to_string(),
            "task hasty ended by itself"
        );
    }
}
