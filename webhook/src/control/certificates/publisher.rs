//! [`BundlePublisher`]: while this replica leads, writes the CAs that clients should trust into our webhook
//! configurations and into the agents' ConfigMap, and restores them within seconds of another writer's change.

mod agent_config_map;
mod configuration;

use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use headroom_kit::log::chain;
use tokio::{
    select,
    sync::watch,
    time::{Duration, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub use self::{
    agent_config_map::{ACCESS as AUTHORITIES_ACCESS, AgentConfigMap},
    configuration::{OwnEntries, ReconciledFields, WebhookConfiguration},
};
use super::state::{Bundle, CertificateState};

/// Field manager of the writes. It owns fields only while a write is in progress.
const MANAGER: &str = "headroom-certificates";
/// Version from which a watch delivers an object that exists.
const ANY_VERSION: &str = "0";
/// Pause after a failure.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// Least time between two checks of one object.
const LEAST_PAUSE: Duration = Duration::from_millis(200);
/// Timeout of a write.
const WRITE_LIMIT: Duration = Duration::from_secs(5);

/// Why an object does not have the bundle.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error("cannot read it")]
    Read(#[source] super::api_object::ReadError),
    #[error("the API server did not accept the write")]
    Write(#[source] Box<kube::Error>),
    #[error("the API server did not answer within {WRITE_LIMIT:?}")]
    Slow,
    #[error(
        "the annotation {annotation} lets another program write the bundle; remove it, or set --certificates=cert-manager"
    )]
    Injected { annotation: &'static str },
    #[error("it does not exist; apply the manifests again")]
    Absent,
    #[error("it is left to another tool, which has not written it yet")]
    NotOurs,
    #[error("another writer changes it after each of our writes")]
    Contested,
}

/// State of an object after a check.
#[derive(Debug, PartialEq, Eq)]
pub enum TargetState {
    /// It has the bundle, at this version.
    Stored { version: String },
    /// There is no such object, and none is needed.
    Absent,
}

/// An object that should contain the bundle.
pub trait BundleTarget: Send + Sync {
    /// Kind and name, for users.
    fn label(&self) -> String;

    /// Compares the object with the bundle, and writes it if it differs.
    fn publish<'a>(&'a self, bundle: &'a Bundle) -> BoxFuture<'a, Result<TargetState, PublishError>>;

    /// Waits until the object has another version, or for a minute.
    fn changed<'a>(&'a self, version: &'a str) -> BoxFuture<'a, ()>;
}

/// Writes the bundle into all targets.
pub struct BundlePublisher {
    targets: Vec<Box<dyn BundleTarget>>,
    state: Arc<CertificateState>,
}

impl BundlePublisher {
    pub fn new(targets: Vec<Box<dyn BundleTarget>>, state: Arc<CertificateState>) -> Self {
        Self { targets, state }
    }

    /// Keeps the bundle in all targets while this replica leads, until `stop` is cancelled.
    pub async fn publish(self, mut is_leader: watch::Receiver<bool>, stop: CancellationToken) {
        loop {
            if !*is_leader.borrow_and_update() {
                self.state.forget_stored();
                select! {
                    () = stop.cancelled() => return,
                    changed = is_leader.changed() => if changed.is_err() { return },
                }
                continue;
            }
            let following: FuturesUnordered<_> =
                self.targets.iter().map(|target| self.follow(&**target)).collect();
            select! {
                () = stop.cancelled() => return,
                changed = is_leader.changed() => if changed.is_err() { return },
                // Without targets, there is nothing to wait for.
                () = following.collect::<Vec<()>>().then(|_| std::future::pending()) => {}
            }
        }
    }

    /// Keeps the bundle in one target.
    async fn follow(&self, target: &dyn BundleTarget) {
        let mut bundles = self.state.bundle();
        let label = target.label();
        let mut logged = None;
        loop {
            let bundle = bundles.borrow_and_update().clone();
            if bundle.is_empty() {
                if bundles.changed().await.is_err() {
                    return;
                }
                continue;
            }
            let published = target.publish(&bundle).await;
            let problem = published.as_ref().err().map(|error| chain(error).to_string());
            if problem != logged
                && let Some(problem) = &problem
            {
                warn!(object = label, problem, "the CA bundle could not be written");
            }
            logged.clone_from(&problem);
            let stored = match (&published, problem) {
                (Ok(TargetState::Stored { .. }), _) => Some(Ok(Arc::clone(&bundle.fingerprint))),
                (_, Some(problem)) => Some(Err(problem)),
                (_, None) => None,
            };
            self.state.set_stored(&label, stored);
            sleep(LEAST_PAUSE).await;
            let pause = async {
                match &published {
                    Ok(TargetState::Stored { version }) => target.changed(version).await,
                    Ok(TargetState::Absent) => target.changed(ANY_VERSION).await,
                    Err(_) => sleep(RETRY_AFTER).await,
                }
            };
            select! {
                () = pause => {}
                changed = bundles.changed() => if changed.is_err() { return },
            }
        }
    }
}
