//! The bound pods of one node: their requests, the amounts set aside for them, and the UIDs of their cgroups.

use std::collections::BTreeMap;

use headroom_domain::{
    capacity::PodDemand,
    pod::{KubernetesQos, RequestBasis, SpecSource, allocated, requests},
    resource::{PerResource, Resource},
};
use headroom_proto::v1alpha1::Qos;

use super::object::WatchedPod;
use crate::store::{changes::Urgency, informer::version};

/// On a mirror pod: the UID that its static pod, and so its cgroup, has on the node. Whoever may create pods may write it.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";

/// One pod that is bound and has not ended. Amounts are milli-cores and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundPod {
    /// What the scheduler counts for it.
    pub requests: PerResource<u64>,
    /// What its kubelet says that it has set aside for it.
    pub allocated: PerResource<u64>,
    /// As above, and what the pod asks for where the kubelet says nothing.
    pub expected: PerResource<u64>,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Its quality of service class.
    pub qos: Qos,
    /// True once it has a deletion timestamp.
    pub is_deleting: bool,
    /// True once its kubelet has let it in: it wrote a state of a container, or a phase beyond `Pending`.
    pub is_admitted: bool,
}

/// The pods of one node. They count until they have ended, also while they are being deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodePods {
    /// The pods by UID.
    pub pods: BTreeMap<Box<str>, BoundPod>,
    /// By UID, the other UID that an admitted pod claims to run under.
    claims: BTreeMap<Box<str>, Box<str>>,
    /// The generation of the last change of what pods ask for.
    pub changed_at: u64,
}

impl BoundPod {
    /// What a pod counts for; `None` if it has ended.
    pub(super) fn from_object(object: &WatchedPod) -> Option<Self> {
        let WatchedPod {
            metadata,
            spec,
            status,
        } = object;
        let phase = status.phase.as_deref();
        if matches!(phase, Some("Succeeded" | "Failed")) {
            return None;
        }
        let has_state = !status.container_statuses.is_empty() || !status.init_container_statuses.is_empty();
        let created = metadata.creation_timestamp.as_ref();
        Some(Self {
            requests: requests(spec, status, RequestBasis::Actual).amounts(),
            allocated: allocated(spec, status, SpecSource::Ignored).amounts(),
            expected: allocated(spec, status, SpecSource::Counts).amounts(),
            created: created.map_or(i64::MAX, |time| time.0.as_second()),
            qos: match status.qos_class.as_deref().and_then(KubernetesQos::from_name) {
                Some(KubernetesQos::Guaranteed) => Qos::Guaranteed,
                Some(KubernetesQos::Burstable) => Qos::Burstable,
                Some(KubernetesQos::BestEffort) => Qos::BestEffort,
                None => Qos::Unspecified,
            },
            is_deleting: metadata.deletion_timestamp.is_some(),
            is_admitted: has_state || phase.is_some_and(|phase| phase != "Pending"),
        })
    }

    /// True if an agent is told the same of both.
    fn asks_as(&self, other: &Self) -> bool {
        (self.requests, self.qos, self.is_deleting) == (other.requests, other.qos, other.is_deleting)
    }
}

impl NodePods {
    /// No pods, since that generation.
    pub(super) fn emptied(changed_at: u64) -> Self {
        Self {
            changed_at,
            ..Self::default()
        }
    }

    /// The requests together, in milli-cores and bytes.
    pub fn sum(&self) -> PerResource<u64> {
        sum(self.pods.values().map(|pod| &pod.requests))
    }

    /// What the pods hold beside what is stored. `is_told` says whether the kubelet tells what it has set aside: then no
    /// pod is counted as admitted with more than that.
    ///
    /// A pod that waits for its kubelet fits while both resources stay within what is stored, by the time at which it was
    /// created; one that does not is passed over, as the kubelet passes it over.
    pub fn demand(&self, stored: PerResource<Option<u64>>, is_told: bool) -> PerResource<PodDemand> {
        let admitted = || self.pods.values().filter(|pod| pod.is_admitted);
        let certain = sum(admitted().map(|pod| if is_told { &pod.allocated } else { &pod.expected }));
        let mut fit = sum(admitted().map(|pod| &pod.expected));
        let mut waiting: Vec<_> = self.pods.iter().filter(|(_, pod)| !pod.is_admitted).collect();
        waiting.sort_by_key(|(uid, pod)| (pod.created, *uid));
        for (_, pod) in waiting {
            let with = sum([&fit, &pod.expected]);
            let fits = |resource: Resource| {
                let is_room = || {
                    stored
                        .get(resource)
                        .is_some_and(|stored| *with.get(resource) <= stored)
                };
                *pod.expected.get(resource) == 0 || is_room()
            };
            if Resource::ALL.into_iter().all(fits) {
                fit = with;
            }
        }
        PerResource::from_fn(|resource| PodDemand {
            admitted: *certain.get(resource),
            fit: *fit.get(resource),
        })
    }

    /// The UID under which the node runs a pod. A mirror pod's is that of its static pod, by its own word: it counts where
    /// it is no bound pod's UID and nobody else's claim.
    pub fn cgroup<'a>(&'a self, uid: &'a str) -> &'a str {
        self.claims.get(uid).map_or(uid, |claim| {
            let is_taken = self.pods.contains_key(claim);
            let claimants = self.claims.values().filter(|other| *other == claim);
            if is_taken || claimants.count() > 1 {
                uid
            } else {
                claim
            }
        })
    }

    /// The pod that the node runs under that UID.
    pub fn by_cgroup(&self, cgroup: &str) -> Option<&BoundPod> {
        let claimant = || {
            let claims = self.claims.iter().find(|(_, claim)| &***claim == cgroup);
            claims.map(|(uid, _)| &**uid)
        };
        let uid = if self.pods.contains_key(cgroup) {
            cgroup
        } else {
            claimant()?
        };
        self.pods.get(uid).filter(|_| self.cgroup(uid) == cgroup)
    }

    /// Records a pod's present amounts; returns how soon to decide anew if they changed the node's pods.
    pub(super) fn set(&mut self, object: &WatchedPod, pod: Option<BoundPod>) -> Option<Urgency> {
        let uid = object.metadata.uid.as_deref()?;
        let claim = claim(object).filter(|_| pod.is_some_and(|pod| pod.is_admitted));
        let claimed = match claim {
            Some(claim) => self.claims.insert(uid.into(), claim.into()),
            None => self.claims.remove(uid),
        };
        let before = match pod {
            Some(pod) => self.pods.insert(uid.into(), pod),
            None => self.pods.remove(uid),
        };
        let is_renamed = claimed.as_deref() != claim;
        if before == pod && !is_renamed {
            return None;
        }
        let asks_as_before = before.zip(pod).is_some_and(|(before, pod)| before.asks_as(&pod));
        if !asks_as_before || is_renamed {
            self.changed_at = version(object);
        }
        let is_leaving = pod.is_none_or(|pod| pod.is_deleting);
        Some(if is_leaving {
            Urgency::AtOnce
        } else {
            Urgency::Usual
        })
    }

    /// True if both are made of the same pods.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        (&self.pods, &self.claims) == (&other.pods, &other.claims)
    }

    /// True if an agent is told the same of both.
    pub(super) fn asks_as(&self, other: &Self) -> bool {
        let pairs = || self.pods.iter().zip(&other.pods);
        self.pods.len() == other.pods.len()
            && self.claims == other.claims
            && pairs().all(|((uid, pod), (other_uid, other))| uid == other_uid && pod.asks_as(other))
    }
}

fn sum<'a>(amounts: impl IntoIterator<Item = &'a PerResource<u64>>) -> PerResource<u64> {
    let mut sum = PerResource::<u64>::default();
    for PerResource { cpu, memory } in amounts {
        sum.cpu = sum.cpu.saturating_add(*cpu);
        sum.memory = sum.memory.saturating_add(*memory);
    }
    sum
}

/// The UID that a pod claims to run under: that of a static pod, whose mirror is named after it and its node.
fn claim(object: &WatchedPod) -> Option<&str> {
    let claim = object.metadata.annotations.as_ref()?.get(MIRROR)?;
    let (name, node) = (
        object.metadata.name.as_deref()?,
        object.spec.node_name.as_deref()?,
    );
    let base = name.strip_suffix(node)?.strip_suffix('-')?;
    (!base.is_empty() && !claim.is_empty()).then_some(claim)
}
