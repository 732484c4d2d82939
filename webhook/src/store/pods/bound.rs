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

/// Annotation of a mirror pod: the UID of its static pod, and so of its cgroup, on the node. Every user who may
/// create pods may write it.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";

/// One pod that is bound and has not ended. Amounts are milli-cores and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundPod {
    /// Requests as the scheduler counts them.
    pub requests: PerResource<u64>,
    /// Requests for which the kubelet has reported a reservation.
    pub allocated: PerResource<u64>,
    /// The reservation, or the pod's requests if the kubelet reports none.
    pub expected: PerResource<u64>,
    /// Creation time in seconds since 1970.
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
    pub pods: BTreeMap<Box<str>, BoundPod>,
    /// By UID, the other UID that an admitted pod claims to run under.
    static_uids: BTreeMap<Box<str>, Box<str>>,
    /// Generation of the last change of the pods' requests.
    pub changed_at: u64,
}

impl BoundPod {
    /// Amounts that a pod counts for; `None` if it has ended.
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

    /// True if the directive to the agent is the same for both.
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

    /// Demand of the pods compared with the stored values. `is_told` is true if the kubelet reports its reservations:
    /// no pod then counts as admitted with more than its reservation.
    ///
    /// A pod that waits for its kubelet fits while both resources stay within the stored value, in the order of
    /// creation; a pod that does not fit is skipped, as the kubelet skips it.
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

    /// UID under which the node runs a pod. A mirror pod has the UID of its static pod, by its own annotation: it
    /// counts if it is neither a bound pod's UID nor claimed by another pod.
    pub fn cgroup<'a>(&'a self, uid: &'a str) -> &'a str {
        self.static_uids.get(uid).map_or(uid, |static_uid| {
            let is_taken = self.pods.contains_key(static_uid);
            let mirrors = self.static_uids.values().filter(|other| *other == static_uid);
            if is_taken || mirrors.count() > 1 {
                uid
            } else {
                static_uid
            }
        })
    }

    /// The pod that the node runs under that UID.
    pub fn by_cgroup(&self, cgroup: &str) -> Option<&BoundPod> {
        let claimant = || {
            let static_uids = self
                .static_uids
                .iter()
                .find(|(_, static_uid)| &***static_uid == cgroup);
            static_uids.map(|(uid, _)| &**uid)
        };
        let uid = if self.pods.contains_key(cgroup) {
            cgroup
        } else {
            claimant()?
        };
        self.pods.get(uid).filter(|_| self.cgroup(uid) == cgroup)
    }

    /// Records a pod's present amounts; returns the urgency of a new decision if they changed the node's pods.
    pub(super) fn set(&mut self, object: &WatchedPod, pod: Option<BoundPod>) -> Option<Urgency> {
        let uid = object.metadata.uid.as_deref()?;
        let static_uid = static_uid(object).filter(|_| pod.is_some_and(|pod| pod.is_admitted));
        let previous = match static_uid {
            Some(static_uid) => self.static_uids.insert(uid.into(), static_uid.into()),
            None => self.static_uids.remove(uid),
        };
        let before = match pod {
            Some(pod) => self.pods.insert(uid.into(), pod),
            None => self.pods.remove(uid),
        };
        let is_renamed = previous.as_deref() != static_uid;
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

    /// True if both consist of the same pods.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        (&self.pods, &self.static_uids) == (&other.pods, &other.static_uids)
    }

    /// True if the directive to the agent is the same for both.
    pub(super) fn asks_as(&self, other: &Self) -> bool {
        let pairs = || self.pods.iter().zip(&other.pods);
        self.pods.len() == other.pods.len()
            && self.static_uids == other.static_uids
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
fn static_uid(object: &WatchedPod) -> Option<&str> {
    let static_uid = object.metadata.annotations.as_ref()?.get(MIRROR)?;
    let (name, node) = (
        object.metadata.name.as_deref()?,
        object.spec.node_name.as_deref()?,
    );
    let base = name.strip_suffix(node)?.strip_suffix('-')?;
    (!base.is_empty() && !static_uid.is_empty()).then_some(static_uid)
}
