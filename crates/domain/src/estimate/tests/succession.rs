//! Tests of succession: a pod of a controller continues the history of the one before it.

use rstest::rstest;

use super::*;
use crate::workload::Workload;

const TIMING: Timing = Profile::Production.timing();
/// More than a day.
const LONG: u64 = 320;

/// A pod with its request, its controller (0 for a bare pod) and its version.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListedPod {
    uid: &'static str,
    milli: u64,
    controller: u64,
    version: u64,
}

pub(super) const fn member(uid: &'static str, milli: u64, controller: u64, version: u64) -> ListedPod {
    ListedPod {
        uid,
        milli,
        controller,
        version,
    }
}

/// A node with one pod beside those of the test.
pub(super) struct SucceededNode {
    pub(super) estimator: Estimator,
    frame: u64,
}

impl SucceededNode {
    pub(super) fn new() -> Self {
        let mut estimator = Estimator::new(TIMING);
        estimator.reset_outcomes(false);
        Self { estimator, frame: 0 }
    }

    pub(super) fn list(&mut self, members: &[ListedPod]) {
        let pods = members.iter().map(|pod| {
            let workload = Workload {
                controller: pod.controller,
                version: pod.version,
            };
            let request = PodRequest {
                requests: PerResource {
                    cpu: pod.milli,
                    memory: 0,
                },
                workload: (pod.controller != 0).then_some(workload),
                ..PodRequest::default()
            };
            (pod.uid.to_owned(), request)
        });
        let pods = pods.collect();
        self.estimator.set_view(View { pods, ..view(&[]) });
    }

    /// Ends frames in which these pods use that much each.
    pub(super) fn run(&mut self, frames: u64, used: &[(&str, u64)]) {
        for _ in 0..frames {
            let pods = used.iter().map(|(uid, milli)| {
                let used = PerResource {
                    cpu: *milli,
                    memory: 0,
                };
                (
                    (*uid).to_owned(),
                    PodUse {
                        low: used,
                        high: used,
                    },
                )
            });
            let frame = Frame {
                index: self.frame,
                is_valid: true,
                peak: PerResource {
                    cpu: used.iter().map(|(_, milli)| milli).sum(),
                    memory: 0,
                },
                pods: pods.collect(),
                ..Frame::default()
            };
            self.estimator.end_frame(&frame);
            self.frame += 1;
        }
    }

    pub(super) fn slack(&self) -> Slack {
        self.estimator.estimates().cpu.slack
    }

    /// Rw and P0.
    pub(super) fn terms(&self) -> (u64, u64) {
        (self.slack().warm_requests, self.slack().peak)
    }
}

const OLD: ListedPod = member("old", 1000, 7, 1);

/// A node on which `OLD` used 400 for more than a day, and has left.
fn left() -> SucceededNode {
    let mut node = SucceededNode::new();
    node.list(&[OLD]);
    node.run(LONG, &[("old", 400)]);
    assert_eq!(node.terms(), (1000, 400));
    node.list(&[]);
    assert_eq!(node.terms(), (0, 400), "not trusted any more");
    node
}

#[rstest]
#[case::same_version(member("new", 1000, 7, 1), 1000)]
#[case::other_version(member("new", 1000, 7, 2), 800)]
#[case::smaller_request(member("new", 500, 7, 2), 400)]
#[case::larger_request(member("new", 4000, 7, 2), 800)]
fn a_successor_takes_over_trust_and_history(#[case] new: ListedPod, #[case] trusted: u64) {
    let mut node = left();
    node.run(1, &[]);
    assert_eq!(node.terms(), (0, 0), "its use has left with it");
    node.list(&[new]);
    assert_eq!(node.terms(), (0, 0), "not measured yet");
    node.run(1, &[("new", 350)]);
    let (warm, peak) = node.terms();
    // 80 % of 264 frames are 211.
    assert!(warm <= trusted && warm + 2 >= trusted, "{warm}");
    assert_eq!(peak, 400, "the history is that of both");
    node.run(LONG, &[("new", 350)]);
    assert_eq!(node.terms().0, new.milli, "after a day it is trusted by itself");
}

#[test]
fn trust_in_a_pod_is_reported_as_a_share_of_its_request() {
    let mut node = left();
    node.list(&[member("new", 4000, 7, 1)]);
    node.run(1, &[("new", 350)]);
    let trust = node.estimator.trust();
    assert_eq!((trust[0].uid.as_str(), trust[0].ppm.cpu), ("new", 250_000));
}

#[rstest]
#[case::other_controller(member("new", 1000, 8, 1))]
#[case::bare(member("new", 1000, 0, 1))]
fn a_pod_of_another_controller_starts_from_nothing(#[case] new: ListedPod) {
    let mut node = left();
    node.list(&[new]);
    node.run(1, &[("new", 350)]);
    assert_eq!(node.terms(), (0, 350));
}

#[rstest]
#[case::at_once(0, true)]
#[case::within_ten_minutes(1, true)]
#[case::later(2, false)]
fn a_successor_is_one_that_comes_within_ten_minutes(#[case] frames: u64, #[case] is_one: bool) {
    let mut node = left();
    // The first frame without the pod is the one in which it departs.
    node.run(1, &[]);
    node.run(frames, &[]);
    node.list(&[member("new", 1000, 7, 1)]);
    node.run(1, &[("new", 350)]);
    assert_eq!(node.terms(), if is_one { (1000, 400) } else { (0, 350) });
}

#[test]
fn a_pod_that_was_still_measured_is_succeeded_in_the_same_frame() {
    let mut node = left();
    node.list(&[member("new", 1000, 7, 1)]);
    node.run(1, &[("old", 100), ("new", 200)]);
    assert_eq!(node.terms(), (1000, 400));
    node.list(&[]);
    node.run(2, &[]);
    assert_eq!(
        node.terms(),
        (0, 100),
        "only what the successor used of that frame left with it"
    );
}

#[test]
fn one_pod_has_one_successor() {
    let mut node = left();
    node.list(&[member("a", 1000, 7, 1), member("b", 1000, 7, 1)]);
    node.run(1, &[("a", 350), ("b", 350)]);
    assert_eq!(node.terms().0, 1000);
}

#[test]
fn a_pod_is_not_succeeded_while_it_is_listed() {
    let mut node = SucceededNode::new();
    node.list(&[OLD]);
    node.run(LONG, &[("old", 400)]);
    node.list(&[OLD, member("new", 1000, 7, 1)]);
    node.run(1, &[("old", 400), ("new", 350)]);
    assert_eq!(node.terms().0, 1000);
}

#[test]
fn a_request_that_grows_loses_what_was_taken_over() {
    let mut node = left();
    node.list(&[member("new", 1000, 7, 1)]);
    node.run(1, &[("new", 350)]);
    node.list(&[member("new", 1001, 7, 1)]);
    assert_eq!(node.terms().0, 0);
}

#[test]
fn a_chain_of_versions_is_trusted_no_more_than_its_weakest_part() {
    let mut node = left();
    node.list(&[member("b", 400, 7, 2)]);
    node.run(1, &[("b", 350)]);
    node.list(&[]);
    node.run(1, &[]);
    node.list(&[member("c", 1000, 7, 1)]);
    node.run(1, &[("c", 350)]);
    let (warm, _) = node.terms();
    assert!((318..=320).contains(&warm), "80 % of 400: {warm}");
}

#[test]
fn a_lineage_survives_a_restart_of_the_agent() {
    let mut node = left();
    node.list(&[member("new", 1000, 7, 2)]);
    node.run(1, &[("new", 350)]);
    let before = node.terms();
    let snapshot = node.estimator.snapshot(Duration::from_secs(1));
    let lineages = snapshot.lineages();
    let json = serde_json::to_string(&snapshot).unwrap();
    let read: Snapshot = serde_json::from_str(&json).unwrap();
    let lapse = Lapse {
        frame: node.frame,
        now: Duration::from_secs(1),
        boot: Boot::Same,
    };
    for (snapshot, expected) in [(read.clone().with_lineages(&lineages), before.0), (read, 0)] {
        let mut resumed = SucceededNode {
            estimator: Estimator::resume(TIMING, snapshot, lapse).unwrap(),
            frame: node.frame,
        };
        resumed.list(&[member("new", 1000, 7, 2)]);
        assert_eq!(resumed.terms().0, expected);
    }
}
