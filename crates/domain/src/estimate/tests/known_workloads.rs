//! Tests of trust by workload: new pods and new nodes count by the profiles of their workloads.

use std::collections::BTreeMap;

use super::{
    succession::{ListedPod, SucceededNode, member},
    *,
};
use crate::workload::{HourlyUse, SLOTS, SlotUse, Workload, WorkloadProfile};

/// More than a day.
const LONG: u64 = 320;

/// A profile whose pods use `mean` of 1,000 and exceed it by `excess`, in every hour, and twice that in hour 12.
fn profile(mean: u32, excess: u32, trust: u32) -> WorkloadProfile {
    let mut cpu = HourlyUse::default();
    for slot in 0..SLOTS {
        let factor = if slot == 12 { 2000 } else { 1000 };
        cpu.set(
            slot,
            Some(SlotUse {
                mean_ppm: mean * factor,
                excess_ppm: excess * factor,
            }),
        );
    }
    WorkloadProfile {
        hourly: PerResource {
            cpu,
            memory: HourlyUse::default(),
        },
        request: PerResource { cpu: 1000, memory: 0 },
        trust_ppm: PerResource {
            cpu: trust * 1000,
            memory: 0,
        },
    }
}

fn known(profile: WorkloadProfile) -> KnownWorkloads {
    let workload = Workload {
        controller: 7,
        version: 1,
    };
    KnownWorkloads {
        offset: 0,
        frames_a_day: 288,
        profiles: BTreeMap::from([(workload, profile)]),
    }
}

/// A node whose single pod used 500 for more than a day, and a new pod of controller 7 after `frames` frames with a use
/// of 400.
fn joined(knowledge: Option<KnownWorkloads>, milli: u64, frames: u64) -> SucceededNode {
    let old = member("old", 2000, 0, 0);
    let mut node = SucceededNode::new();
    node.list(&[old]);
    node.run(LONG, &[("old", 500)]);
    node.estimator.set_workloads(knowledge);
    node.list(&[old, member("new", milli, 7, 1)]);
    node.run(frames, &[("old", 500), ("new", 400)]);
    node
}

#[test]
fn a_new_pod_counts_from_the_end_of_its_first_valid_frame() {
    assert_eq!(
        joined(Some(known(profile(300, 100, 800))), 1000, 0).terms(),
        (2000, 500)
    );
    // In hour 12 of yesterday the workload used 600, and one pod 200 more.
    assert_eq!(
        joined(Some(known(profile(300, 100, 800))), 1000, 1).terms(),
        (2800, 1300)
    );
    assert_eq!(joined(None, 1000, 1).terms(), (2000, 900), "as before");
}

#[test]
fn the_hour_of_a_profile_counts() {
    let mut later = known(profile(300, 0, 1000));
    let noon = joined(Some(later.clone()), 1000, 1).terms();
    // A replica whose day begins 12 hours earlier: the profile's peak then falls on other frames of the ring, but the
    // ring contains all hours.
    later.offset = 144;
    assert_eq!(joined(Some(later), 1000, 1).terms(), noon);
}

#[test]
fn a_larger_request_gains_no_trust_and_raises_the_peak() {
    let normal = joined(Some(known(profile(300, 0, 1000))), 1000, 1);
    let larger = joined(Some(known(profile(300, 0, 1000))), 2000, 1);
    assert_eq!(normal.terms(), (3000, 1100));
    assert_eq!(larger.terms(), (3000, 1700));
}

#[test]
fn a_pod_that_uses_more_than_its_profile_raises_its_own_forecast() {
    // 300 at noon, but the pod used 400.
    assert_eq!(
        joined(Some(known(profile(150, 0, 1000))), 1000, 1).terms(),
        (3000, 900)
    );
}

#[test]
fn lost_knowledge_leaves_the_nodes_own_observations() {
    let mut node = joined(Some(known(profile(300, 100, 800))), 1000, 1);
    node.estimator.set_workloads(None);
    assert_eq!(node.terms(), joined(None, 1000, 1).terms());
}

/// A new node with 20 pods of 1,000 that use 300 each, after some frames.
fn fresh(knowledge: Option<KnownWorkloads>, frames: u64) -> SucceededNode {
    const UIDS: [&str; 20] = [
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t",
    ];
    let mut node = SucceededNode::new();
    node.estimator.set_workloads(knowledge);
    node.list(&UIDS.map(|uid| member(uid, 1000, 7, 1)));
    node.run(frames, &UIDS.map(|uid| (uid, 300)));
    node
}

/// docs/estimator.md#trust-by-workload, third example.
#[test]
fn a_new_node_counts_by_workloads_from_its_sixth_valid_frame() {
    let knowledge = || Some(known(profile(300, 100, 800)));
    let node = fresh(knowledge(), 5);
    assert_eq!(node.estimator.estimates().cpu.coverage_ppm, 17_361);
    let node = fresh(knowledge(), 6);
    assert_eq!(node.estimator.estimates().cpu.coverage_ppm, 798_611);
    // Hour 12: 20 × 600 and √(20 × 200²) = 895.
    assert_eq!(node.terms(), (16_000, 12_895));
    let without = fresh(None, 6);
    assert_eq!(without.estimator.estimates().cpu.coverage_ppm, 20_833);
    assert_eq!(without.terms(), (0, 6000));
}

#[test]
fn coverage_changes_only_at_frame_ends() {
    let mut node = fresh(Some(known(profile(300, 100, 800))), 6);
    let before = node.estimator.estimates().cpu;
    let mut listed: Vec<ListedPod> = ["a", "b", "c", "d"].map(|uid| member(uid, 1000, 7, 1)).to_vec();
    listed.push(member("other", 30_000, 0, 0));
    node.list(&listed);
    assert_eq!(node.estimator.estimates().cpu.coverage_ppm, before.coverage_ppm);
}
