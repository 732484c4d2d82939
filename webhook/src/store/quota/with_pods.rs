//! [`QuotasWithPods`]: the quotas and the pods that belong to them, as rules ask for both.

use std::{collections::BTreeSet, sync::Arc};

use headroom_rules::quota::{BoundPods, Quota, QuotaKey, QuotaTree};

use super::{
    derived::Reader,
    index::{IndexState, QuotaIndex},
};
use crate::store::{
    colocation::pods::PodsByName,
    lookup::{Decide, QuotaLookup},
    pending_admissions::PendingAdmission,
};

/// The quotas, and all pods.
#[derive(Debug, Clone)]
pub struct QuotasWithPods {
    pub index: Arc<QuotaIndex>,
    pub pods: Arc<PodsByName>,
}

/// The quotas as pods belong to them: without changes by unverified callers.
#[derive(Debug, Clone)]
pub struct QuotasOfPods(pub Arc<QuotasWithPods>);

struct Snapshot<'s> {
    state: &'s IndexState,
    pods: &'s PodsByName,
    reader: Reader,
}

impl QuotasWithPods {
    fn visit(&self, reader: Reader, visit: &mut dyn FnMut(&dyn QuotaTree)) {
        let state = self.index.read();
        visit(&Snapshot {
            state: &state,
            pods: &self.pods,
            reader,
        });
    }
}

impl QuotaLookup for QuotasOfPods {
    fn visit_tree(&self, visit: &mut dyn FnMut(&dyn QuotaTree)) {
        self.0.visit(Reader::Pod, visit);
    }

    fn decide(&self, decide: &mut Decide<'_>) -> Option<Box<dyn PendingAdmission>> {
        self.0.decide(decide)
    }

    fn noted_use(&self, key: &QuotaKey) -> Box<str> {
        self.0.noted_use(key)
    }
}

impl QuotaLookup for QuotasWithPods {
    fn visit_tree(&self, visit: &mut dyn FnMut(&dyn QuotaTree)) {
        self.visit(Reader::Quota, visit);
    }

    fn decide(&self, decide: &mut Decide<'_>) -> Option<Box<dyn PendingAdmission>> {
        let mut state = self.index.write();
        let (key, admitted) = decide(&Snapshot {
            state: &state,
            pods: &self.pods,
            reader: Reader::Quota,
        })?;
        self.index.admit(&mut state, key, admitted)
    }

    fn noted_use(&self, key: &QuotaKey) -> Box<str> {
        self.index.noted_use(key)
    }
}

impl QuotaTree for Snapshot<'_> {
    fn by_name(&self, name: &str) -> Option<Arc<Quota>> {
        self.state.derived.by_name(name, self.reader).map(Arc::clone)
    }

    fn count_named(&self, name: &str) -> usize {
        self.state.derived.count_named(name, self.reader)
    }

    fn get(&self, namespace: &str, name: &str) -> Option<Arc<Quota>> {
        self.state
            .derived
            .get(&(namespace.into(), name.into()), self.reader)
            .map(Arc::clone)
    }

    fn visit_children(&self, parent: &str, visit: &mut dyn FnMut(&Quota)) {
        let children = self.state.derived.children(parent, self.reader);
        children.for_each(|child| visit(child));
    }

    fn owner(&self, namespace: &str) -> Option<Arc<Quota>> {
        self.state.derived.owner(namespace, self.reader).map(Arc::clone)
    }

    fn is_leaving(&self, quota: &Quota) -> bool {
        // One that took the place of one that is going may be refused because that is still there.
        let is_going = quota.versions().any(|version| version.is_going);
        is_going || self.state.is_removal_claimed(&quota.key(), self.reader)
    }

    /// A pod belongs to the quota that its label names; without a label, to the one that has namespace and name of its
    /// namespace, or else to the one that lists it.
    fn bound_pods(&self, quota: &Quota) -> BoundPods {
        let is_like_named = |namespace: &str| self.get(namespace, namespace).is_some();
        let own = (quota.namespace == quota.name).then_some(&quota.name);
        let listed = quota.namespaces.iter().filter(|namespace| {
            !is_like_named(namespace) && self.owner(namespace).is_none_or(|owner| owner.is_same(quota))
        });
        // A list may name one twice.
        let namespaces: BTreeSet<&str> = own.into_iter().chain(listed).map(|name| &**name).collect();
        let namespaces: Vec<&str> = namespaces.into_iter().collect();
        self.pods.bound_to(&quota.name, &namespaces)
    }
}
