//! Writes the past of a node whose agent remembers a quiet day: a checkpoint and the Node's hint annotation. The
//! agent's own code writes the checkpoint. The pod of the node is trusted in full, so the node is amplified.
//!
//! With production timing trust takes a day to grow and a brake stays for minutes, so a second reaction of the same
//! node could not be seen for a long time. Each run therefore has a new node with a new agent, which goes on from such
//! a day. The machine may have been started a moment ago; the agent therefore lives in a time namespace with an earlier
//! boot. Only boot time is shifted, which numbers frames and reports; all durations are those of production.

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

/// How long ago the machine was started, more than it was, to the agent: more than a day of frames.
pub(super) const EARLIER: Duration = Duration::from_secs(2 * 24 * 60 * 60);
/// The ratios to which the day leads, in cents: the highest that the policy allows. Of an amount that is no multiple of
/// four, 1.25 times is no whole number, and the ratio would stay a step below; memory comes in pages.
pub(super) const RATIO: PerResource<u64> = PerResource {
    cpu: 150,
    memory: 125,
};
/// The webhook's configuration for it.
pub(super) const CONFIG: &str =
    "amplification: {mode: auto, bounds: {cpu: {max: 1.50}, memory: {max: 1.25}}}";
/// What the node, and its pod, used at most on that day, in percent of raw.
const USED_PERCENT: u64 = 5;
/// Number of the last report of the day: any report of the agent comes later.
const LAST_SEQ: u64 = 1;

/// A node as its kubelet reports it, with a pod that asks for all of it.
#[derive(Debug, Clone)]
pub(super) struct Remembered {
    /// Its name.
    pub(super) node: String,
    /// The UID of its Node object.
    pub(super) uid: String,
    /// The UID of the pod.
    pub(super) pod: String,
    /// C.
    pub(super) capacity: PerResource<u64>,
    /// A: raw allocatable, which is what the pod requests.
    pub(super) raw: PerResource<u64>,
}

/// An estimator that has a quiet day behind it, so long after boot: on each frame, node and each pod used a twentieth of raw.
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

impl Remembered {
    /// Writes the checkpoint into a folder.
    ///
    /// # Errors
    /// If it cannot be written, or such a day does not lead to those ratios.
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
            "a quiet day leads to {published:?} and not to {RATIO:?}"
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

    /// The text of the Node's hint annotation: these ratios were applied last.
    ///
    /// # Errors
    /// If the kernel does not say which boot this is.
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
        };
        Ok(Note::from_hint(&hint).to_string())
    }
}

#[cfg(test)]
mod tests {
    use headroom_domain::estimate::{Boot, Lapse};

    use super::*;

    #[test]
    fn a_quiet_day_is_taken_up_by_an_agent_of_this_boot() {
        let raw = PerResource {
            cpu: 1900,
            memory: 7_500_001_280,
        };
        let remembered = Remembered {
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
        remembered.save(folder.path()).unwrap();
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
        let mut estimator = resumed.resumed().expect("a checkpoint");
        estimator.set_view(remembered.view());
        let published = estimator
            .estimates()
            .map(|_, estimate| u64::from(estimate.published.0));
        assert_eq!(published, RATIO);
        let note: Note = remembered.note().unwrap().parse().unwrap();
        assert_eq!((note.cpu.published, note.memory.published), (150, 125));
    }
}
