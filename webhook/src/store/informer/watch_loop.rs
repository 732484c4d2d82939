//! Lists one resource of the API server page by page, then watches it from that version on for as long as possible.

use std::{convert::Infallible, future::pending, pin::pin, time::Duration};

use futures::{AsyncBufReadExt as _, StreamExt as _};
use kube::{
    Api, Resource,
    api::{ListParams, WatchParams},
    core::{ListMeta, Request},
};
use serde_json::value::RawValue;
use tokio::{
    select,
    time::{Instant, sleep, timeout},
};
use tracing::{debug, info};

use super::{
    Presence, Store, Subject,
    error_log::ErrorLog,
    event::RawEvent,
    health::InformerHealth,
    list_splitter::ListSplitter,
    presence::{DISCOVERY_LIMIT, is_served},
    reading::{Reading, UnreadableObject, read},
    watch_error::WatchError,
};
use crate::store::metrics::{INFORMER_ERRORS, INFORMER_EVENTS, INFORMER_UNREADABLE};

/// Duration of one watch, in seconds. The next watch continues from its version.
const WATCH_SECONDS: u32 = 60;
/// Duration of a watch after a failed one, in seconds. It is short, so that the watch ends regularly before the store
/// becomes unknown, even if nothing changes or a proxy cuts quiet connections.
const PROBE_SECONDS: u32 = 10;
/// Time beyond the requested duration after which a watch without data counts as dead.
const GRACE: Duration = Duration::from_secs(5);
/// Tolerance for a watch that ends early and still counts as regular: clocks differ.
const SOONER: Duration = Duration::from_secs(1);
/// Timeout until the API server starts a watch.
const OPEN_LIMIT: Duration = Duration::from_secs(10);
/// Timeout of the head of a page of a list, and of each further part of it: a page may have hundreds of megabytes.
const PAGE_LIMIT: Duration = Duration::from_secs(30);
/// Objects in one page of a list: bounds the memory that the API server needs. Here one object is in memory at a time.
const PAGE: u32 = 250;
/// First pause after an error; it doubles up to [`LONGEST_PAUSE`] until there is a sign of life. Each is cut by up to a
/// half, so that replicas do not come all at once.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// There are few replicas, and each is of little use while it cannot see the cluster.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Interval of discovery while the API server does not serve the resource. Each answer counts as activity.
const ABSENT_PAUSE: Duration = Duration::from_secs(30);
/// Observed presence of the resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KindState {
    Unknown,
    /// It has: it listed the objects.
    Present,
    Absent,
}

/// One resource and the store that follows it.
pub(super) struct WatchLoop<'a, S: Store> {
    subject: Subject,
    api: Api<S::Object>,
    store: &'a S,
    health: &'a InformerHealth<'a, S>,
    /// Version from which the watch continues; `None` to list first.
    version: Option<String>,
    /// Duration of the next watch, in seconds.
    lasts: u32,
    kind: KindState,
    errors: ErrorLog,
    unreadable: ErrorLog,
}

impl<'a, S: Store> WatchLoop<'a, S> {
    /// The store's resource, not listed yet.
    pub(super) fn new(
        subject: Subject,
        api: Api<S::Object>,
        store: &'a S,
        health: &'a InformerHealth<'a, S>,
    ) -> Self {
        Self {
            subject,
            api,
            store,
            health,
            version: None,
            lasts: WATCH_SECONDS,
            kind: KindState::Unknown,
            errors: ErrorLog::default(),
            unreadable: ErrorLog::default(),
        }
    }

    /// Follows it for ever. Errors are logged, counted and tried again.
    pub(super) async fn follow(mut self) -> Infallible {
        let mut pause = FIRST_PAUSE;
        loop {
            let (began, store) = (Instant::now(), self.store);
            let result = select! {
                result = self.advance() => result,
                () = relist(store) => {
                    self.version = None;
                    continue;
                }
            };
            let Err(error) = result else {
                (pause, self.lasts) = (FIRST_PAUSE, WATCH_SECONDS);
                continue;
            };
            if self.health.last_activity() > began {
                pause = FIRST_PAUSE;
            }
            INFORMER_ERRORS.with([self.subject.name]).increment(1);
            self.health.fail();
            let cut = pause.mul_f64(rand::random_range(0.5..=1.0));
            self.errors.record(self.subject.name, &error, cut);
            if error.is_of_version() {
                self.version = None;
            }
            self.lasts = PROBE_SECONDS;
            sleep(cut).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Lists or watches once; waits instead where the API server does not have the kind.
    async fn advance(&mut self) -> Result<(), WatchError> {
        let result = match self.version.clone() {
            None => self.list().await,
            Some(version) => self.watch(&version).await,
        };
        match result {
            Err(error) if error.is_not_found() && self.is_absent().await? => {
                self.clear();
                sleep(ABSENT_PAUSE).await;
                Ok(())
            }
            other => other,
        }
    }

    /// True if the resource is not served, after a request for it was not found. If the API server served it a moment
    /// ago, discovery must confirm this: an API server that is starting may not list all resources yet.
    async fn is_absent(&self) -> Result<bool, WatchError> {
        match (self.subject.presence, self.kind) {
            (Presence::Always, _) => Ok(false),
            (Presence::Custom { .. }, KindState::Unknown | KindState::Absent) => Ok(true),
            (Presence::Custom { group, version }, KindState::Present) => {
                let client = self.api.clone().into_client();
                let plural = S::Object::plural(&());
                let is_served = is_served(&client, group, version, &plural).await?;
                Ok(!is_served.ok_or(WatchError::Slow(DISCOVERY_LIMIT))?)
            }
        }
    }

    /// Records that there are no objects, because their kind is not there.
    fn clear(&mut self) {
        if self.kind != KindState::Absent {
            info!(
                resource = self.subject.name,
                again = ?ABSENT_PAUSE,
                "the API server does not serve this resource: counts as empty until it does"
            );
            self.kind = KindState::Absent;
            self.version = None;
            self.store.replace(self.store.listing());
        }
        self.health.record_activity();
    }

    async fn list(&mut self) -> Result<(), WatchError> {
        let mut listing = self.store.listing();
        let mut params = ListParams {
            field_selector: self.store.fields(),
            limit: Some(PAGE),
            ..ListParams::default()
        };
        let version = loop {
            let page = self.list_page(&params, &mut listing).await?;
            let is_given = |text: &String| !text.is_empty();
            match page.continue_.filter(is_given) {
                Some(next) => params.continue_token = Some(next),
                None => break page.resource_version.filter(is_given),
            }
        };
        self.version = Some(version.ok_or(WatchError::Unversioned)?);
        self.store.replace(listing);
        debug!(resource = self.subject.name, version = self.version, "listed");
        if self.kind == KindState::Absent {
            info!(
                resource = self.subject.name,
                "the API server serves this resource now"
            );
        }
        self.kind = KindState::Present;
        self.health.record_activity();
        Ok(())
    }

    /// Adds the objects of one page as they arrive, and returns the page's metadata.
    async fn list_page(
        &mut self,
        params: &ListParams,
        listing: &mut S::Listing,
    ) -> Result<ListMeta, WatchError> {
        let slow = |_elapsed| WatchError::Slow(PAGE_LIMIT);
        let client = self.api.clone().into_client();
        let request = Request::new(self.api.resource_url()).list(params);
        let request = request.map_err(kube::Error::BuildRequest)?;
        let body = timeout(PAGE_LIMIT, client.request_stream(request)).await;
        let mut body = pin!(body.map_err(slow)??);
        let mut splitter = ListSplitter::default();
        loop {
            let chunk = timeout(PAGE_LIMIT, body.fill_buf()).await.map_err(slow)??;
            let length = chunk.len();
            if length == 0 {
                return Ok(splitter.finish()?);
            }
            splitter.push(chunk, |item| self.list_item(item, listing))?;
            body.consume_unpin(length);
        }
    }

    fn list_item(&mut self, item: &[u8], listing: &mut S::Listing) {
        INFORMER_EVENTS.with([self.subject.name, "listed"]).increment(1);
        match read(&String::from_utf8_lossy(item)) {
            Reading::Readable(object) => S::list(listing, object),
            Reading::Unreadable(object) => {
                self.record_unreadable(&object);
                if let Some(reduced) = object.reduced {
                    self.store.list_unreadable(listing, reduced);
                }
            }
        }
    }

    fn record_unreadable(&mut self, object: &UnreadableObject<S::Object>) {
        let resource = self.subject.name;
        INFORMER_UNREADABLE.with([resource]).increment(1);
        self.unreadable
            .record_unreadable(resource, &object.name, &object.error);
    }

    /// Watches until the API server ends the watch when it was asked to.
    async fn watch(&mut self, version: &str) -> Result<(), WatchError> {
        let params = WatchParams {
            field_selector: self.store.fields(),
            timeout: Some(self.lasts),
            bookmarks: true,
            ..WatchParams::default()
        };
        let lasts = Duration::from_secs(self.lasts.into());
        let began = Instant::now();
        let client = self.api.clone().into_client();
        let request = Request::new(self.api.resource_url()).watch(&params, version);
        let request = request.map_err(kube::Error::BuildRequest)?;
        let events = timeout(OPEN_LIMIT, client.request_stream(request)).await;
        let mut events = pin!(events.map_err(|_elapsed| WatchError::Slow(OPEN_LIMIT))??.lines());
        loop {
            let line = timeout(lasts + GRACE, events.next()).await;
            match line.map_err(|_elapsed| WatchError::Silent)? {
                Some(Ok(line)) => self.apply(RawEvent::parse(&line)?)?,
                // Some proxies cut the connection instead of ending the watch.
                _ if began.elapsed() + SOONER >= lasts => {
                    self.health.record_activity();
                    return Ok(());
                }
                Some(Err(error)) => return Err(error.into()),
                None => return Err(WatchError::Cut),
            }
        }
    }

    fn apply(&mut self, event: RawEvent<'_>) -> Result<(), WatchError> {
        let version = match event {
            RawEvent::Applied(object) => {
                INFORMER_EVENTS.with([self.subject.name, "applied"]).increment(1);
                self.deliver(object, S::apply, S::apply_unreadable)
            }
            RawEvent::Deleted(object) => {
                INFORMER_EVENTS.with([self.subject.name, "deleted"]).increment(1);
                self.deliver(object, S::delete, S::delete)
            }
            RawEvent::Bookmark(version) => Some(version),
        };
        let version = version.filter(|text| !text.is_empty());
        self.version = Some(version.ok_or(WatchError::Unversioned)?);
        self.health.record_activity();
        Ok(())
    }

    /// Passes the object of an event to the store, and returns its resource version.
    fn deliver(
        &mut self,
        object: &RawValue,
        readable: fn(&S, S::Object),
        unreadable: fn(&S, S::Object),
    ) -> Option<String> {
        match read::<S::Object>(object.get()) {
            Reading::Readable(object) => {
                let version = object.meta().resource_version.clone();
                readable(self.store, object);
                version
            }
            Reading::Unreadable(object) => {
                self.record_unreadable(&object);
                if let Some(reduced) = object.reduced {
                    unreadable(self.store, reduced);
                }
                Some(object.version)
                    .filter(|text| !text.is_empty())
                    .or(self.version.clone())
            }
        }
    }
}

/// Ends when the store needs a new list of all objects.
async fn relist<S: Store>(store: &S) {
    match store.relist() {
        Some(notify) => notify.notified().await,
        None => pending().await,
    }
}
