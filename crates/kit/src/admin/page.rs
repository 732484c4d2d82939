//! A page of the admin port, rendered on request up to a rate; requests beyond the rate get the last rendering.
//!
//! A client that asks in a loop costs this process no more than the rate, and no other client is refused for it.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

use crate::pace::Pace;

/// Steady rate at which a page is made anew.
const MADE_EVERY: Duration = Duration::from_millis(100);
/// How often in a row after a quiet time.
const MADE_AT_ONCE: u32 = 50;

/// A page.
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
    /// A page of this content type; `make` must not block.
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

    /// Its content type.
    pub(super) fn content_type(&self) -> &'static str {
        self.content_type
    }

    /// The page. One request at a time makes it.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn show(&self) -> serde_json::Result<Bytes> {
        // A panic while it is made leaves the last one.
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
    async fn a_page_is_made_anew_up_to_a_rate_and_then_shown_as_it_was() {
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
