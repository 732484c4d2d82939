//! Writes the history of a node after a quiet day: the agent's checkpoint, written with the agent's own code, and the
//! Node's hint annotation. The pod of the node is fully trusted, so the node is amplified.
//!
//! With production timing trust takes a day to grow and a brake stays for minutes, so a second reaction of the same
//! node could only be observed much later. Each run therefore has a new node whose new agent continues from such a
//! day. This machine may have booted only recently; the agent therefore runs in a time namespace with an earlier boot
//! time. Only boot time is shifted, which numbers frames and reports; all durations are those of production.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Result, ensure};
use headroom_agent::{
    local::checkpoint::{self, CheckpointFile, Owner, Store},
    sample::{clock::Clocks, procfs::Procfs},
};
use headroom_domain::{
    estimate::{Estimator, Frame, PodRequest, PodUse, Profile, Timing, View},
    hint::{AgentMode, NodeHint, Note, ResourceHint},
    policy::{Bounds, Policy},
    ratio::Cents,
    resource::PerResource,
};

/// Shift of boot time in the agent's time namespace: more than a day of frames.
pub(super) const EARLIER: Duration = Duration::from_secs(2 * 24 * 60 * 60);
/// Ratios after the quiet day, in cents: the maxima of the policy. For an amount that is no multiple of four, 1.25
/// times it would not be whole and the ratio would stay one step lower; memory is a multiple of the page size.
pub(super) const RATIO: PerResource<u64> = PerResource {
    cpu: 150,
    memory: 125,
};
/// Webhook configuration with these maxima.
pub(super) const CONFIG: &str =
    "amplification: {mode: auto, bounds: {cpu: {max: 1.50}, memory: {max: 1.25}}}";
/// Peak use of the node and of its pod on that day, in percent of raw.
const USED_PERCENT: u64 = 5;
/// Number of the last report of the day; lower than that of any report of the agent.
const LAST_SEQ: u64 = 1;

/// A node as its kubelet reports it, with a pod that requests all of it.
#[derive(Debug, Clone)]
pub(super) struct NodeHistory {
    pub(super) node: String,
    pub(super) uid: String,
    pub(super) pod: String,
    pub(super) capacity: PerResource<u64>,
    /// Raw allocatable, which is also the pod's request.
    pub(super) raw: PerResource<u64>,
}

/// An estimator with a quiet day of frames before `since_boot`: in each, the node and each pod used [`USED_PERCENT`]
/// of raw.
pub fn after_a_quiet_day(timing: Timing, view: View, since_boot: Duration) -> Estimator {
    let used = view.raw.map(|_, raw| raw * USED_PERCENT / 100);
    let use_of_pod = PodUse {
        low: used,
        high: used,
    };
    let pods: BTreeMap<_, _> = view.pods.keys().map(|pod| (pod.clone(), use_of_pod)).collect();
    let mut estimator = Estimator::new(timing);
    estimator.set_view(view);
    let now = since_boot.as_secs() / timing.frame().as_secs();
    for index in now.saturating_sub(timing.ring_frames.into())..now {
        estimator.end_frame(&Frame {
            index,
            is_valid: true,
            peak: used,
            pods: pods.clone(),
            ..Frame::default()
        });
    }
    estimator
}

impl NodeHistory {
    /// Writes the checkpoint to `folder`.
    ///
    /// # Errors
    /// If it cannot be written, or the day leads to ratios other than [`RATIO`].
    pub(super) fn save(&self, folder: &Path) -> Result<()> {
        let timing = Profile::Production.timing();
        let now = Clocks::read();
        let since_boot = Duration::from_nanos(now.boottime_ns) + EARLIER;
        let estimator = after_a_quiet_day(timing, self.view(), since_boot);
        let published = estimator
            .estimates()
            .map(|_, estimate| u64::from(estimate.published.0));
        ensure!(
            published == RATIO,
            "a quiet day leads to the ratios {published:?}, expected {RATIO:?}"
        );
        let record = CheckpointFile {
            owner: Owner {
                node: self.node.clone(),
                timing: timing.profile.name().to_owned(),
            },
            boot_id: Procfs::default().boot_id()?,
            wall: checkpoint::wall(),
            began: None,
            snapshot: estimator.snapshot(Duration::from_nanos(now.monotonic_ns)),
        };
        Store::open(folder, checkpoint::wall())?.save(&record)?;
        Ok(())
    }

    fn view(&self) -> View {
        let request = PodRequest {
            requests: self.raw,
            ..PodRequest::default()
        };
        View {
            generation: 1,
            capacity: self.capacity,
            raw: self.raw,
            pods: BTreeMap::from([(self.pod.clone(), request)]),
            bounds: RATIO.map(|_, cents| Bounds {
                min: Cents::ONE,
                max: Cents(u32::try_from(*cents).unwrap_or(100)),
            }),
            target_ppm: Policy::default().target_ppm,
            admitted: PerResource::default(),
        }
    }

    /// Value of the Node's hint annotation with [`RATIO`] applied.
    ///
    /// # Errors
    /// If the boot id cannot be read.
    pub(super) fn note(&self) -> Result<String> {
        let resources = RATIO.map(|resource, cents| {
            let cents = Cents(u32::try_from(*cents).unwrap_or(100));
            ResourceHint {
                capacity: *self.capacity.get(resource),
                published: cents,
                target: cents,
                ..ResourceHint::default()
            }
        });
        let hint = NodeHint {
            node: self.node.clone(),
            node_uid: self.uid.clone(),
            boot_id: Procfs::default().boot_id()?,
            seq: LAST_SEQ,
            is_primary: true,
            pods_generation: 0,
            sight: AgentMode::Full,
            timing: Profile::Production,
            is_draining: false,
            resources,
            trust: Vec::new(),
            steal_ppm: 0,
            signals: Vec::new(),
            past: None,
            frame_use: None,
        };
        Ok(Note::from_hint(&hint).to_string())
    }
}

#[cfg(test)]
mod tests {
    use headroom_domain::estimate::{Boot, Lapse};

    use super::*;

    #[test]
    fn an_agent_of_this_boot_restores_the_quiet_day() {
        let raw = PerResource {
            cpu: 1900,
            memory: 7_500_001_280,
        };
        let history = NodeHistory {
            node: "n1".to_owned(),
            uid: "u1".to_owned(),
            pod: "p1".to_owned(),
            capacity: PerResource {
                cpu: 2000,
                memory: 8_000_000_000,
            },
            raw,
        };
        let folder = tempfile::tempdir().unwrap();
        history.save(folder.path()).unwrap();
        let owner = Owner {
            node: "n1".to_owned(),
            timing: "production".to_owned(),
        };
        let timing = Profile::Production.timing();
        let now = Clocks::read();
        let frame = (Duration::from_nanos(now.boottime_ns) + EARLIER).as_secs() / timing.frame().as_secs();
        let lapse = Lapse {
            frame,
            now: Duration::from_nanos(now.monotonic_ns),
            boot: Boot::Same,
        };
        let mut store = Store::open(folder.path(), checkpoint::wall()).unwrap();
        let resumed = store.load(&owner, |record| Estimator::resume(timing, record.snapshot, lapse));
        let mut estimator = resumed.resumed().expect("the checkpoint is restored");
        estimator.set_view(history.view());
        let published = estimator
            .estimates()
            .map(|_, estimate| u64::from(estimate.published.0));
        assert_eq!(published, RATIO);
        let note: Note = history.note().unwrap().parse().unwrap();
        assert_eq!((note.cpu.published, note.memory.published), (150, 125));
    }
}
