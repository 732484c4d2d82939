//! The task `settle` gives back memory that only the start needed, once the agent is at work.

use std::time::Duration;

use tokio::{select, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::kernel::{file_pages, heap};

/// By then the agent has measured, and has reported where there is a server to report to.
const AT_WORK_AFTER: Duration = Duration::from_secs(10);

/// Gives memory back once, and ends with the agent.
pub(super) async fn settle(stopping: CancellationToken) {
    select! {
        () = sleep(AT_WORK_AFTER) => return_memory(),
        () = stopping.cancelled() => return,
    }
    stopping.cancelled().await;
}

/// Takes some milliseconds, and some microseconds more at each place of the program that is used again.
fn return_memory() {
    heap::trim();
    if let Err(error) = file_pages::unmap() {
        debug!(%error, "pages of the program that only its start needed stay mapped");
    }
}
