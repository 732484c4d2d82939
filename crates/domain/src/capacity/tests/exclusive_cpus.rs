//! Tests of exclusive CPUs: they are counted once, in every mode.

use super::*;
use crate::hint::Origin;

fn holding(cents: u32, exclusive: u64) -> EffectiveHint {
    let mut hint = found(cents, Freshness::Fresh);
    hint.note.excl = exclusive;
    hint
}

fn cpu(policy: &Policy, hint: &EffectiveHint, node: &NodeState) -> (Option<u64>, NodeState) {
    let decision = decided(policy, Some(hint), Writer::Other, node, node);
    (decision.outcomes.cpu.result, stored(node, &decision))
}

#[rstest]
#[case::auto(Mode::Auto, 2000 + 3000)]
#[case::guard(Mode::Guard, 2000 + 2500)]
#[case::fixed(STATIC, 2000 + 2500)]
fn only_the_shared_pool_is_amplified(#[case] mode: Mode, #[case] expected: u64) {
    let node = with_ratio(state("4", "8Gi"), r#"{"cpu":1.25}"#);
    let (result, _) = cpu(&policy(mode), &holding(150, 2000), &node);
    assert_eq!(result, Some(expected));
}

#[test]
fn a_minimum_below_one_keeps_exclusive_cpus() {
    let mut policy = policy(Mode::Auto);
    policy.bounds.cpu.min = Cents(50);
    let (result, _) = cpu(&policy, &holding(50, 3000), &state("4", "8Gi"));
    assert_eq!(result, Some(3500));
}

#[test]
fn exclusive_cpus_above_raw_count_as_raw() {
    let (result, _) = cpu(&policy(Mode::Auto), &holding(150, 9000), &state("4", "8Gi"));
    assert_eq!(result, Some(4000));
}

#[test]
fn a_replica_without_the_stream_knows_exclusive_cpus_in_every_mode() {
    for mode in [Mode::Auto, Mode::Guard, STATIC] {
        let node = with_ratio(state("4", "8Gi"), r#"{"cpu":1.25}"#);
        let (_, node) = cpu(&policy(mode), &holding(150, 2000), &node);
        let note = node.annotations.hint.as_ref().unwrap().value().unwrap().clone();
        let held = EffectiveHint::new(note, Freshness::Hold);
        assert_eq!(cpu(&policy(mode), &held, &node).1, node, "{mode}");
    }
}

#[test]
fn static_writes_no_hint_without_exclusive_cpus() {
    let node = with_ratio(state("4", "8Gi"), r#"{"cpu":1.25}"#);
    assert_eq!(
        cpu(&policy(STATIC), &holding(150, 0), &node).1.annotations.hint,
        None
    );
    let unmanaged = state("4", "8Gi");
    let (_, after) = cpu(&policy(STATIC), &holding(150, 2000), &unmanaged);
    assert_eq!(after, unmanaged);
}

/// The answering replica last saw exclusive CPUs and would count them again.
#[test]
fn static_records_a_nudge_without_exclusive_cpus() {
    let node = with_ratio(state("4", "8Gi"), r#"{"cpu":1.25}"#);
    let nudged = EffectiveHint {
        origin: Origin::Nudge,
        is_record_due: true,
        ..holding(150, 0)
    };
    let (result, node) = cpu(&policy(STATIC), &nudged, &node);
    assert_eq!(result, Some(5000));
    let note = node.annotations.hint.as_ref().unwrap().value().unwrap();
    assert_eq!(note.excl, 0);
}

#[test]
fn static_keeps_the_hint_after_exclusive_cpus_end() {
    let policy = policy(STATIC);
    let node = with_ratio(state("4", "8Gi"), r#"{"cpu":1.25}"#);
    let (_, node) = cpu(&policy, &holding(150, 2000), &node);
    let (result, node) = cpu(&policy, &holding(150, 0), &node);
    assert_eq!(result, Some(5000));
    let note = node.annotations.hint.as_ref().unwrap().value().unwrap();
    assert_eq!(note.excl, 0);
}

proptest! {
    /// The bounds limit the shared pool, exclusive CPUs stay unchanged, and a second decision changes nothing.
    #[test]
    fn exclusive_cpus_are_never_amplified(
        milli in 1_u64..500_000, exclusive in 0_u64..600_000, cents in 50_u32..400,
        mode in prop::sample::select(vec![STATIC, Mode::Guard, Mode::Auto]),
    ) {
        let mut node = with_ratio(state("1", "8Gi"), r#"{"cpu":1.37}"#);
        node.allocatable.cpu = Some(Quantity::from_milli(milli));
        node.capacity.cpu = node.allocatable.cpu;
        let mut policy = policy(mode);
        policy.bounds.cpu.min = Cents(50);
        let hint = holding(cents, exclusive);
        let (result, first) = cpu(&policy, &hint, &node);
        let held = exclusive.min(milli);
        let shared = result.unwrap() - held;
        prop_assert!(shared <= (milli - held) * 2 && shared >= (milli - held) / 2);
        prop_assert_eq!(cpu(&policy, &hint, &first).1, first);
    }
}
