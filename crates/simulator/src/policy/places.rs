//! The allocatable that the webhook stores for a simulated node: it keeps the places of pods that left.

use std::{collections::BTreeMap, time::Duration};

use headroom_domain::{
    capacity::{
        PlaceLimits,
        places::{LeavingPod, OpenPlaces, PlaceKind},
    },
    estimate::floor_cents,
    resource::{PerResource, Resource},
};

use super::Settings;
use crate::node::{Node, Owner};

/// A bound pod with a controller, and the requests of any pod.
#[derive(Debug, Clone, Copy)]
struct KnownPod {
    owner: Option<Owner>,
    requests: PerResource<u64>,
}

/// Places of one node and its stored allocatable.
#[derive(Debug, Default)]
pub(super) struct StoredAllocatable {
    places: OpenPlaces,
    known: BTreeMap<String, KnownPod>,
    /// Generation of pods in `known`.
    generation: Option<u64>,
    stored: u64,
    /// True if a pod without a controller leaves a place too, as a pod of a controller of its own.
    is_for_all: bool,
}

impl StoredAllocatable {
    /// Allocatable with a place for each pod that leaves: the upper bound for places.
    pub(super) fn with_places_for_all() -> Self {
        Self {
            is_for_all: true,
            ..Self::default()
        }
    }

    /// Stores and returns the allocatable for the decided one: max(decided, min(↑(fit + K), stored, cap), ↑admitted).
    /// In the simulation all bound pods fit and are admitted.
    pub(super) fn store(
        &mut self,
        decided: u64,
        node: &Node,
        settings: &Settings,
        limits: &PlaceLimits,
    ) -> u64 {
        let now = start_of(node.now);
        self.follow(node, settings.resource, now);
        let raw = node.machine.raw;
        let rounded_up = |amount| raw * u64::from(floor_cents(amount, raw).0) / 100;
        let places = self.places.sums(now).get(settings.resource).within(limits);
        let kept = rounded_up(node.bound() + places.total());
        let cap = raw * u64::from(settings.bounds.max.0) / 100;
        self.stored = decided
            .max(kept.min(self.stored).min(cap))
            .max(rounded_up(node.bound()));
        self.stored
    }

    /// Opens places of pods that left, and then fills places with new pods.
    fn follow(&mut self, node: &Node, resource: Resource, now: Duration) {
        if self.generation == Some(node.generation) {
            return;
        }
        self.generation = Some(node.generation);
        let bound: BTreeMap<String, KnownPod> = node
            .pods()
            .iter()
            .map(|pod| {
                let mut requests = PerResource::default();
                *requests.get_mut(resource) = pod.request;
                let owner = pod.owner;
                (pod.uid.clone(), KnownPod { owner, requests })
            })
            .collect();
        for (uid, KnownPod { owner, requests }) in &self.known {
            let own = Owner {
                controller: 0,
                version: 0,
                kind: PlaceKind::Other,
            };
            let owner = owner.or(self.is_for_all.then_some(own));
            if let Some(owner) = owner.filter(|_| !bound.contains_key(uid)) {
                let leaving = LeavingPod {
                    controller: owner.controller,
                    owner: "",
                    kind: owner.kind,
                    requests: *requests,
                };
                self.places.open(&leaving, now);
            }
        }
        for (uid, KnownPod { owner, requests }) in &bound {
            if !self.known.contains_key(uid) {
                let arrival = self.places.arrive();
                let controller = owner.map(|owner| owner.controller);
                self.places.fill(controller, requests, arrival);
            }
        }
        self.known = bound;
    }
}

/// Start of a frame on the clock of places.
fn start_of(frame: usize) -> Duration {
    super::measured_slack::FRAME * u32::try_from(frame).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use headroom_domain::hint::Brake;

    use super::*;
    use crate::{
        node::{Pod, tests::node},
        policy::tests::settings,
    };

    const OWNER: Owner = Owner {
        controller: 1,
        version: 0,
        kind: PlaceKind::DaemonSet,
    };

    fn pod(uid: &str, owner: Option<Owner>, request: u64) -> Pod {
        Pod {
            uid: uid.to_owned(),
            owner,
            request,
            limit: request,
            start: 0,
            usage: vec![0; 1200],
        }
    }

    /// Allocatable in cents of raw, with a decided ratio of 1.00.
    fn cents(stored: &mut StoredAllocatable, node: &Node) -> u64 {
        let settings = settings();
        let machine = settings.machine;
        let limits = PlaceLimits::new(machine.raw, machine.capacity, 28_800, Brake::Off);
        stored.store(machine.raw, node, &settings, &limits) * 100 / machine.raw
    }

    #[test]
    fn a_leaving_pod_keeps_the_stored_value_for_two_frames() {
        let mut node = node(&[(31_500, 0, vec![0; 1200])]);
        let mut stored = StoredAllocatable::default();
        node.bind(pod("old", Some(OWNER), 1260));
        assert_eq!(cents(&mut stored, &node), 104);
        node.begin(9);
        node.remove("old");
        for (frame, expected) in [(9, 104), (10, 104), (11, 100)] {
            node.begin(frame);
            assert_eq!(cents(&mut stored, &node), expected, "{frame}");
        }
    }

    #[test]
    fn a_pod_that_is_bound_later_uses_the_place() {
        let mut node = node(&[(31_500, 0, vec![0; 1200])]);
        let mut stored = StoredAllocatable::default();
        node.bind(pod("old", Some(OWNER), 1260));
        cents(&mut stored, &node);
        node.remove("old");
        assert_eq!(cents(&mut stored, &node), 104);
        node.bind(pod("other", None, 800));
        assert_eq!(cents(&mut stored, &node), 104);
        node.remove("other");
        assert_eq!(cents(&mut stored, &node), 102, "460 of 1260 are left");
    }

    #[test]
    fn a_pod_without_a_controller_leaves_no_place_unless_all_do() {
        for (mut stored, expected) in [
            (StoredAllocatable::default(), 100),
            (StoredAllocatable::with_places_for_all(), 104),
        ] {
            let mut node = node(&[(31_500, 0, vec![0; 1200])]);
            node.bind(pod("old", None, 1260));
            assert_eq!(cents(&mut stored, &node), 104);
            node.begin(9);
            node.remove("old");
            assert_eq!(cents(&mut stored, &node), expected);
        }
    }
}
