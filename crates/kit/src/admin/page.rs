//! A page of the admin port, rendered on request up to a rate; requests beyond the rate get the last rendering.
//!
//! A client that polls in a loop costs at most the rendering rate and does not affect other clients.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

use crate::pace::Pace;

/// Steady interval between two renderings.
const MADE_EVERY: Duration = Duration::from_millis(100);
/// Renderings allowed in a row after an idle period.
const MADE_AT_ONCE: u32 = 50;

/// An admin page with its last rendering.
pub(super) struct Page {
    content_type: &'static str,
    make: Box<dyn Fn() -> serde_json::Result<Vec<u8>> + Send + Sync>,
    started: Instant,
    state: Mutex<PageState>,
}

struct PageState {
    pace: Pace,
    last: Option<Bytes>,
}

impl Page {
    /// Creates a page of this content type; `make` renders it and must not block.
    pub(super) fn new(
        content_type: &'static str,
        make: impl Fn() -> serde_json::Result<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            content_type,
            make: Box::new(make),
            started: Instant::now(),
            state: Mutex::new(PageState {
                pace: Pace::new(MADE_EVERY, MADE_AT_ONCE),
                last: None,
            }),
        }
    }

    /// Content type of the page, for the response header.
    pub(super) fn content_type(&self) -> &'static str {
        self.content_type
    }

    /// Returns the page, rendered again if the rate allows it. Only one request renders at a time.
    ///
    /// # Errors
    /// Rendering failed.
    pub(super) fn show(&self) -> serde_json::Result<Bytes> {
        // After a panic during rendering, the last rendering is still valid.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_early = state.pace.try_acquire(self.started.elapsed()).is_err();
        if let Some(last) = state.last.as_ref().filter(|_| is_early) {
            return Ok(last.clone());
        }
        let bytes = Bytes::from((self.make)()?);
        state.last = Some(bytes.clone());
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pages_beyond_the_rate_repeat_the_last_rendering() {
        let made = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&made);
        let page = Page::new("text/plain", move || {
            let count = counted.fetch_add(1, Ordering::Relaxed) + 1;
            Ok(count.to_string().into_bytes())
        });
        for _ in 0..10_000 {
            page.show().unwrap();
        }
        assert_eq!(made.load(Ordering::Relaxed), MADE_AT_ONCE);
        assert_eq!(page.show().unwrap(), MADE_AT_ONCE.to_string());
        tokio::time::advance(MADE_EVERY).await;
        assert_eq!(page.show().unwrap(), (MADE_AT_ONCE + 1).to_string());
    }
}
