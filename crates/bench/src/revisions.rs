//! Watches all Nodes and records every revision: one per write to etcd.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{self, Duration},
};

use anyhow::{Result, bail, ensure};
use futures::{StreamExt as _, pin_mut};
use headroom_domain::{
    capacity::amount,
    hint::Note,
    names,
    resource::{PerResource, Resource},
};
use k8s_openapi::{
    api::core::v1::{Node, NodeCondition},
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt as _,
    runtime::watcher::{Config, Event, watcher},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

const POLL_EVERY: Duration = Duration::from_millis(20);

/// One write of a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Revision {
    /// Wall-clock time of the watch event.
    pub(super) at: Timestamp,
    /// Monotonic time of the watch event.
    pub(super) observed: time::Instant,
    pub(super) node: String,
    pub(super) cpu_milli: u64,
    /// Allocatable memory in bytes; 0 if the Node has none.
    pub(super) memory_bytes: u64,
    /// Number of the agent's report in the hint annotation.
    pub(super) seq: Option<u64>,
    /// `lastHeartbeatTime` of the Ready condition.
    pub(super) heartbeat: Timestamp,
    pub(super) is_ready: bool,
}

/// The watch ends on drop.
#[derive(Debug)]
pub(super) struct Revisions {
    seen: Arc<Mutex<ObservedRevisions>>,
    _task: JoinSet<()>,
}

#[derive(Debug, Default)]
struct ObservedRevisions {
    all: Vec<Revision>,
    latest: BTreeMap<String, Revision>,
    /// Number of lists of all Nodes: more than one means that the watch was interrupted.
    lists: u32,
}

impl Revision {
    fn from_node(node: &Node) -> Option<Self> {
        let status = node.status.as_ref()?;
        let ready: &NodeCondition = status
            .conditions
            .iter()
            .flatten()
            .find(|condition| condition.type_ == "Ready")?;
        let allocatable = |resource: Resource| {
            let quantity = status.allocatable.as_ref()?.get(resource.name())?;
            amount(resource, &quantity.0.parse().ok()?)
        };
        let note = node.annotations().get(names::HINT);
        let note = note.and_then(|text| text.parse::<Note>().ok());
        Some(Self {
            at: Timestamp::now(),
            observed: time::Instant::now(),
            node: node.name_any(),
            cpu_milli: allocatable(Resource::Cpu)?,
            memory_bytes: allocatable(Resource::Memory).unwrap_or(0),
            seq: note.map(|note| note.seq),
            heartbeat: ready.last_heartbeat_time.as_ref()?.0,
            is_ready: ready.status == "True",
        })
    }

    /// Allocatable in milli-cores and bytes.
    pub(super) const fn allocatable(&self) -> PerResource<u64> {
        PerResource {
            cpu: self.cpu_milli,
            memory: self.memory_bytes,
        }
    }
}

impl Revisions {
    pub(super) fn watch(client: Client) -> Self {
        let seen: Arc<Mutex<ObservedRevisions>> = Arc::default();
        let mut task = JoinSet::new();
        task.spawn(follow(client, Arc::clone(&seen)));
        Self { seen, _task: task }
    }

    /// Revisions whose watch event arrived between two times.
    pub(super) fn between(&self, from: Timestamp, until: Timestamp) -> Vec<Revision> {
        let seen = self.lock();
        let observed = seen
            .all
            .iter()
            .filter(|revision| (from..until).contains(&revision.at));
        observed.cloned().collect()
    }

    /// Number of nodes that were not Ready in at least one revision between two times.
    pub(super) fn not_ready(&self, from: Timestamp, until: Timestamp) -> usize {
        let mut revisions = self.between(from, until);
        revisions.retain(|revision| !revision.is_ready);
        let nodes: BTreeSet<String> = revisions.into_iter().map(|revision| revision.node).collect();
        nodes.len()
    }

    /// Waits for the first revision of a Node since a time that satisfies a condition.
    ///
    /// # Errors
    /// If there is none within the limit.
    pub(super) async fn first(
        &self,
        node: &str,
        since: time::Instant,
        within: Duration,
        is_it: impl Fn(&Revision) -> bool,
    ) -> Result<Revision> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(revision) =
                self.find(|observed| observed.node == node && observed.observed >= since && is_it(observed))
            {
                return Ok(revision);
            }
            if Instant::now() > deadline {
                let latest = self.latest().remove(node);
                bail!(
                    "no such revision of {node} within {} s; its latest: {latest:?}",
                    within.as_secs()
                );
            }
            sleep(POLL_EVERY).await;
        }
    }

    pub(super) fn latest(&self) -> BTreeMap<String, Revision> {
        self.lock().latest.clone()
    }

    /// Waits until the latest revisions satisfy a condition.
    ///
    /// # Errors
    /// If they do not within the limit.
    pub(super) async fn until(
        &self,
        what: &str,
        within: Duration,
        is_so: impl Fn(&BTreeMap<String, Revision>) -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + within;
        while !is_so(&self.lock().latest) {
            if Instant::now() > deadline {
                bail!("not within {} s: {what}", within.as_secs());
            }
            sleep(POLL_EVERY).await;
        }
        Ok(())
    }

    /// # Errors
    /// If a revision may have been missed.
    pub(super) fn ensure_gapless(&self) -> Result<()> {
        let lists = self.lock().lists;
        ensure!(lists == 1, "the watch of Nodes was interrupted: {lists} lists");
        Ok(())
    }

    fn find(&self, is_it: impl Fn(&Revision) -> bool) -> Option<Revision> {
        self.lock().all.iter().find(|revision| is_it(revision)).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, ObservedRevisions> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn follow(client: Client, seen: Arc<Mutex<ObservedRevisions>>) {
    let nodes: Api<Node> = Api::all(client);
    let events = watcher(nodes, Config::default());
    pin_mut!(events);
    while let Some(event) = events.next().await {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Ok(Event::Init) => seen.lists += 1,
            Ok(Event::InitApply(node)) => {
                if let Some(revision) = Revision::from_node(&node) {
                    seen.latest.insert(revision.node.clone(), revision);
                }
            }
            Ok(Event::Apply(node)) => {
                if let Some(revision) = Revision::from_node(&node) {
                    seen.all.push(revision.clone());
                    seen.latest.insert(revision.node.clone(), revision);
                }
            }
            Ok(Event::InitDone) => {}
            Ok(Event::Delete(node)) => {
                seen.latest.remove(&node.name_any());
            }
            // The watcher lists again, which `lists` counts.
            Err(error) => tracing::warn!(%error, "the watch of Nodes was interrupted"),
        }
    }
}
