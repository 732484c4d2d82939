//! Tests of `Decider` on a calm node, whose CPU counters come with one sample in four: nothing is decided otherwise.

use super::*;
use crate::sample::{Counts, Poll};

/// Milli-cores that are busy in a quarter of a second: now and then all, for more than two brake periods.
fn busy_milli(quarter: u64) -> u64 {
    if (quarter / 150).is_multiple_of(13) {
        4_000
    } else {
        400 + quarter * 7 % 900
    }
}

/// Adds the counts of `next` to a stretch that ends at its start.
fn add(stretch: &mut Counts, next: Counts) {
    stretch.until_ns = next.until_ns;
    stretch.busy_ns += next.busy_ns;
    stretch.shared_busy_ns += next.shared_busy_ns;
    stretch.switches += next.switches;
    stretch.windows.windows.extend(next.windows.windows);
}

/// Decision after this number of quarters of a second, if counters arrive with one sample in `one_in`.
fn decided(quarters: u64, one_in: u64) -> Decider {
    let identity = Identity {
        node: "n1".into(),
        boot_id: "b1".into(),
    };
    let cpu_source = decider(Origin::Ebpf).inputs.cpu_source().clone();
    let mut decider = Decider::new(identity, cpu_source, Profile::Production.timing(), POLL);
    decider.direct(pods(1));
    let mut held: Option<Counts> = None;
    for quarter in 4..=quarters {
        let mut sample = sample(quarter, busy_milli(quarter));
        let poll = sample.poll.take().unwrap();
        match &mut held {
            Some(counts) => add(counts, poll.counts),
            None => held = Some(poll.counts),
        }
        if quarter % one_in == 0 {
            let counts = held.take().unwrap();
            sample.poll = Some(Poll { counts, ..poll });
        }
        decider.observe(sample);
    }
    decider
}

#[test]
fn counters_once_a_second_give_the_same_decisions_as_with_each_sample() {
    // Four frames and more; the last brake periods are full.
    let quarters = 3 * 13 * 150 + 140;
    let [close, calm] = [1, 4].map(|one_in| decided(quarters, one_in).inputs);
    assert_eq!(calm.estimates(), close.estimates());
    assert_eq!(calm.brake_inputs(), close.brake_inputs());
    let cpu = close.estimates().cpu;
    assert!(cpu.coverage_ppm > 0 && cpu.brake >= Brake::Hold, "{cpu:?}");
}
