//! What people are shown on request or as signals, beyond the rest of the status.

use std::collections::BTreeMap;

use super::Decider;
use crate::local::{
    signals::{self, Readings},
    status::{Measured, PodStatus, SignalStatus},
};

impl Decider {
    /// How every signal is.
    pub(super) fn signal_status(&self, measured: Option<Measured>) -> Vec<SignalStatus> {
        let used = &self.last.pods.used;
        let sum = |part: fn(&headroom_domain::estimate::PodUse) -> u64| {
            used.values().map(part).fold(0, u64::saturating_add)
        };
        let pods = (!used.is_empty()).then(|| (sum(|pod| pod.high.cpu), sum(|pod| pod.high.memory)));
        signals::status(&Readings {
            measured,
            pods,
            cpu_source: &self.cpu_source,
            failing: &self.last.metrics.failing,
            lacking: &self.last.metrics.lacking,
        })
    }

    /// The pods that have a cgroup here or are told of by a hint server, by UID.
    pub fn pods(&self) -> Vec<PodStatus> {
        let used = &self.last.pods.used;
        let listed = self.server_view.pods.as_ref().map(|pods| &pods.view.pods);
        let trust: BTreeMap<_, _> = self
            .estimator
            .trust()
            .into_iter()
            .map(|trust| (trust.uid, trust.ppm.cpu.min(trust.ppm.memory)))
            .collect();
        let mut uids: Vec<&String> = listed
            .into_iter()
            .flat_map(BTreeMap::keys)
            .chain(used.keys())
            .collect();
        uids.sort_unstable();
        uids.dedup();
        let status = |uid: &String| PodStatus {
            uid: uid.clone(),
            used: used.get(uid).copied(),
            request: listed.and_then(|listed| listed.get(uid)).copied(),
            trust_ppm: trust.get(uid).copied().unwrap_or(0),
            exclusive_milli: self.exclusive_milli.get(uid).copied().unwrap_or(0),
        };
        uids.into_iter().map(status).collect()
    }
}
