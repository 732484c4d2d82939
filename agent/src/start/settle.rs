//! The task `settle` returns memory to the system that only the start needed.

use std::time::Duration;

use tokio::{select, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::kernel::{file_pages, heap};

/// After this time the agent has measured, and has reported if a hint server is reachable.
const AT_WORK_AFTER: Duration = Duration::from_secs(10);

/// Returns memory once, and ends with the agent.
pub(super) async fn settle(stopping: CancellationToken) {
    select! {
        () = sleep(AT_WORK_AFTER) => return_memory(),
        () = stopping.cancelled() => return,
    }
    stopping.cancelled().await;
}

/// Takes a few milliseconds, and a few microseconds for each page that is used again.
fn return_memory() {
    heap::trim();
    if let Err(error) = file_pages::unmap() {
        debug!(%error, "cannot unmap file pages that only the start needed");
    }
}
