//! Lists one resource of the API server page by page, then watches it from that version on for as long as possible.

use std::{convert::Infallible, error::Error, pin::pin, time::Duration};

use futures::StreamExt as _;
use kube::{
    Api, Resource,
    api::{ListParams, WatchEvent, WatchParams},
    core::Status,
};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, warn};

use super::{Store, life::Life};
use crate::store::metrics::{INFORMER_ERRORS, INFORMER_EVENTS};

/// How long one watch lasts, in seconds. A new watch goes on where the last one was.
const WATCH_SECONDS: u32 = 60;
/// How long a watch lasts after one that went wrong: short, so that a sign of life comes before the store counts as
/// unknown, where nothing changes or something on the way cuts connections that are quiet.
const PROBE_SECONDS: u32 = 10;
/// How much longer than it should last a watch may say nothing until it is taken for dead.
const GRACE: Duration = Duration::from_secs(5);
/// How much sooner than asked for a watch may end and still have ended as asked: clocks differ.
const SOONER: Duration = Duration::from_secs(1);
/// How long the API server may take to begin a watch.
const OPEN_LIMIT: Duration = Duration::from_secs(10);
/// How long it may take for one page of a list.
const PAGE_LIMIT: Duration = Duration::from_secs(30);
/// Objects in one page of a list: bounds the memory that a list takes at once.
const PAGE: u32 = 250;
/// First pause after an error; it doubles up to [`LONGEST_PAUSE`] until there is a sign of life. Each is cut by up to a
/// half, so that replicas do not come all at once.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// There are few replicas, and each is of little use while it cannot see the cluster.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The cause that an API server names which has not come as far as the version asked for: one that was restored from a
/// backup never will.
const VERSION_IS_AHEAD: &str = "ResourceVersionTooLarge";

/// Why following is interrupted. A cause that has a message of its own is told by that alone.
#[derive(Debug, thiserror::Error)]
enum SourceError {
    #[error("the API server refuses, or cannot be reached")]
    Api(#[from] kube::Error),
    #[error("the API server does not answer within {0:?}")]
    Slow(Duration),
    #[error("the watch stays open and says nothing")]
    Silent,
    #[error("the watch ended before its time")]
    Cut,
    #[error("the API server sends no resource version")]
    Unversioned,
}

/// One resource and the store that follows it.
pub(super) struct Source<'a, S: Store> {
    api: Api<S::Object>,
    store: &'a S,
    life: &'a Life<'a, S>,
    /// Where to watch on from; `None` to list first.
    version: Option<String>,
    /// How long the next watch is to last, in seconds.
    lasts: u32,
}

impl<'a, S: Store> Source<'a, S> {
    /// The store's resource, not listed yet.
    pub(super) fn new(api: Api<S::Object>, store: &'a S, life: &'a Life<'a, S>) -> Self {
        Self {
            api,
            store,
            life,
            version: None,
            lasts: WATCH_SECONDS,
        }
    }

    /// Follows it for ever. Errors are logged, counted and tried again.
    pub(super) async fn follow(mut self) -> Infallible {
        let mut pause = FIRST_PAUSE;
        loop {
            let began = Instant::now();
            let result = match self.version.clone() {
                None => self.list().await,
                Some(version) => self.watch(&version).await,
            };
            let Err(error) = result else {
                (pause, self.lasts) = (FIRST_PAUSE, WATCH_SECONDS);
                continue;
            };
            if self.life.last_sign() > began {
                pause = FIRST_PAUSE;
            }
            INFORMER_ERRORS.with([S::RESOURCE]).increment(1);
            let cut = pause.mul_f64(rand::random_range(0.5..=1.0));
            warn!(resource = S::RESOURCE, error = %root(&error), pause = ?cut, "cannot follow; trying again");
            if error.is_of_version() {
                self.version = None;
            }
            self.lasts = PROBE_SECONDS;
            sleep(cut).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn list(&mut self) -> Result<(), SourceError> {
        let mut listing = S::Listing::default();
        let mut params = ListParams {
            field_selector: self.store.fields(),
            limit: Some(PAGE),
            ..ListParams::default()
        };
        let version = loop {
            let page = timeout(PAGE_LIMIT, self.api.list(&params)).await;
            let page = page.map_err(|_elapsed| SourceError::Slow(PAGE_LIMIT))??;
            for object in page.items {
                S::list(&mut listing, object);
                INFORMER_EVENTS.with([S::RESOURCE, "listed"]).increment(1);
            }
            let is_given = |text: &String| !text.is_empty();
            match page.metadata.continue_.filter(is_given) {
                Some(next) => params.continue_token = Some(next),
                None => break page.metadata.resource_version.filter(is_given),
            }
        };
        self.version = Some(version.ok_or(SourceError::Unversioned)?);
        self.store.replace(listing);
        debug!(resource = S::RESOURCE, version = self.version, "listed");
        self.life.sign();
        Ok(())
    }

    /// Watches until the API server ends the watch when it was asked to.
    async fn watch(&mut self, version: &str) -> Result<(), SourceError> {
        let params = WatchParams {
            field_selector: self.store.fields(),
            timeout: Some(self.lasts),
            bookmarks: true,
            ..WatchParams::default()
        };
        let lasts = Duration::from_secs(self.lasts.into());
        let began = Instant::now();
        let events = timeout(OPEN_LIMIT, self.api.watch(&params, version)).await;
        let mut events = pin!(events.map_err(|_elapsed| SourceError::Slow(OPEN_LIMIT))??);
        loop {
            let event = timeout(lasts + GRACE, events.next()).await;
            match event.map_err(|_elapsed| SourceError::Silent)? {
                Some(event) => self.apply(event?)?,
                None if began.elapsed() + SOONER >= lasts => {
                    self.life.sign();
                    return Ok(());
                }
                None => return Err(SourceError::Cut),
            }
        }
    }

    fn apply(&mut self, event: WatchEvent<S::Object>) -> Result<(), SourceError> {
        let version = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                INFORMER_EVENTS.with([S::RESOURCE, "applied"]).increment(1);
                let version = object.meta().resource_version.clone();
                self.store.apply(object);
                version
            }
            WatchEvent::Deleted(object) => {
                INFORMER_EVENTS.with([S::RESOURCE, "deleted"]).increment(1);
                let version = object.meta().resource_version.clone();
                self.store.delete(object);
                version
            }
            WatchEvent::Bookmark(bookmark) => Some(bookmark.metadata.resource_version),
            WatchEvent::Error(status) => return Err(kube::Error::Api(status).into()),
        };
        let version = version.filter(|text| !text.is_empty());
        self.version = Some(version.ok_or(SourceError::Unversioned)?);
        self.life.sign();
        Ok(())
    }
}

impl SourceError {
    /// True if watching cannot go on from the version that it has come to: then all is listed anew.
    fn is_of_version(&self) -> bool {
        match self {
            Self::Api(kube::Error::Api(status)) => is_out_of_reach(status),
            Self::Unversioned => true,
            Self::Api(_) | Self::Slow(_) | Self::Silent | Self::Cut => false,
        }
    }
}

/// True if the API server no longer has what came after the version, or has never come as far.
fn is_out_of_reach(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 410
        || causes
            .map(|cause| cause.reason.as_str())
            .any(|reason| reason == VERSION_IS_AHEAD)
}

/// The innermost cause: the library's errors repeat their causes in their own text, each a little shorter.
fn root<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    error.source().map_or(error, root)
}
