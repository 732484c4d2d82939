//! Model of the node's pods: they are bound without a check, admitted, resized and ended, and hold a part of
//! allocatable.

use headroom_domain::resource::{PerResource, Resource};
use serde_json::{Value, json};

/// Milli-cores and MiB that pods ask for; the last asks for more than any machine has.
const SIZES: [[u64; 2]; 4] = [[700, 600], [2_100, 3_000], [5_300, 100], [1_000_000, 10]];
/// Index of the size that pods with exclusive CPUs request.
const GUARANTEED: usize = 1;
/// The most pods on the node.
const MOST: usize = 6;

/// Change of pods. Numbers are indexes, modulo the number of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodChange {
    /// A user creates a pod with the node's name in it: no scheduler checks that it fits.
    Bind(usize),
    /// The kubelet looks at the pod that has waited longest: lets it in if it fits into what is stored, else fails it.
    Admit,
    /// A user requests a resize; the kubelet grants it if it fits into the stored value, else defers it.
    Resize {
        pod: usize,
        size: usize,
    },
    End(usize),
}

/// A pod that is bound and has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ModelPod {
    uid: String,
    is_guaranteed: bool,
    asks: PerResource<u64>,
    /// Reservation of the kubelet once it has admitted the pod.
    has: Option<PerResource<u64>>,
}

/// All of them, the oldest first.
#[derive(Debug, Default)]
pub(super) struct ModelPods {
    pods: Vec<ModelPod>,
    born: u64,
}

fn size(size: usize) -> PerResource<u64> {
    let [cpu, mib] = SIZES[size % SIZES.len()];
    PerResource {
        cpu,
        memory: mib << 20,
    }
}

fn fits(needed: PerResource<u64>, stored: &PerResource<u64>) -> bool {
    Resource::ALL
        .into_iter()
        .all(|resource| needed.get(resource) <= stored.get(resource))
}

fn plus(one: PerResource<u64>, other: &PerResource<u64>) -> PerResource<u64> {
    one.map(|resource, amount| amount + other.get(resource))
}

impl ModelPods {
    /// Applies a change; returns the changed pods as the watch delivers them, each with its deletion flag.
    pub(super) fn change(
        &mut self,
        change: PodChange,
        stored: &PerResource<u64>,
        version: u64,
    ) -> Option<(Value, bool)> {
        match change {
            PodChange::Bind(_) if self.pods.len() >= MOST => None,
            PodChange::Bind(asked) => {
                self.born += 1;
                self.pods.push(ModelPod {
                    uid: format!("p{}", self.born),
                    is_guaranteed: asked % SIZES.len() == GUARANTEED,
                    asks: size(asked),
                    has: None,
                });
                let last = self.pods.last()?;
                Some((last.object(version), false))
            }
            PodChange::Admit => {
                let at = self.pods.iter().position(|pod| pod.has.is_none())?;
                let admitted = self.admitted();
                let pod = &mut self.pods[at];
                if !fits(plus(admitted, &pod.asks), stored) {
                    let failed = self.pods.remove(at);
                    return Some((failed.object(version), true));
                }
                pod.has = Some(pod.asks);
                Some((pod.object(version), false))
            }
            PodChange::Resize { pod, size: asked } => {
                let at = pod.checked_rem(self.pods.len())?;
                let admitted = self.admitted();
                let pod = &mut self.pods[at];
                if pod.is_guaranteed {
                    return None;
                }
                pod.asks = size(asked);
                if let Some(has) = pod.has {
                    let others = admitted.map(|resource, sum| sum - has.get(resource));
                    if fits(plus(others, &pod.asks), stored) {
                        pod.has = Some(pod.asks);
                    }
                }
                Some((pod.object(version), false))
            }
            PodChange::End(pod) => {
                let at = pod.checked_rem(self.pods.len())?;
                let ended = self.pods.remove(at);
                Some((ended.object(version), true))
            }
        }
    }

    /// All of them, as informers list them.
    pub(super) fn objects(&self, version: u64) -> Vec<Value> {
        self.pods.iter().map(|pod| pod.object(version)).collect()
    }

    /// True if the kubelet has pods to look at.
    pub(super) fn are_waiting(&self) -> bool {
        self.pods.iter().any(|pod| pod.has.is_none())
    }

    /// A pod that may hold CPUs for itself, if one runs: the oldest.
    pub(super) fn guaranteed(&self) -> Option<&str> {
        let pod = self
            .pods
            .iter()
            .find(|pod| pod.is_guaranteed && pod.has.is_some())?;
        Some(&pod.uid)
    }

    /// Sum of the kubelet's reservations.
    pub(super) fn admitted(&self) -> PerResource<u64> {
        let admitted = self.pods.iter().filter_map(|pod| pod.has);
        admitted.fold(PerResource::default(), |sum, has| plus(sum, &has))
    }

    /// That, and what waits and fits beside it.
    pub(super) fn fit(&self, stored: &PerResource<u64>) -> PerResource<u64> {
        let waiting = self.pods.iter().filter(|pod| pod.has.is_none());
        waiting.fold(self.admitted(), |sum, pod| {
            let with = plus(sum, &pod.asks);
            if fits(with, stored) { with } else { sum }
        })
    }
}

impl ModelPod {
    fn object(&self, version: u64) -> Value {
        let list = |amounts: &PerResource<u64>| json!({"cpu": format!("{}m", amounts.cpu), "memory": amounts.memory.to_string()});
        let status = match &self.has {
            None => json!({"phase": "Pending"}),
            Some(has) => {
                let is_deferred = *has != self.asks;
                let pending = json!({"type": "PodResizePending", "status": "True", "reason": "Deferred"});
                json!({
                    "phase": "Running",
                    "qosClass": if self.is_guaranteed { "Guaranteed" } else { "Burstable" },
                    "conditions": is_deferred.then_some(pending).into_iter().collect::<Vec<_>>(),
                    "containerStatuses": [{
                        "name": "a", "allocatedResources": list(has), "resources": {"requests": list(has)},
                    }],
                })
            }
        };
        let born: u64 = self.uid.trim_start_matches('p').parse().expect("a number");
        json!({
            "metadata": {
                "name": self.uid, "uid": self.uid, "resourceVersion": version.to_string(),
                "creationTimestamp": format!("2026-01-01T11:{:02}:{:02}Z", born / 60 % 60, born % 60),
            },
            "spec": {
                "nodeName": "n1",
                "containers": [{"name": "a", "resources": {"requests": list(&self.asks)}}],
            },
            "status": status,
        })
    }
}
