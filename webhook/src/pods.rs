//! The pods bound to each node and what they ask for: a slim copy that follows the API server.

pub mod object;
pub mod request;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use headroom_domain::resource::PerResource;
use headroom_proto::v1alpha1::Qos;

use self::object::Object;
use crate::{
    changes::{Changes, Urgency},
    endpoint::Access,
    informer::{Store, version},
};

/// API access that following pods needs.
pub static ACCESS: &[Access] = &[Access::watch("", "pods")];

/// On a mirror pod: the UID that its static pod, and so its cgroup, has on the node.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// One pod that is bound and has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pod {
    /// What the scheduler counts for it, in milli-cores and bytes.
    pub requests: PerResource<u64>,
    /// Its quality of service class.
    pub qos: Qos,
    /// True once it has a deletion timestamp.
    pub is_deleting: bool,
}

/// The pods of one node. They count until they have ended, also while they are being deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bound {
    /// The pods by UID, as their cgroups on the node are named.
    pub pods: BTreeMap<Box<str>, Pod>,
    /// The generation of the last change of `pods`.
    pub changed_at: u64,
}

/// The pods of all nodes.
#[derive(Debug)]
pub struct Pods {
    changes: Arc<Changes>,
    state: RwLock<State>,
}

/// A list of pods that is being received, or the state it becomes.
#[derive(Debug, Default)]
pub struct Listing {
    generation: u64,
    nodes: HashMap<Box<str>, Bound>,
}

#[derive(Debug, Default)]
struct State {
    has_synced: bool,
    held: Listing,
}

impl Bound {
    /// The requests together.
    pub fn sum(&self) -> PerResource<u64> {
        let mut sum = PerResource::<u64>::default();
        for Pod {
            requests,
            qos: _,
            is_deleting: _,
        } in self.pods.values()
        {
            sum.cpu = sum.cpu.saturating_add(requests.cpu);
            sum.memory = sum.memory.saturating_add(requests.memory);
        }
        sum
    }
}

impl Pods {
    /// No pods yet; changes are told to those who follow the node.
    pub fn new(changes: Arc<Changes>) -> Self {
        Self {
            changes,
            state: RwLock::default(),
        }
    }

    /// True while all pods are known: the API server has told about them, and goes on to.
    pub fn has_synced(&self) -> bool {
        self.read().has_synced
    }

    /// The highest resource version seen. Rises with every change of any pod.
    pub fn generation(&self) -> u64 {
        self.read().held.generation
    }

    /// The requests bound to a node, in milli-cores and bytes; `None` while not all pods are known.
    pub fn bound(&self, node: &str) -> Option<PerResource<u64>> {
        let state = self.read();
        state
            .has_synced
            .then(|| state.held.nodes.get(node).map(Bound::sum).unwrap_or_default())
    }

    /// The generation and the pods of a node; `None` while not all pods are known.
    pub fn on(&self, node: &str) -> Option<(u64, Bound)> {
        let state = self.read();
        let bound = || state.held.nodes.get(node).cloned().unwrap_or_default();
        state.has_synced.then(|| (state.held.generation, bound()))
    }

    /// The generation of the last change of a node's pods, 0 if none was seen.
    pub fn changed_at(&self, node: &str) -> u64 {
        self.look(node, |bound| bound.changed_at)
    }

    /// Looks at the pods of a node, as far as they are known.
    pub fn look<T>(&self, node: &str, look: impl FnOnce(&Bound) -> T) -> T {
        let nobody = Bound::default();
        look(self.read().held.nodes.get(node).unwrap_or(&nobody))
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, object: &Object, pod: Option<Pod>) {
        let urgency = self.write().held.set(object, pod);
        if let (Some(urgency), Some(node)) = (urgency, &object.spec.node_name) {
            self.changes.ring(node, urgency);
        }
    }
}

impl Store for Pods {
    type Object = Object;
    type Listing = Listing;
    const RESOURCE: &'static str = "pods";

    fn list(listing: &mut Listing, object: Object) {
        listing.set(&object, counted(&object));
    }

    fn replace(&self, listing: Listing) {
        let mut rung = Vec::new();
        {
            let State { has_synced, held } = &mut *self.write();
            let mut before = std::mem::replace(held, listing);
            held.generation = held.generation.max(before.generation);
            let generation = held.generation;
            for (node, bound) in &mut held.nodes {
                let Bound { pods, changed_at } = before.nodes.remove(node).unwrap_or_default();
                if pods == bound.pods {
                    bound.changed_at = changed_at;
                } else {
                    // Which of the changes that were missed came last is not known.
                    bound.changed_at = generation;
                    rung.push(node.clone());
                }
            }
            for (node, _gone) in before
                .nodes
                .into_iter()
                .filter(|(_, bound)| !bound.pods.is_empty())
            {
                held.nodes.insert(
                    node.clone(),
                    Bound {
                        pods: BTreeMap::new(),
                        changed_at: generation,
                    },
                );
                rung.push(node);
            }
            *has_synced = true;
        }
        for node in rung {
            self.changes.ring(&node, Urgency::AtOnce);
        }
    }

    fn apply(&self, object: Object) {
        self.take(&object, counted(&object));
    }

    fn delete(&self, object: Object) {
        self.take(&object, None);
    }

    fn set_known(&self, is_known: bool) {
        self.write().has_synced = is_known;
        self.changes.ring_all(Urgency::Usual);
    }
}

impl Listing {
    /// Takes what a pod counts for now; says how soon to look if that changed its node's pods.
    fn set(&mut self, object: &Object, pod: Option<Pod>) -> Option<Urgency> {
        let version = version(object);
        self.generation = self.generation.max(version);
        let (node, uid) = (object.spec.node_name.as_deref()?, uid(object)?);
        if pod.is_none() && !self.nodes.contains_key(node) {
            return None;
        }
        let Bound { pods, changed_at } = self.nodes.entry(node.into()).or_default();
        let before = match pod {
            Some(pod) => pods.insert(uid.into(), pod),
            None => pods.remove(uid),
        };
        if before == pod {
            return None;
        }
        *changed_at = version;
        let is_leaving = pod.is_none_or(|pod| pod.is_deleting);
        Some(if is_leaving {
            Urgency::AtOnce
        } else {
            Urgency::Usual
        })
    }
}

/// What a pod counts for; `None` if it has ended.
fn counted(object: &Object) -> Option<Pod> {
    let has_ended = matches!(object.status.phase.as_deref(), Some("Succeeded" | "Failed"));
    (!has_ended).then(|| Pod {
        requests: request::requests(object),
        qos: match object.status.qos_class.as_deref() {
            Some("Guaranteed") => Qos::Guaranteed,
            Some("Burstable") => Qos::Burstable,
            Some("BestEffort") => Qos::BestEffort,
            Some(_) | None => Qos::Unspecified,
        },
        is_deleting: object.metadata.deletion_timestamp.is_some(),
    })
}

/// The UID under which the node knows the pod.
fn uid(object: &Object) -> Option<&str> {
    let mirror = object
        .metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(MIRROR));
    mirror.or(object.metadata.uid.as_ref()).map(String::as_str)
}

#[cfg(test)]
mod tests;
