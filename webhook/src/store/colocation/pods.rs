//! Store of all pods by namespace and name, bound or not, with their labels and annotations. It stays empty and costs
//! nothing until a step needs it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use headroom_rules::quota::BoundPods;
use tokio::sync::{Notify, watch};

use super::{pod_keys::pod_keys, quota_members::QuotaMembers};
use crate::store::{
    arrivals::Arrivals,
    lookup::{PodKeys, PodLookup},
    pods::object::WatchedPod,
};

/// All pods by namespace and name.
#[derive(Debug)]
pub struct PodsByName {
    arrivals: Arrivals,
    state: RwLock<ByNameState>,
    is_known: watch::Sender<bool>,
    /// Notified when the store is wanted from now on: pods that are known already are not in it.
    wanted: Notify,
}

/// Pods by namespace and name, as they come in a list, or as they are.
#[derive(Debug, Default)]
pub struct ByNameListing {
    namespaces: HashMap<Box<str>, HashMap<Box<str>, Arc<PodKeys>>>,
    /// Each set of labels and annotations once, with the number of pods that have it.
    shared: HashMap<Arc<PodKeys>, usize>,
    members: QuotaMembers,
    configured_keys: Arc<BTreeSet<String>>,
}

#[derive(Debug, Default)]
struct ByNameState {
    is_wanted: bool,
    /// Keys of labels and annotations that the configuration names, so that rules read them.
    configured_keys: Arc<BTreeSet<String>>,
    /// True once a list began of which this store gets nothing.
    has_missed: bool,
    /// True while the watch counts.
    is_followed: bool,
    /// `None` until a whole list was received.
    pods: Option<ByNameListing>,
}

impl PodsByName {
    /// Empty store; new pods are announced to `arrivals`.
    pub fn new(arrivals: Arrivals) -> Self {
        Self {
            arrivals,
            state: RwLock::default(),
            is_known: watch::Sender::new(false),
            wanted: Notify::new(),
        }
    }

    /// Also keeps labels and annotations with these keys, from the next list on. Those of Koordinator's domain and ours
    /// are always kept.
    pub fn keep_keys(&self, keys: BTreeSet<String>) {
        self.write().configured_keys = Arc::new(keys);
    }

    /// Fills the store, if it was not wanted before. The receiver is true while all pods are known.
    pub fn want(&self) -> watch::Receiver<bool> {
        let mut state = self.write();
        let was_wanted = std::mem::replace(&mut state.is_wanted, true);
        if !was_wanted && state.has_missed {
            self.wanted.notify_one();
        }
        self.is_known.subscribe()
    }

    /// Empties the store, which is not wanted any more.
    pub fn close(&self) {
        let mut state = self.write();
        (state.is_wanted, state.has_missed, state.pods) = (false, true, None);
        drop(state);
        self.publish();
    }

    pub fn len(&self) -> usize {
        let state = self.read();
        let namespaces = state.pods.iter().flat_map(|pods| pods.namespaces.values());
        namespaces.map(HashMap::len).sum()
    }

    /// True if there are none, or none are known.
    pub fn is_empty(&self) -> bool {
        let state = self.read();
        state.pods.as_ref().is_none_or(|pods| pods.namespaces.is_empty())
    }

    /// The pods that have not ended, and whose label names this quota, or that have no such label and are in one of these
    /// namespaces.
    pub fn bound_to(&self, quota: &str, namespaces: &[&str]) -> BoundPods {
        let state = self.read();
        let mut bound = BoundPods::default();
        if let Some(pods) = &state.pods {
            pods.members.add_labelled(quota, &mut bound);
            for namespace in namespaces {
                let members = pods.namespaces.get(*namespace).into_iter().flatten();
                pods.members.add_unlabelled(namespace, members, &mut bound);
            }
        }
        bound
    }

    /// Notified when all pods must be listed again, because this store contains none of them.
    pub(super) fn wanted(&self) -> &Notify {
        &self.wanted
    }

    /// A list that begins; `None` while the store is not wanted.
    pub(crate) fn listing(&self) -> Option<ByNameListing> {
        let mut state = self.write();
        state.has_missed |= !state.is_wanted;
        state.is_wanted.then(|| ByNameListing {
            configured_keys: Arc::clone(&state.configured_keys),
            ..ByNameListing::default()
        })
    }

    /// Replaces the content by a complete list. A list that began before the store was wanted is ignored, and so is a
    /// list that is no longer wanted.
    pub(super) fn replace(&self, listing: Option<ByNameListing>) {
        let Some(listing) = listing else { return };
        {
            let mut state = self.write();
            if !state.is_wanted {
                return;
            }
            state.pods = Some(listing);
        }
        self.publish();
        self.arrivals.notify();
    }

    /// Applies a new or changed pod.
    pub(super) fn apply(&self, object: &WatchedPod) {
        let is_new = {
            let mut state = self.write();
            let is_wanted = state.is_wanted;
            let pods = state.pods.as_mut().filter(|_| is_wanted);
            pods.is_some_and(|pods| pods.insert(object))
        };
        if is_new {
            self.arrivals.notify();
        }
    }

    pub(super) fn delete(&self, object: &WatchedPod) {
        if let Some(pods) = &mut self.write().pods {
            pods.remove(object);
        }
    }

    /// Records whether the watch of pods counts.
    pub(super) fn set_known(&self, is_followed: bool) {
        self.write().is_followed = is_followed;
        self.publish();
    }

    fn publish(&self) {
        let state = self.read();
        let is_known = state.is_followed && state.pods.is_some();
        self.is_known
            .send_if_modified(|before| std::mem::replace(before, is_known) != is_known);
    }

    fn read(&self) -> RwLockReadGuard<'_, ByNameState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, ByNameState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PodLookup for PodsByName {
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<PodKeys>> {
        let state = self.read();
        state
            .pods
            .as_ref()?
            .namespaces
            .get(namespace)?
            .get(name)
            .map(Arc::clone)
    }
}

impl ByNameListing {
    /// Records a pod as it is now; true if there was none of its name.
    pub(super) fn insert(&mut self, object: &WatchedPod) -> bool {
        let Some((namespace, name)) = key(object) else {
            return false;
        };
        self.members.insert(namespace, name, object);
        let keys = self.share(pod_keys(&object.metadata, &self.configured_keys));
        let pods = match self.namespaces.get_mut(namespace) {
            Some(pods) => pods,
            None => self.namespaces.entry(namespace.into()).or_default(),
        };
        let before = match pods.get_mut(name) {
            Some(pod) => Some(std::mem::replace(pod, keys)),
            None => pods.insert(name.into(), keys),
        };
        let is_new = before.is_none();
        self.release(before);
        is_new
    }

    fn remove(&mut self, object: &WatchedPod) {
        let Some((namespace, name)) = key(object) else {
            return;
        };
        let Some(pods) = self.namespaces.get_mut(namespace) else {
            return;
        };
        self.members.remove(namespace, name);
        let before = pods.remove(name);
        if pods.is_empty() {
            self.namespaces.remove(namespace);
        }
        self.release(before);
    }

    fn share(&mut self, keys: PodKeys) -> Arc<PodKeys> {
        let shared = self
            .shared
            .get_key_value(&keys)
            .map(|(shared, _)| Arc::clone(shared));
        let keys = shared.unwrap_or_else(|| Arc::new(keys));
        let pods = self.shared.entry(Arc::clone(&keys)).or_default();
        *pods = pods.saturating_add(1);
        keys
    }

    /// Counts one pod less; drops keys without a pod.
    fn release(&mut self, keys: Option<Arc<PodKeys>>) {
        let Some(keys) = keys else { return };
        if let Some(pods) = self.shared.get_mut(&keys) {
            *pods = pods.saturating_sub(1);
            if *pods == 0 {
                self.shared.remove(&keys);
            }
        }
    }
}

fn key(object: &WatchedPod) -> Option<(&str, &str)> {
    let metadata = &object.metadata;
    metadata.namespace.as_deref().zip(metadata.name.as_deref())
}

#[cfg(test)]
mod tests;
