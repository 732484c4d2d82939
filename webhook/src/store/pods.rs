//! Store of the pods bound to each node, with their requests and the amounts that their kubelet has set aside: a slim
//! copy that follows the API server.

pub mod bound;
pub mod object;

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use headroom_domain::{capacity::PodDemand, resource::PerResource};

pub use self::bound::{BoundPod, NodePods};
use self::object::WatchedPod;
use crate::store::{
    changes::{Changes, Urgency},
    informer::{Store, version},
};

/// Maximum number of nodes without pods for which the time of the last departure is kept. Every user who may create
/// pods may name nodes that do not exist.
const MOST_VACANT: usize = 4096;

/// The pods of all nodes.
#[derive(Debug)]
pub struct Pods {
    changes: Arc<Changes>,
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
    listing: PodListing,
}

impl Pods {
    /// Empty store; changes are announced to the followers of the node.
    pub fn new(changes: Arc<Changes>) -> Self {
        Self {
            changes,
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

    /// Demand of a node's pods compared with the stored values; `None` while not all pods are known. `is_told` is
    /// true if its kubelet reports reservations in pod statuses.
    pub fn pod_demand(
        &self,
        node: &str,
        stored: PerResource<Option<u64>>,
        is_told: bool,
    ) -> Option<PerResource<PodDemand>> {
        let state = self.read();
        state.has_synced.then(|| {
            state
                .listing
                .with_node(node, |bound| bound.demand(stored, is_told))
        })
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
        let urgency = self.write().listing.set(object, pod);
        if let (Some(urgency), Some(node)) = (urgency, &object.spec.node_name) {
            self.changes.notify(node, urgency);
        }
    }
}

impl Store for Pods {
    type Object = WatchedPod;
    type Listing = PodListing;

    fn list(listing: &mut PodListing, object: WatchedPod) {
        listing.set(&object, BoundPod::from_object(&object));
    }

    fn replace(&self, listing: PodListing) {
        let mut rung = Vec::new();
        {
            let PodsState {
                has_synced,
                listing: held,
            } = &mut *self.write();
            let mut before = std::mem::replace(held, listing);
            held.generation = held.generation.max(before.generation);
            let generation = held.generation;
            for (node, bound) in &mut held.nodes {
                let known = before.nodes.remove(node).unwrap_or_default();
                if !known.is_as(bound) {
                    rung.push(node.clone());
                }
                // The last of the missed changes is unknown.
                bound.changed_at = if known.asks_as(bound) {
                    known.changed_at
                } else {
                    generation
                };
            }
            held.forgotten_at = before.forgotten_at;
            for (node, gone) in before.nodes {
                if gone.pods.is_empty() {
                    held.forgotten_at = held.forgotten_at.max(gone.changed_at);
                } else {
                    held.nodes.insert(node.clone(), NodePods::emptied(generation));
                    rung.push(node);
                }
            }
            held.forget_vacant();
            *has_synced = true;
        }
        for node in rung {
            self.changes.notify(&node, Urgency::AtOnce);
        }
    }

    fn apply(&self, object: WatchedPod) {
        self.update(&object, BoundPod::from_object(&object));
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
    fn set(&mut self, object: &WatchedPod, pod: Option<BoundPod>) -> Option<Urgency> {
        let version = version(object);
        self.generation = self.generation.max(version);
        let node = object.spec.node_name.as_deref()?;
        if pod.is_none() && !self.nodes.contains_key(node) {
            return None;
        }
        let forgotten_at = self.forgotten_at;
        let mut was_vacant = true;
        let bound = self.nodes.entry(node.into()).or_insert_with(|| {
            was_vacant = false;
            NodePods::emptied(forgotten_at)
        });
        was_vacant &= bound.pods.is_empty();
        let urgency = bound.set(object, pod);
        let is_vacant = bound.pods.is_empty();
        self.vacant = self.vacant + usize::from(is_vacant) - usize::from(was_vacant);
        if self.vacant > MOST_VACANT {
            self.forget_vacant();
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
    fn forget_vacant(&mut self) {
        let vacant = || self.nodes.values().filter(|bound| bound.pods.is_empty());
        self.vacant = vacant().count();
        if self.vacant > MOST_VACANT {
            let last = vacant().map(|bound| bound.changed_at).max().unwrap_or_default();
            self.forgotten_at = self.forgotten_at.max(last);
            self.nodes.retain(|_, bound| !bound.pods.is_empty());
            self.vacant = 0;
        }
    }
}

#[cfg(test)]
mod tests;
