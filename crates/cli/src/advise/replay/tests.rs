//! Tests of the replay of one node, on synthetic histories.

use super::*;

const GIB: u64 = 1 << 30;

fn policy() -> Policy {
    let bounds = |max| Bounds {
        min: Cents::ONE,
        max: Cents(max),
    };
    Policy {
        bounds: PerResource {
            cpu: bounds(200),
            memory: bounds(100),
        },
        target_ppm: PerResource {
            cpu: 900_000,
            memory: 900_000,
        },
    }
}

/// Ten pods that request 3 cores each and use `each`; the node itself uses half a core.
fn moment(index: u64, each: u64) -> NodeFrame {
    let pod = PodMoment {
        used: PerResource {
            cpu: Some(each),
            memory: Some(GIB),
        },
        anonymous: Some(GIB),
        requests: PerResource {
            cpu: Some(3000),
            memory: Some(2 * GIB),
        },
    };
    NodeFrame {
        index,
        used: PerResource {
            cpu: vec![10 * each + 500; 5],
            memory: vec![12 * GIB; 5],
        },
        slots: 5,
        capacity: PerResource {
            cpu: Some(32_000),
            memory: Some(128 * GIB),
        },
        allocatable: PerResource {
            cpu: Some(31_500),
            memory: Some(120 * GIB),
        },
        pods: (0..10)
            .map(|pod_number| (format!("n/p{pod_number}"), pod))
            .collect(),
    }
}

fn node(frames: u64, each: impl Fn(u64) -> u64) -> ReplayedNode {
    let mut node = ReplayedNode::new("a".to_owned(), policy());
    for index in 1000..1000 + frames {
        node.replay(&moment(index, each(index)));
    }
    node
}

#[test]
fn unused_capacity_is_added_after_a_day() {
    let node = node(4 * 288, |_| 1000);
    let tally = node.tally(Resource::Cpu);
    assert_eq!(tally.given.len(), 3 * 288);
    // P = 11,025; S = 28,800 - 11,025 + 30,000 - 31,500 = 16,275: 1.51.
    assert_eq!(tally.given.last(), Some(&151));
    assert_eq!((tally.missed, tally.saturated, tally.would_saturate), (0, 0, 0));
    assert!(tally.judged > 24, "{}", tally.judged);
}

#[test]
fn a_day_with_a_new_highest_use_is_a_miss() {
    let surge = 1000 + 3 * 288 + 100;
    let node = node(4 * 288 + 200, |index| if index == surge { 1500 } else { 1000 });
    let tally = node.tally(Resource::Cpu);
    assert!(tally.missed > 0 && tally.missed < tally.judged, "{tally:?}");
}

#[test]
fn a_node_above_safe_use_has_a_lower_safe_ratio() {
    let node = node(3 * 288, |_| 2800);
    let tally = node.tally(Resource::Cpu);
    assert!(tally.given.iter().all(|&cents| cents == 100));
    // P = 29,925; S = -2,625: 28,875 of 31,500.
    assert_eq!(tally.needed.last(), Some(&91));
    assert_eq!(tally.gained, 0);
}

#[test]
fn a_node_of_unknown_size_has_no_figures() {
    let mut node = ReplayedNode::new("a".to_owned(), policy());
    let mut unknown = moment(1000, 1);
    unknown.allocatable.memory = None;
    node.replay(&unknown);
    assert!(!node.has_view());
}

#[test]
fn frames_with_too_few_samples_do_not_count() {
    let mut node = ReplayedNode::new("a".to_owned(), policy());
    for index in 1000..1000 + 2 * 288 {
        let mut gappy = moment(index, 1000);
        gappy.used.cpu.truncate(3);
        node.replay(&gappy);
    }
    assert_eq!(node.tally(Resource::Cpu).given.len(), 0);
}

#[test]
fn allocatable_above_capacity_is_not_raw() {
    let mut node = ReplayedNode::new("a".to_owned(), policy());
    let mut amplified = moment(1000, 1000);
    amplified.allocatable.cpu = Some(48_000);
    node.replay(&amplified);
    assert_eq!(node.given.view().unwrap().raw.cpu, 32_000);
}
