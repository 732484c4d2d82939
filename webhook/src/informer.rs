//! Keeps a store equal to what the API server has, through outages of any length.

use std::{
    error::Error,
    fmt::Debug,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::StreamExt as _;
use kube::{
    Api, Resource,
    runtime::watcher::{self, Event, watcher},
};
use serde::de::DeserializeOwned;
use tokio::{select, sync::oneshot, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::node::metrics::{INFORMER_ERRORS, INFORMER_EVENTS, INFORMER_HEARD};

/// How long one watch lasts, in seconds. A connection that stays open and carries nothing any more is taken for dead a
/// few seconds after the API server should have ended the watch; a new watch goes on where the last one was.
const WATCH_SECONDS: u32 = 60;
/// First pause after an error; it doubles up to [`LONGEST_PAUSE`] until an object comes. Each is cut by up to a half, so
/// that replicas do not come all at once.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// There are few replicas, and each is of little use while it cannot see the cluster.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Objects in one page of a list: bounds the memory that a list takes at once.
const PAGE: u32 = 250;

/// A store that follows one resource.
pub trait Store: Send + Sync {
    /// The objects, with as much of them as the store reads.
    type Object: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static;
    /// A list that is being received.
    type Listing: Default + Send;
    /// The resource in plural, as a metric label and log field.
    const RESOURCE: &'static str;

    /// Which objects of the resource, as a field selector; all of them unless said otherwise.
    fn fields(&self) -> Option<String> {
        None
    }

    /// Takes one object of a list.
    fn list(listing: &mut Self::Listing, object: Self::Object);
    /// Replaces everything by a complete list.
    fn replace(&self, listing: Self::Listing);
    /// Takes a new or changed object.
    fn apply(&self, object: Self::Object);
    /// Takes the last state of an object that is gone.
    fn delete(&self, object: Self::Object);
}

/// Follows the resource until told to stop, and says when all of it is known for the first time. Errors are logged,
/// counted and tried again.
pub async fn follow<S: Store>(
    api: Api<S::Object>,
    store: Arc<S>,
    synced: oneshot::Sender<()>,
    stop: CancellationToken,
) {
    let mut config = watcher::Config::default().page_size(PAGE).timeout(WATCH_SECONDS);
    if let Some(fields) = store.fields() {
        config = config.fields(&fields);
    }
    let mut events = std::pin::pin!(watcher(api, config));
    let mut listing = S::Listing::default();
    let mut synced = Some(synced);
    let mut pause = FIRST_PAUSE;
    loop {
        let event = select! {
            () = stop.cancelled() => return,
            event = events.next() => event,
        };
        match event {
            Some(Ok(event)) => {
                let is_done = matches!(event, Event::InitDone);
                // A list begins before the API server was asked: that alone is no success.
                if !matches!(event, Event::Init) {
                    pause = FIRST_PAUSE;
                    heard(S::RESOURCE);
                }
                take(&*store, &mut listing, event);
                if let Some(synced) = synced.take_if(|_| is_done) {
                    // Whoever waited may have given up.
                    let _is_heard = synced.send(()).is_ok();
                }
            }
            Some(Err(error)) => {
                INFORMER_ERRORS.with([S::RESOURCE]).increment(1);
                let cut = pause.mul_f64(rand::random_range(0.5..=1.0));
                warn!(resource = S::RESOURCE, error = %root(&error), pause = ?cut, "cannot follow; trying again");
                select! {
                    () = stop.cancelled() => return,
                    () = sleep(cut) => {}
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            // A watcher has no end.
            None => return,
        }
    }
}

/// Notes that the API server said something of a resource.
fn heard(resource: &'static str) {
    // A clock before 1970 is no reason to stop.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    INFORMER_HEARD
        .with([resource])
        .set(now.unwrap_or_default().as_secs_f64());
}

/// The innermost cause: these errors repeat their causes in their own text, each a little shorter.
fn root<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    error.source().map_or(error, root)
}

fn take<S: Store>(store: &S, listing: &mut S::Listing, event: Event<S::Object>) {
    let kind = match event {
        Event::Init => {
            *listing = S::Listing::default();
            return;
        }
        Event::InitApply(object) => {
            S::list(listing, object);
            "listed"
        }
        Event::InitDone => {
            store.replace(std::mem::take(listing));
            info!(resource = S::RESOURCE, "in step with the API server");
            return;
        }
        Event::Apply(object) => {
            store.apply(object);
            "applied"
        }
        Event::Delete(object) => {
            store.delete(object);
            "deleted"
        }
    };
    INFORMER_EVENTS.with([S::RESOURCE, kind]).increment(1);
}

/// The resource version as a number, by which versions of one resource are ordered; 0 if there is none.
pub fn version<K: Resource>(object: &K) -> u64 {
    object
        .meta()
        .resource_version
        .as_deref()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
