//! The bound pods of one node: their requests, the amounts set aside for them, and the UIDs of their cgroups.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use headroom_domain::{
    capacity::{
        PlaceSums, PodDemand,
        places::{Arrival, LeavingPod, OpenPlaces, PlaceKind},
    },
    names::MIRROR,
    pod::{BEYOND, KubernetesQos, RequestBasis, SpecSource, allocated, requests},
    resource::{PerResource, Resource},
    workload::Workload,
};
use headroom_proto::v1alpha1::Qos;

use super::{object::WatchedPod, owner::PodOwner};
use crate::store::{changes::Urgency, informer::version, metrics::PLACES_OPENED};

/// One pod that is bound and has not ended. Amounts are milli-cores and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundPod {
    /// Requests as the scheduler counts them; zero for an amount above 2⁶³-1, which gains no trust.
    pub requests: PerResource<u64>,
    /// Requests for which the kubelet has reported a reservation, at most those of the spec: others than the kubelet may
    /// write the status.
    pub allocated: PerResource<u64>,
    /// The reservation, or the pod's requests if the kubelet reports none.
    pub expected: PerResource<u64>,
    /// True if the status reports more than the spec requests: a smaller resize is not done yet, or the status is forged.
    pub exceeds_spec: bool,
    /// Creation time in seconds since 1970.
    pub created: i64,
    pub qos: Qos,
    /// True once it has a deletion timestamp.
    pub is_deleting: bool,
    /// True once its kubelet has let it in: it wrote a state of a container, or a phase beyond `Pending`.
    pub is_admitted: bool,
    pub owner: PodOwner,
    /// Ability of a successor to run on another node.
    pub place: PlaceKind,
    /// Its arrival on the node among the openings of places.
    arrival: Arrival,
}

/// The pods of one node. They count until they have ended, also while they are being deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodePods {
    pub pods: BTreeMap<Box<str>, BoundPod>,
    /// UIDs of pods that this replica has never been able to read. Their node's demand is unknown.
    unreadable: BTreeSet<Box<str>>,
    /// By UID, the other UID that an admitted pod claims to run under.
    static_uids: BTreeMap<Box<str>, Box<str>>,
    /// Generation of the last change of the pods' requests.
    pub changed_at: u64,
    /// Places of pods that left.
    pub places: OpenPlaces,
}

impl BoundPod {
    /// Amounts that a pod counts for; `None` if it has ended.
    pub(super) fn from_object(object: &WatchedPod) -> Option<Self> {
        let WatchedPod {
            metadata,
            spec,
            status,
            controller,
        } = object;
        let phase = status.phase.as_deref();
        if matches!(phase, Some("Succeeded" | "Failed")) {
            return None;
        }
        let has_state = !status.container_statuses.is_empty() || !status.init_container_statuses.is_empty();
        let created = metadata.creation_timestamp.as_ref();
        let wanted = requests(spec, status, RequestBasis::Spec).amounts();
        let reported = allocated(spec, status, SpecSource::Ignored).amounts();
        let expected = allocated(spec, status, SpecSource::Counts).amounts();
        let is_above = |resource: &Resource| expected.get(*resource) > wanted.get(*resource);
        Some(Self {
            requests: requests(spec, status, RequestBasis::Actual)
                .amounts()
                .map(|_, amount| if *amount == BEYOND { 0 } else { *amount }),
            allocated: reported.map(|resource, amount| *amount.min(wanted.get(resource))),
            expected,
            exceeds_spec: Resource::ALL.iter().any(is_above),
            created: created.map_or(i64::MAX, |time| time.0.as_second()),
            qos: match status.qos_class.as_deref().and_then(KubernetesQos::from_name) {
                Some(KubernetesQos::Guaranteed) => Qos::Guaranteed,
                Some(KubernetesQos::Burstable) => Qos::Burstable,
                Some(KubernetesQos::BestEffort) => Qos::BestEffort,
                None => Qos::Unspecified,
            },
            is_deleting: metadata.deletion_timestamp.is_some(),
            is_admitted: has_state || phase.is_some_and(|phase| phase != "Pending"),
            owner: PodOwner::new(controller.as_ref(), metadata),
            place: controller
                .as_ref()
                .map_or(PlaceKind::Other, |controller| controller.kind),
            arrival: Arrival::default(),
        })
    }

    /// True if a hint for one holds for the other. Workloads may differ: every user who may label pods may change them at
    /// any rate, and would keep each hint of the node older than its pods.
    fn asks_as(&self, other: &Self) -> bool {
        (self.requests, self.qos, self.is_deleting) == (other.requests, other.qos, other.is_deleting)
    }

    /// Amounts that become free when it leaves: its requests, but at most its reservation. Every user who may resize
    /// pods may raise requests that the kubelet has not accepted.
    fn compute_held(&self) -> PerResource<u64> {
        self.requests
            .map(|resource, amount| *amount.min(self.expected.get(resource)))
    }

    /// Amounts that raise allocatable while it is admitted. A status with more than the spec counts for its reported
    /// part alone, also where the kubelet is older than such reports.
    fn compute_certain(&self, is_told: bool) -> PerResource<u64> {
        let reported = (is_told || self.exceeds_spec).then_some(&self.allocated);
        let amounts = reported.unwrap_or(&self.expected);
        amounts.map(|_, amount| if *amount == BEYOND { 0 } else { *amount })
    }

    /// Uses places that were open before its arrival.
    fn fill(&self, places: &mut OpenPlaces) {
        let controller = self.owner.workload().map(|workload| workload.controller);
        places.fill(controller, &self.expected, self.arrival);
    }

    /// Its workload once its kubelet let it in: only then its departure leaves a place. Every user who may create pods may
    /// bind pods that no kubelet accepts.
    fn admitted_workload(&self) -> Option<Workload> {
        self.owner.workload().filter(|_| self.is_admitted)
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

    /// True if the node has no pods.
    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.unreadable.is_empty()
    }

    /// False while a pod of the node cannot be read and no earlier state of it is known.
    pub(super) fn is_readable(&self) -> bool {
        self.unreadable.is_empty()
    }

    /// Records a pod that cannot be read; returns the urgency of a new decision if the node became unknown. The last
    /// readable state of the pod counts if `before`, the node's pods so far, has one.
    pub(super) fn set_unreadable(&mut self, object: &WatchedPod, before: Option<&Self>) -> Option<Urgency> {
        let uid = object.metadata.uid.as_deref()?;
        if let Some(before) = before
            && let Some(pod) = before.pods.get(uid)
        {
            self.pods.insert(uid.into(), *pod);
            if let Some(static_uid) = before.static_uids.get(uid) {
                self.static_uids.insert(uid.into(), static_uid.clone());
            }
            self.changed_at = self.changed_at.max(before.changed_at);
        }
        let is_new = !self.pods.contains_key(uid) && self.unreadable.insert(uid.into());
        is_new.then_some(Urgency::Usual)
    }

    /// The requests together, in milli-cores and bytes.
    pub fn sum(&self) -> PerResource<u64> {
        sum(self.pods.values().map(|pod| pod.requests))
    }

    /// Demand of the pods compared with the stored values. `is_told` is true if the kubelet reports its reservations:
    /// no pod then counts as admitted with more than its reservation.
    ///
    /// A pod that waits for its kubelet fits while both resources stay within the stored value, in the order of
    /// creation; a pod that does not fit is skipped, as the kubelet skips it. A fitting pod uses places, and they close
    /// for good once it is admitted.
    pub fn demand(
        &self,
        stored: PerResource<Option<u64>>,
        is_told: bool,
        now: Duration,
    ) -> PerResource<PodDemand> {
        let admitted = || self.pods.values().filter(|pod| pod.is_admitted);
        let certain = sum(admitted().map(|pod| pod.compute_certain(is_told)));
        let mut fit = sum(admitted().map(|pod| pod.expected));
        let mut waiting: Vec<_> = self.pods.iter().filter(|(_, pod)| !pod.is_admitted).collect();
        waiting.sort_by_key(|(uid, pod)| (pod.created, *uid));
        let mut places = Cow::Borrowed(&self.places);
        for (_, pod) in waiting {
            let with = sum([fit, pod.expected]);
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
                if !places.is_empty() {
                    pod.fill(places.to_mut());
                }
            }
        }
        let places: PerResource<PlaceSums> = places.sums(now);
        PerResource::from_fn(|resource| PodDemand {
            admitted: *certain.get(resource),
            fit: *fit.get(resource),
            places: *places.get(resource),
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
    pub(super) fn set(
        &mut self,
        object: &WatchedPod,
        mut pod: Option<BoundPod>,
        now: Duration,
    ) -> Option<Urgency> {
        let uid = object.metadata.uid.as_deref()?;
        let static_uid = static_uid(object).filter(|_| pod.is_some_and(|pod| pod.is_admitted));
        let previous = match static_uid {
            Some(static_uid) => self.static_uids.insert(uid.into(), static_uid.into()),
            None => self.static_uids.remove(uid),
        };
        let was_unreadable = self.unreadable.remove(uid);
        let before = self.pods.get(uid).copied();
        let owner = object
            .controller
            .as_ref()
            .map_or("", |controller| &controller.owner);
        self.follow_places(before.as_ref(), pod.as_mut(), owner, now);
        match pod {
            Some(pod) => self.pods.insert(uid.into(), pod),
            None => self.pods.remove(uid),
        };
        let is_renamed = previous.as_deref() != static_uid;
        if before == pod && !is_renamed && !was_unreadable {
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

    /// Opens the place of a pod that has left, and closes the places that an admitted pod uses.
    fn follow_places(
        &mut self,
        before: Option<&BoundPod>,
        pod: Option<&mut BoundPod>,
        owner: &str,
        now: Duration,
    ) {
        self.places.close_expired(now);
        match (before, pod) {
            (before, Some(pod)) => {
                pod.arrival = match before {
                    Some(before) => before.arrival,
                    None => self.places.arrive(),
                };
                if pod.is_admitted && before.is_none_or(|before| !before.is_admitted) {
                    pod.fill(&mut self.places);
                }
            }
            (Some(before), None) => {
                if let Some(workload) = before.admitted_workload() {
                    let place = LeavingPod {
                        controller: workload.controller,
                        owner,
                        kind: before.place,
                        requests: before.compute_held(),
                    };
                    self.places.open(&place, now);
                    PLACES_OPENED.with([before.place.name()]).increment(1);
                }
            }
            (None, None) => {}
        }
    }

    /// Takes over the places of the node as it was known before an outage of the watch, and follows what the outage
    /// hid; returns true if it hid something. The first pods that a replica sees fill no place.
    pub(super) fn resume(&mut self, before: &Self, is_first: bool, now: Duration) -> bool {
        self.places = before.places.clone();
        self.places.close_expired(now);
        for (uid, left) in &before.pods {
            if !self.pods.contains_key(uid) {
                self.follow_places(Some(left), None, "", now);
            }
        }
        let pods = std::mem::take(&mut self.pods);
        self.pods = pods
            .into_iter()
            .map(|(uid, mut pod)| {
                if is_first {
                    pod.arrival = Arrival::default();
                } else {
                    self.follow_places(before.pods.get(&uid), Some(&mut pod), "", now);
                }
                (uid, pod)
            })
            .collect();
        !self.is_as(before)
    }

    /// True if both consist of the same pods and places.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        let Self {
            pods,
            unreadable,
            static_uids,
            changed_at: _,
            places,
        } = self;
        (pods, unreadable, static_uids, places)
            == (&other.pods, &other.unreadable, &other.static_uids, &other.places)
    }

    /// True if a hint for one holds for the other.
    pub(super) fn asks_as(&self, other: &Self) -> bool {
        let pairs = || self.pods.iter().zip(&other.pods);
        self.pods.len() == other.pods.len()
            && self.static_uids == other.static_uids
            && pairs().all(|((uid, pod), (other_uid, other))| uid == other_uid && pod.asks_as(other))
    }
}

fn sum(amounts: impl IntoIterator<Item = PerResource<u64>>) -> PerResource<u64> {
    let mut sum = PerResource::<u64>::default();
    for amounts in amounts {
        sum = sum.map(|resource, amount| amount.saturating_add(*amounts.get(resource)));
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
