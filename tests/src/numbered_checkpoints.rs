//! Numbered checkpoints, written by `e2e-checkpoint` and read by `tests/process/checkpoint.rs`, which kills the
//! writer.

use std::time::Duration;

use headroom_agent::local::checkpoint::{CheckpointFile, Owner, Store};
use headroom_domain::{
    estimate::{Estimator, Frame, PodRequest, PodUse, Profile, View},
    policy::Policy,
    resource::PerResource,
};

/// Number of pods: large enough that a kill sometimes interrupts a write.
const PODS: u64 = 128;

/// Number of the newest valid checkpoint.
pub fn number(store: &mut Store) -> Option<u64> {
    let loaded = store.load(&owner(), |record| Ok(record.wall.as_secs()));
    loaded.resumed()
}

/// A checkpoint of a node with many pods; its number is the second of its creation.
pub fn record() -> CheckpointFile {
    let mut estimator = Estimator::new(Profile::Production.timing());
    let uids: Vec<String> = (0..PODS).map(|pod| format!("pod-{pod}")).collect();
    let plenty = PerResource {
        cpu: 64_000,
        memory: 1 << 38,
    };
    let policy = Policy::default();
    estimator.set_view(View {
        generation: 1,
        capacity: plenty,
        raw: plenty,
        pods: uids
            .iter()
            .map(|uid| (uid.clone(), PodRequest::default()))
            .collect(),
        bounds: policy.bounds,
        target_ppm: policy.target_ppm,
        admitted: PerResource::default(),
    });
    estimator.end_frame(&Frame {
        index: 1,
        is_valid: true,
        pods: uids.into_iter().map(|uid| (uid, PodUse::default())).collect(),
        ..Frame::default()
    });
    CheckpointFile {
        owner: owner(),
        boot_id: "one".to_owned(),
        wall: Duration::ZERO,
        began: None,
        snapshot: estimator.snapshot(Duration::ZERO),
    }
}

fn owner() -> Owner {
    Owner {
        node: "n1".to_owned(),
        timing: Profile::Production.name().to_owned(),
    }
}
