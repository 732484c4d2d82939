//! Succession: a pod takes over the history of a pod of its controller that has just left the node. See
//! docs/estimator.md#succession.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Timing, pods::TrackedPod};
use crate::{
    resource::{PerResource, Resource},
    workload::Workload,
};

/// Share of the trust span that a successor of another version takes over at most, in percent.
const OTHER_VERSION_PERCENT: u32 = 80;

/// Trust that a pod took over from its predecessor, for one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Inherited {
    /// Valid frames in which the predecessor or this pod was measured.
    pub(super) age: u32,
    /// The smallest request since then; no more is trusted.
    pub(super) request: u64,
    /// Most frames of the trust span that count.
    pub(super) most: u32,
}

/// Pods that have left and may still be succeeded, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RecentDepartures {
    /// Frame of each departure, and the pod.
    departed: VecDeque<(u64, TrackedPod)>,
}

impl Inherited {
    /// Trust that a successor takes over from `predecessor`.
    pub(super) fn from(
        predecessor: &TrackedPod,
        is_same_version: bool,
        timing: &Timing,
    ) -> PerResource<Option<Self>> {
        PerResource::from_fn(|resource| {
            let span = timing.trust_span();
            let own = Self {
                age: predecessor.own_age(resource),
                request: predecessor.requested(resource),
                most: span,
            };
            let earlier = predecessor.inherited(resource).map(|earlier| Self {
                request: earlier.request.min(own.request),
                ..earlier
            });
            let best = earlier
                .filter(|earlier| earlier.trusted(own.request, timing) > own.trusted(own.request, timing))
                .unwrap_or(own);
            let most = if is_same_version {
                span
            } else {
                span * OTHER_VERSION_PERCENT / 100
            };
            (best.age > 0).then_some(Self {
                most: best.most.min(most),
                ..best
            })
        })
    }

    /// Trusted part of a request, in milli-cores or bytes, rounded down.
    pub(super) fn trusted(&self, request: u64, timing: &Timing) -> u64 {
        let parts = timing.trusted_frames(self.age).min(self.most);
        let trusted = u128::from(request.min(self.request)) * u128::from(parts);
        u64::try_from(trusted / u128::from(timing.trust_span().max(1))).unwrap_or(u64::MAX)
    }
}

impl RecentDepartures {
    /// Remembers a pod that left in this frame.
    pub(super) fn push(&mut self, frame: u64, pod: TrackedPod) {
        self.departed.push_back((frame, pod));
    }

    /// Forgets pods that left too long ago, and the oldest ones beyond `most`.
    pub(super) fn forget(&mut self, frame: u64, most: usize, timing: &Timing) {
        let is_old =
            |(left, _): &(u64, TrackedPod)| frame.saturating_sub(*left) > timing.succession_frames.into();
        while self.departed.front().is_some_and(is_old) || self.departed.len() > most {
            self.departed.pop_front();
        }
    }

    /// Removes and returns the pod of that controller that left first.
    pub(super) fn remove_first(&mut self, controller: u64) -> Option<TrackedPod> {
        let at = self
            .departed
            .iter()
            .position(|(_, pod)| pod.controller() == Some(controller))?;
        self.departed.remove(at).map(|(_, pod)| pod)
    }
}

/// State of a pod that the layout of a checkpoint does not contain, because it is older.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// UID of the pod object.
    pub(super) uid: String,
    /// Its controller and version.
    pub(super) workload: Option<Workload>,
    /// Trust that it took over.
    pub(super) inherited: PerResource<Option<Inherited>>,
}

/// True if a pod has something in a [`Lineage`].
pub(super) fn has_lineage(pod: &TrackedPod) -> bool {
    pod.controller().is_some()
        || Resource::ALL
            .into_iter()
            .any(|resource| pod.inherited(resource).is_some())
}
