//! Controllers of simulated pods: Deployments and DaemonSets that replace their pods by those of a new version.

use headroom_domain::capacity::places::PlaceKind;

use super::host::Host;
use crate::{
    node::{Owner, Pod},
    source::Workload,
};

/// Limits of a rollout, in pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Strategy {
    /// Pods in addition to the desired ones.
    pub(super) surge: usize,
    /// Desired pods that may be missing or not ready.
    pub(super) unavailable: usize,
}

/// A bound pod of a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replica {
    uid: String,
    version: u32,
    /// Index of its node.
    host: usize,
    /// Frame in which it was bound. It is ready one frame later.
    start: usize,
}

/// A pod that waits until it fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WaitingPod {
    version: u32,
    slot: u32,
    /// The only node that can run it; `None` for all nodes.
    pub(super) home: Option<usize>,
    /// Frame of its creation.
    pub(super) since: usize,
}

/// A Deployment or a DaemonSet of a group of nodes.
#[derive(Debug)]
pub(super) struct Controller {
    /// Number within the group.
    pub(super) number: u32,
    pub(super) kind: PlaceKind,
    pub(super) request: u64,
    strategy: Strategy,
    /// Frame of the next rollout.
    due: usize,
    /// Frames between rollouts.
    period: usize,
    desired: usize,
    version: u32,
    /// Number of the next pod of the current version.
    slot: u32,
    bound: Vec<Replica>,
    pub(super) waiting: Vec<WaitingPod>,
    is_rolling: bool,
    /// Allocatable of each node before the first departure of the current rollout.
    pub(super) before: Option<Vec<u64>>,
}

impl Controller {
    /// A controller whose pods wait for their nodes in frame 0; pod `n` is assigned to node `n`, modulo the nodes.
    pub(super) fn new(
        (number, kind, request): (u32, PlaceKind, u64),
        strategy: Strategy,
        (due, period): (usize, usize),
        (desired, hosts): (usize, usize),
    ) -> Self {
        let mut controller = Self {
            number,
            kind,
            request,
            strategy,
            due,
            period,
            desired,
            version: 0,
            slot: 0,
            bound: Vec::new(),
            waiting: Vec::new(),
            is_rolling: false,
            before: None,
        };
        for pod in 0..desired {
            controller.create(Some(pod % hosts.max(1)), 0);
        }
        controller
    }

    /// Identity that the webhook and the agent have of it.
    pub(super) fn owner(&self, version: u32) -> Owner {
        Owner {
            controller: u64::from(self.number) + 1,
            version: u64::from(version),
            kind: self.kind,
        }
    }

    /// Starts and continues rollouts at the start of a frame: old pods leave, and new ones are created. Returns true
    /// if a rollout ended.
    pub(super) fn roll(&mut self, frame: usize, hosts: &mut [Host<'_>]) -> bool {
        if !self.is_rolling && frame >= self.due {
            self.is_rolling = true;
            self.due += self.period;
            self.version += 1;
            self.slot = 0;
        }
        if !self.is_rolling {
            return false;
        }
        let mut vacated = self.remove_old(frame, hosts).into_iter();
        let most = self.desired + self.strategy.surge;
        while self.bound.len() + self.waiting.len() < most && self.updated() < self.desired {
            let host = vacated.next();
            self.create(host.filter(|_| self.kind == PlaceKind::DaemonSet), frame);
        }
        let is_done = |pod: &Replica| pod.version == self.version && pod.start < frame;
        let has_ended = self.waiting.is_empty() && self.bound.iter().all(is_done);
        if has_ended {
            self.is_rolling = false;
            self.before = None;
        }
        has_ended
    }

    /// Removes old pods while enough pods are ready. Returns their nodes.
    fn remove_old(&mut self, frame: usize, hosts: &mut [Host<'_>]) -> Vec<usize> {
        let least = self.desired.saturating_sub(self.strategy.unavailable);
        let mut ready = self.bound.iter().filter(|pod| pod.start < frame).count();
        let mut vacated = Vec::new();
        while ready > least {
            let is_old = |pod: &Replica| pod.version < self.version;
            let Some(at) = self.bound.iter().position(is_old) else {
                break;
            };
            if self.before.is_none() {
                self.before = Some(hosts.iter().map(|host| host.allocatable).collect());
            }
            let pod = self.bound.remove(at);
            if let Some(host) = hosts.get_mut(pod.host) {
                host.node.remove(&pod.uid);
            }
            vacated.push(pod.host);
            ready -= 1;
        }
        vacated
    }

    /// Number of pods of the current version.
    fn updated(&self) -> usize {
        let bound = self.bound.iter().filter(|pod| pod.version == self.version);
        bound.count() + self.waiting.len()
    }

    fn create(&mut self, home: Option<usize>, since: usize) {
        self.waiting.push(WaitingPod {
            version: self.version,
            slot: self.slot,
            home,
            since,
        });
        self.slot += 1;
    }

    /// Records that a waiting pod is bound to a node, and returns the pod. `workload` is called with its version and its
    /// number.
    pub(super) fn bind(
        &mut self,
        pod: WaitingPod,
        (host, start): (usize, usize),
        workload: impl FnOnce(u32, u32) -> Workload,
    ) -> Pod {
        let WaitingPod { version, slot, .. } = pod;
        let uid = format!("replica-{:03}-{version:03}-{slot:03}", self.number);
        self.bound.push(Replica {
            uid: uid.clone(),
            version,
            host,
            start,
        });
        let Workload { limit, usage } = workload(version, slot);
        Pod {
            uid,
            owner: Some(self.owner(version)),
            request: self.request,
            limit,
            start,
            usage,
        }
    }

    /// Waiting pods that would fit on a node that they may run on, had each allocatable stayed as before the rollout's
    /// first departure.
    pub(super) fn kept_waiting(&self, hosts: &[Host<'_>]) -> impl Iterator<Item = &WaitingPod> {
        let before = self.before.as_deref().unwrap_or_default();
        let has_room = |(before, host): (&u64, &Host<'_>)| host.node.bound() + self.request <= *before;
        let fits: Vec<bool> = before.iter().zip(hosts).map(has_room).collect();
        self.waiting.iter().filter(move |pod| match pod.home {
            Some(home) => fits.get(home).copied().unwrap_or_default(),
            None => fits.contains(&true),
        })
    }
}
