//! Stand-in for API server and etcd: stores the Nodes and sends every status write to the webhook for admission. A
//! write that changes something takes as long as in etcd.
//!
//! Versions are checked as by the API server: a write with a resourceVersion is refused if the Node has another; any
//! other write is tried again. If no replica answers, the stored value stays, as with the floor.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use headroom_domain::names;
use serde_json::Value;
use tokio::{sync::mpsc, time::sleep};

use super::{
    admission::{Admission, Write},
    objects::{self, NodeText, RAW_CPU_MILLI, node_name},
};

/// Duration of an etcd write, evenly distributed.
pub(super) const WRITE_MS: std::ops::RangeInclusive<u64> = 2..=6;
/// Attempts for a write without a resourceVersion.
const TRIES: usize = 5;

/// The stored objects and their watchers.
#[derive(Debug)]
pub(super) struct ApiServer {
    pub(super) admission: Admission,
    nodes: Vec<Mutex<Stored>>,
    numbers: HashMap<String, usize>,
    pods: usize,
    policy: Mutex<(String, u64)>,
    version: AtomicU64,
    node_watchers: Watchers<(usize, u64)>,
    policy_watchers: Watchers<()>,
    /// Writes that changed a Node.
    stored: AtomicUsize,
    /// Requested writes of a hint annotation, and requested writes without content.
    nudges: AtomicUsize,
    touches: AtomicUsize,
}

/// A Node and the time of the last change of its allocatable.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) text: Arc<NodeText>,
    /// Time of the last change of allocatable.
    pub(super) moved: Instant,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RequestCounts {
    /// Writes that changed a Node.
    pub(super) stored: usize,
    /// Writes of a hint annotation.
    pub(super) nudges: usize,
    pub(super) touches: usize,
}

#[derive(Debug)]
pub(super) enum Change {
    Sync,
    /// A merge patch by the webhook.
    Merge(Value),
}

#[derive(Debug)]
pub(super) enum Refusal {
    /// The Node has another resourceVersion.
    Conflict,
    /// An error that does not occur in a cluster.
    Broken(anyhow::Error),
}

/// Open watches of one resource.
#[derive(Debug)]
struct Watchers<T>(Mutex<Vec<mpsc::UnboundedSender<T>>>);

impl<T: Copy> Watchers<T> {
    fn subscribe(&self) -> mpsc::UnboundedReceiver<T> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        receiver
    }

    fn notify(&self, event: T) {
        let mut watchers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|watcher| watcher.send(event).is_ok());
    }
}

impl<T> Default for Watchers<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl From<anyhow::Error> for Refusal {
    fn from(error: anyhow::Error) -> Self {
        Self::Broken(error)
    }
}

impl ApiServer {
    /// Raw nodes with pods, and a policy.
    ///
    /// # Errors
    /// None in practice.
    pub(super) fn new(nodes: usize, pods: usize, policy: &str) -> Result<Self> {
        let first = u64::try_from(pods)? + 1;
        let stored = |node: usize| {
            let version = first + u64::try_from(node)?;
            anyhow::Ok(Mutex::new(Stored {
                text: Arc::new(NodeText::raw(node, version)?),
                moved: Instant::now(),
            }))
        };
        let version = first + u64::try_from(nodes)?;
        Ok(Self {
            admission: Admission::default(),
            nodes: (0..nodes).map(stored).collect::<Result<_>>()?,
            numbers: (0..nodes).map(|node| (node_name(node), node)).collect(),
            pods,
            policy: Mutex::new((policy.to_owned(), version)),
            version: AtomicU64::new(version),
            node_watchers: Watchers::default(),
            policy_watchers: Watchers::default(),
            stored: AtomicUsize::new(0),
            nudges: AtomicUsize::new(0),
            touches: AtomicUsize::new(0),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn node(&self, node: usize) -> Option<Stored> {
        Some(lock(self.nodes.get(node)?).clone())
    }

    /// Number of the Node with this name.
    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// The pod as JSON text.
    pub(super) fn pod(&self, pod: usize) -> Option<String> {
        (pod < self.pods).then(|| objects::pod(pod, self.pods, self.nodes.len()))
    }

    /// The ConfigMap as JSON text, and its version.
    pub(super) fn config_map(&self) -> (String, u64) {
        let (policy, version) = lock(&self.policy).clone();
        (objects::config_map(&policy, version), version)
    }

    /// Version of the latest write.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// Later changes of Nodes: number and version.
    pub(super) fn watch_nodes(&self) -> mpsc::UnboundedReceiver<(usize, u64)> {
        self.node_watchers.subscribe()
    }

    /// Later changes of the ConfigMap.
    pub(super) fn watch_config_map(&self) -> mpsc::UnboundedReceiver<()> {
        self.policy_watchers.subscribe()
    }

    pub(super) fn set_policy(&self, policy: &str) {
        *lock(&self.policy) = (policy.to_owned(), self.next_version());
        self.policy_watchers.notify(());
    }

    pub(super) fn counts(&self) -> RequestCounts {
        RequestCounts {
            stored: self.stored.load(Ordering::Relaxed),
            nudges: self.nudges.load(Ordering::Relaxed),
            touches: self.touches.load(Ordering::Relaxed),
        }
    }

    /// A kubelet's write; returns the duration of its review, or `None` if no replica answered.
    ///
    /// # Errors
    /// An error that does not occur in a cluster.
    pub(super) async fn sync(&self, node: usize) -> Result<Option<Duration>> {
        let user = format!("{}{}", names::NODE_USER_PREFIX, node_name(node));
        let mut took = None;
        match self.write(node, &Change::Sync, &user, None, &mut took).await {
            Ok(_) => Ok(took),
            Err(Refusal::Conflict) => bail!("node {node} changed {TRIES} times during one write"),
            Err(Refusal::Broken(error)) => Err(error),
        }
    }

    /// A merge patch by the webhook; returns the resulting Node.
    ///
    /// # Errors
    /// If its resourceVersion is outdated.
    pub(super) async fn merge(&self, node: usize, mut patch: Value) -> Result<Arc<NodeText>, Refusal> {
        let metadata = patch.get_mut("metadata").and_then(Value::as_object_mut);
        let bound = metadata.and_then(|metadata| metadata.remove("resourceVersion"));
        let bound = bound.and_then(|version| version.as_str()?.parse().ok());
        let is_nudge = patch.pointer("/metadata/annotations").is_some();
        let counted = if is_nudge { &self.nudges } else { &self.touches };
        counted.fetch_add(1, Ordering::Relaxed);
        self.write(node, &Change::Merge(patch), names::WEBHOOK_USER, bound, &mut None)
            .await
    }

    async fn write(
        &self,
        node: usize,
        change: &Change,
        user: &str,
        bound: Option<u64>,
        took: &mut Option<Duration>,
    ) -> Result<Arc<NodeText>, Refusal> {
        for _ in 0..TRIES {
            let old = self.node(node).context("there is no such node")?.text;
            if bound.is_some_and(|version| version != old.version) {
                return Err(Refusal::Conflict);
            }
            let (new, review) = self.admitted(node, &old, change, user).await?;
            *took = review;
            // The kubelet of a raw node finds its own values stored, so nothing is written; the review happens all
            // the same.
            let is_idle = matches!(change, Change::Sync) && old.cpu_milli == RAW_CPU_MILLI;
            let Some(new) = new.filter(|_| !is_idle) else {
                return Ok(old);
            };
            sleep(Duration::from_millis(rand::random_range(WRITE_MS))).await;
            if let Some(stored) = self.store(node, &old, &new)? {
                return Ok(stored);
            }
        }
        Err(Refusal::Conflict)
    }

    /// The Node after admission, or `None` if nothing changes, and the duration of the review.
    async fn admitted(
        &self,
        node: usize,
        old: &NodeText,
        change: &Change,
        user: &str,
    ) -> Result<(Option<Value>, Option<Duration>)> {
        let stored = old.object()?;
        let mut object = stored.clone();
        match change {
            Change::Sync => objects::sync(&mut object),
            Change::Merge(patch) => json_patch::merge(&mut object, patch),
        }
        let asked = NodeText::serialize(&object, old.version)?.text();
        let name = node_name(node);
        let write = Write {
            user,
            node: &name,
            old: &old.text(),
            new: &asked,
        };
        let began = Instant::now();
        let Ok(patch) = self.admission.review(&write).await else {
            return Ok((None, None));
        };
        let took = began.elapsed();
        json_patch::patch(&mut object, &patch).context("the patch does not fit the object")?;
        Ok(((object != stored).then_some(object), Some(took)))
    }

    /// Stores a Node, unless its version has changed since `old`.
    fn store(&self, node: usize, old: &NodeText, new: &Value) -> Result<Option<Arc<NodeText>>> {
        let mut stored = lock(self.nodes.get(node).context("there is no such node")?);
        if stored.text.version != old.version {
            return Ok(None);
        }
        let text = Arc::new(NodeText::serialize(new, self.next_version())?);
        if text.cpu_milli != old.cpu_milli {
            stored.moved = Instant::now();
        }
        stored.text = Arc::clone(&text);
        drop(stored);
        self.stored.fetch_add(1, Ordering::Relaxed);
        self.node_watchers.notify((node, text.version));
        Ok(Some(text))
    }

    fn next_version(&self) -> u64 {
        self.version.fetch_add(1, Ordering::SeqCst) + 1
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
