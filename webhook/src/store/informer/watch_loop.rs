//! Lists one resource of the API server page by page, then watches it from that version on for as long as possible.

use std::{convert::Infallible, future::pending, pin::pin, time::Duration};

use futures::StreamExt as _;
use kube::{
    Api, Resource,
    api::{ListParams, WatchEvent, WatchParams},
    core::Status,
};
use tokio::{
    select,
    time::{Instant, sleep, timeout},
};
use tracing::{debug, info};

use super::{
    Presence, Store, Subject,
    error_log::ErrorLog,
    health::InformerHealth,
    presence::{DISCOVERY_LIMIT, is_served},
};
use crate::store::metrics::{INFORMER_ERRORS, INFORMER_EVENTS};

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
/// Timeout of one page of a list.
const PAGE_LIMIT: Duration = Duration::from_secs(30);
/// Objects in one page of a list: bounds the memory that a list takes at once.
const PAGE: u32 = 250;
/// First pause after an error; it doubles up to [`LONGEST_PAUSE`] until there is a sign of life. Each is cut by up to a
/// half, so that replicas do not come all at once.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// There are few replicas, and each is of little use while it cannot see the cluster.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Interval of discovery while the API server does not serve the resource. Each answer counts as activity.
const ABSENT_PAUSE: Duration = Duration::from_secs(30);
/// The cause that an API server names which has not come as far as the version asked for: one that was restored from a
/// backup never will.
const VERSION_IS_AHEAD: &str = "ResourceVersionTooLarge";

/// Cause of an interruption of the watch.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error("the API server refused the request, or is unreachable")]
    Api(#[from] kube::Error),
    #[error("the API server did not answer within {0:?}")]
    Slow(Duration),
    #[error("the watch is open and delivers nothing")]
    Silent,
    #[error("the watch ended too early")]
    Cut,
    #[error("the API server sent no resource version")]
    Unversioned,
}

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
            let page = timeout(PAGE_LIMIT, self.api.list(&params)).await;
            let page = page.map_err(|_elapsed| WatchError::Slow(PAGE_LIMIT))??;
            for object in page.items {
                S::list(&mut listing, object);
                INFORMER_EVENTS.with([self.subject.name, "listed"]).increment(1);
            }
            let is_given = |text: &String| !text.is_empty();
            match page.metadata.continue_.filter(is_given) {
                Some(next) => params.continue_token = Some(next),
                None => break page.metadata.resource_version.filter(is_given),
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
        let events = timeout(OPEN_LIMIT, self.api.watch(&params, version)).await;
        let mut events = pin!(events.map_err(|_elapsed| WatchError::Slow(OPEN_LIMIT))??);
        loop {
            let event = timeout(lasts + GRACE, events.next()).await;
            match event.map_err(|_elapsed| WatchError::Silent)? {
                Some(event) => self.apply(event?)?,
                None if began.elapsed() + SOONER >= lasts => {
                    self.health.record_activity();
                    return Ok(());
                }
                None => return Err(WatchError::Cut),
            }
        }
    }

    fn apply(&mut self, event: WatchEvent<S::Object>) -> Result<(), WatchError> {
        let version = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                INFORMER_EVENTS.with([self.subject.name, "applied"]).increment(1);
                let version = object.meta().resource_version.clone();
                self.store.apply(object);
                version
            }
            WatchEvent::Deleted(object) => {
                INFORMER_EVENTS.with([self.subject.name, "deleted"]).increment(1);
                let version = object.meta().resource_version.clone();
                self.store.delete(object);
                version
            }
            WatchEvent::Bookmark(bookmark) => Some(bookmark.metadata.resource_version),
            WatchEvent::Error(status) => return Err(kube::Error::Api(status).into()),
        };
        let version = version.filter(|text| !text.is_empty());
        self.version = Some(version.ok_or(WatchError::Unversioned)?);
        self.health.record_activity();
        Ok(())
    }
}

impl WatchError {
    /// True if the API server answers "not found".
    fn is_not_found(&self) -> bool {
        match self {
            Self::Api(kube::Error::Api(status)) => status.code == 404,
            Self::Api(_) | Self::Slow(_) | Self::Silent | Self::Cut | Self::Unversioned => false,
        }
    }

    /// True if the watch cannot continue from its version: all objects are listed again then.
    fn is_of_version(&self) -> bool {
        match self {
            Self::Api(kube::Error::Api(status)) => is_out_of_reach(status),
            Self::Unversioned => true,
            Self::Api(_) | Self::Slow(_) | Self::Silent | Self::Cut => false,
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

/// True if the API server no longer has the events after the version, or has not reached the version.
fn is_out_of_reach(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 410
        || causes
            .map(|cause| cause.reason.as_str())
            .any(|reason| reason == VERSION_IS_AHEAD)
}
