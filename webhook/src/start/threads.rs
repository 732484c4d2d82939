//! [`Threads`]: a Tokio runtime for admission alone, so that no review waits for other work of the process. Such work
//! is long: sweeps of all nodes, previews of a policy's effect, and debug queries.

use std::{future::Future, io, panic::resume_unwind};

use tokio::runtime::{Builder, Handle, Runtime};

/// The name of the threads, as the kernel shows it.
const NAME: &str = "admission";

/// Runtime for admission only. Dropping it does not wait for running tasks.
#[derive(Debug)]
pub struct Threads {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl Threads {
    /// Starts one thread for each CPU available to this process.
    ///
    /// # Errors
    /// The system gives none.
    pub fn new() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .thread_name(NAME)
            .enable_all()
            .build()?;
        Ok(Self {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })
    }

    pub const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs a future there: resources that it opens belong to that runtime.
    pub async fn run<F>(&self, future: F) -> F::Output
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let done = self.handle.spawn(future).await;
        // The task is never cancelled.
        done.unwrap_or_else(|error| resume_unwind(error.into_panic()))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
