//! Store of the pods bound to each node, with their requests and the amounts that their kubelet has set aside: a slim
//! copy that follows the API server.

pub mod bound;
mod controller;
mod hashed;
pub mod object;
mod owner;
mod template;

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

use headroom_domain::{
    capacity::{PlaceSums, PodDemand},
    resource::{PerResource, Resource},
};

pub use self::bound::{BoundPod, NodePods};
use self::object::WatchedPod;
use crate::store::{
    changes::{Changes, Urgency},
    clock::Clock,
    informer::{Store, version},
};

/// Maximum number of nodes without pods for which the time of the last departure is kept. Every user who may create
/// pods may name nodes that do not exist.
const MOST_VACANT: usize = 4096;

/// The pods of all nodes.
#[derive(Debug)]
pub struct Pods {
    changes: Arc<Changes>,
    /// Clock by which places close.
    clock: Arc<Clock>,
    state: RwLock<PodsState>,
}

/// A list of pods that is being received, or the state it becomes.
#[derive(Debug, Default)]
pub struct PodListing {
    generation: u64,
    nodes: HashMap<Box<str>, NodePods>,
    /// Number of nodes without pods.
    vacant: usize,
    /// The generation of the last change of any node that is not kept, as it has no pods.
    forgotten_at: u64,
}

#[derive(Debug, Default)]
struct PodsState {
    has_synced: bool,
    /// True once all pods were listed, if not known any more.
    was_listed: bool,
    listing: PodListing,
}

impl Pods {
    /// Empty store; changes are announced to the followers of the node.
    pub fn new(changes: Arc<Changes>, clock: Arc<Clock>) -> Self {
        Self {
            changes,
            clock,
            state: RwLock::default(),
        }
    }

    /// True while all pods are known: they were listed, and the watch is healthy.
    pub fn has_synced(&self) -> bool {
        self.read().has_synced
    }

    /// The highest resource version seen. Rises with every change of any pod.
    pub fn generation(&self) -> u64 {
        self.read().listing.generation
    }

    /// Demand of a node's pods compared with the stored values; `None` while not all pods are known, or one of the node
    /// cannot be read. `is_told` is true if its kubelet reports reservations in pod statuses.
    pub fn pod_demand(
        &self,
        node: &str,
        stored: PerResource<Option<u64>>,
        is_told: bool,
    ) -> Option<PerResource<PodDemand>> {
        let state = self.read();
        let demand = |bound: &NodePods| {
            let is_readable = bound.is_readable();
            is_readable.then(|| bound.demand(stored, is_told, self.clock.now()))
        };
        state
            .has_synced
            .then(|| state.listing.with_node(node, demand))
            .flatten()
    }

    /// Opens the places that another replica recorded on a Node that this replica sees for the first time.
    pub fn inherit_places(&self, node: &str, recorded: &PerResource<PlaceSums>) {
        if Resource::ALL
            .into_iter()
            .all(|resource| recorded.get(resource).is_empty())
        {
            return;
        }
        let listing = &mut self.write().listing;
        let forgotten_at = listing.forgotten_at;
        let bound = listing
            .nodes
            .entry(node.into())
            .or_insert_with(|| NodePods::emptied(forgotten_at));
        bound.places.inherit(recorded, self.clock.now());
        listing.count_vacant();
    }

    /// Time until a place on a node closes.
    pub fn place_closes_in(&self, node: &str) -> Option<Duration> {
        let now = self.clock.now();
        let closes_at = self.with_node(node, |bound| bound.places.next_close(now))?;
        Some(closes_at.saturating_sub(now))
    }

    /// The generation and the pods of a node; `None` while not all pods are known.
    pub fn on(&self, node: &str) -> Option<(u64, NodePods)> {
        let state = self.read();
        let bound = || state.listing.with_node(node, NodePods::clone);
        state.has_synced.then(|| (state.listing.generation, bound()))
    }

    /// The generation of the last change of a node's pods, 0 if none was seen. Of a node without pods it may be that of a
    /// later change of another one without pods.
    pub fn changed_at(&self, node: &str) -> u64 {
        self.with_node(node, |bound| bound.changed_at)
    }

    /// Reads the known pods of a node.
    pub fn with_node<T>(&self, node: &str, with_bound: impl FnOnce(&NodePods) -> T) -> T {
        self.read().listing.with_node(node, with_bound)
    }

    fn read(&self) -> RwLockReadGuard<'_, PodsState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, PodsState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, object: &WatchedPod, pod: Option<BoundPod>) {
        let now = self.clock.now();
        let urgency = self.write().listing.set(object, pod, now);
        if let (Some(urgency), Some(node)) = (urgency, &object.spec.node_name) {
            self.changes.notify(node, urgency);
        }
    }
}

impl Store for Pods {
    type Object = WatchedPod;
    type Listing = PodListing;

    fn list(listing: &mut PodListing, object: WatchedPod) {
        listing.set(&object, BoundPod::from_object(&object), Duration::ZERO);
    }

    fn list_unreadable(&self, listing: &mut PodListing, object: WatchedPod) {
        listing.set_unreadable(&object, Some(&self.read().listing), Duration::ZERO);
    }

    fn replace(&self, listing: PodListing) {
        let mut rung = Vec::new();
        let now = self.clock.now();
        {
            let PodsState {
                has_synced,
                was_listed,
                listing: held,
            } = &mut *self.write();
            let mut before = std::mem::replace(held, listing);
            held.generation = held.generation.max(before.generation);
            let generation = held.generation;
            for (node, bound) in &mut held.nodes {
                let known = before.nodes.remove(node).unwrap_or_default();
                // The last of the missed changes is unknown.
                bound.changed_at = if known.asks_as(bound) {
                    known.changed_at
                } else {
                    generation
                };
                if bound.resume(&known, !*was_listed, now) {
                    rung.push(node.clone());
                }
            }
            held.forgotten_at = before.forgotten_at;
            for (node, gone) in before.nodes {
                let had_pods = !gone.is_empty();
                let mut emptied = NodePods::emptied(if had_pods { generation } else { gone.changed_at });
                if emptied.resume(&gone, !*was_listed, now) {
                    rung.push(node.clone());
                }
                if had_pods || !emptied.places.is_empty() {
                    held.nodes.insert(node, emptied);
                } else {
                    held.forgotten_at = held.forgotten_at.max(gone.changed_at);
                }
            }
            held.count_vacant();
            (*has_synced, *was_listed) = (true, true);
        }
        for node in rung {
            self.changes.notify(&node, Urgency::AtOnce);
        }
    }

    fn apply(&self, object: WatchedPod) {
        self.update(&object, BoundPod::from_object(&object));
    }

    fn apply_unreadable(&self, object: WatchedPod) {
        let now = self.clock.now();
        let urgency = self.write().listing.set_unreadable(&object, None, now);
        if let (Some(urgency), Some(node)) = (urgency, &object.spec.node_name) {
            self.changes.notify(node, urgency);
        }
    }

    fn delete(&self, object: WatchedPod) {
        self.update(&object, None);
    }

    fn set_known(&self, is_known: bool) {
        self.write().has_synced = is_known;
        self.changes.ring_all(Urgency::Usual);
    }
}

impl PodListing {
    /// Records a pod's present amounts; returns the urgency of a new decision if they changed its node's pods.
    fn set(&mut self, object: &WatchedPod, pod: Option<BoundPod>, now: Duration) -> Option<Urgency> {
        let node = object.spec.node_name.as_deref();
        let is_absent = || node.is_none_or(|node| !self.nodes.contains_key(node));
        if pod.is_none() && is_absent() {
            self.generation = self.generation.max(version(object));
            return None;
        }
        self.change(object, |bound| bound.set(object, pod, now))
    }

    /// Records a pod that cannot be read. Its last readable state is that in `before`, or here.
    fn set_unreadable(
        &mut self,
        object: &WatchedPod,
        before: Option<&Self>,
        now: Duration,
    ) -> Option<Urgency> {
        let has_ended = matches!(object.status.phase.as_deref(), Some("Succeeded" | "Failed"));
        if has_ended {
            return self.set(object, None, now);
        }
        let node = object.spec.node_name.as_deref();
        let before = before.and_then(|before| before.nodes.get(node?));
        self.change(object, |bound| bound.set_unreadable(object, before))
    }

    /// Changes the pods of the node that the object names.
    fn change(
        &mut self,
        object: &WatchedPod,
        change: impl FnOnce(&mut NodePods) -> Option<Urgency>,
    ) -> Option<Urgency> {
        self.generation = self.generation.max(version(object));
        let node = object.spec.node_name.as_deref()?;
        let forgotten_at = self.forgotten_at;
        let mut was_vacant = true;
        let bound = self.nodes.entry(node.into()).or_insert_with(|| {
            was_vacant = false;
            NodePods::emptied(forgotten_at)
        });
        was_vacant &= bound.is_empty();
        let urgency = change(bound);
        let is_vacant = bound.is_empty();
        self.vacant = self.vacant + usize::from(is_vacant) - usize::from(was_vacant);
        if self.vacant > MOST_VACANT {
            self.count_vacant();
        }
        urgency
    }

    fn with_node<T>(&self, node: &str, with_bound: impl FnOnce(&NodePods) -> T) -> T {
        match self.nodes.get(node) {
            Some(bound) => with_bound(bound),
            None => with_bound(&NodePods::emptied(self.forgotten_at)),
        }
    }

    /// Counts the nodes without pods, and forgets them if there are too many.
    fn count_vacant(&mut self) {
        let vacant = || self.nodes.values().filter(|bound| bound.is_empty());
        self.vacant = vacant().count();
        if self.vacant > MOST_VACANT {
            let last = vacant().map(|bound| bound.changed_at).max().unwrap_or_default();
            self.forgotten_at = self.forgotten_at.max(last);
            self.nodes.retain(|_, bound| !bound.is_empty());
            self.vacant = 0;
        }
    }
}

#[cfg(test)]
mod tests;
