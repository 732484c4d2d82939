//! [`QuotaMembers`]: which pods that have not ended name a quota in their label, and which pods have ended.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use headroom_domain::names;
use headroom_rules::quota::BoundPods;

use crate::store::{lookup::PodKeys, pods::object::WatchedPod};

type MemberKey = (Box<str>, Box<str>);

/// Pods by the quota that they name.
#[derive(Debug, Default)]
pub(super) struct QuotaMembers {
    /// By the name of the quota; ended ones are in no set.
    labelled: HashMap<Box<str>, BTreeSet<MemberKey>>,
    /// The quota that each of these names.
    quotas: HashMap<MemberKey, Box<str>>,
    ended: HashSet<MemberKey>,
}

impl QuotaMembers {
    /// Records a pod as it is now.
    pub(super) fn insert(&mut self, namespace: &str, name: &str, object: &WatchedPod) {
        self.remove(namespace, name);
        let key: MemberKey = (namespace.into(), name.into());
        let phase = object.status.phase.as_deref();
        if matches!(phase, Some("Succeeded" | "Failed")) {
            self.ended.insert(key);
            return;
        }
        let labels = object.metadata.labels.as_ref();
        let quota = labels.and_then(|labels| labels.get(names::QUOTA_NAME));
        if let Some(quota) = quota.filter(|quota| !quota.is_empty()) {
            self.quotas.insert(key.clone(), quota.as_str().into());
            self.labelled
                .entry(quota.as_str().into())
                .or_default()
                .insert(key);
        }
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str) {
        let key: MemberKey = (namespace.into(), name.into());
        self.ended.remove(&key);
        let Some(quota) = self.quotas.remove(&key) else {
            return;
        };
        if let Some(pods) = self.labelled.get_mut(&quota) {
            pods.remove(&key);
            if pods.is_empty() {
                self.labelled.remove(&quota);
            }
        }
    }

    /// Adds those that name the quota.
    pub(super) fn add_labelled(&self, quota: &str, bound: &mut BoundPods) {
        if let Some(pods) = self.labelled.get(quota) {
            bound.add(pods.len(), pods.iter().map(|(_, name)| &**name));
        }
    }

    /// Adds those of a namespace that name none.
    pub(super) fn add_unlabelled<'p>(
        &self,
        namespace: &str,
        pods: impl Iterator<Item = (&'p Box<str>, &'p Arc<PodKeys>)>,
        bound: &mut BoundPods,
    ) {
        for (name, keys) in pods {
            let quota = keys.labels.get(names::QUOTA_NAME).map(String::as_str);
            let is_bound = quota.unwrap_or_default().is_empty();
            if is_bound && !self.ended.contains(&(namespace.into(), name.clone())) {
                bound.add(1, [&**name].into_iter());
            }
        }
    }
}
