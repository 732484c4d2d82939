//! Tests of the parts of a decision other than its amounts: reasons, recorded annotations, and values for other
//! readers.

use std::collections::BTreeSet;

use super::*;
use crate::hint::{AgentMode, Origin};

fn reasons(mode: Mode, hint: Option<&EffectiveHint>, node: &NodeState) -> Vec<Why> {
    decided(&policy(mode), hint, Writer::Other, node, node)
        .outcomes
        .cpu
        .why
}

#[test]
fn unchanged_values_have_a_reason() {
    assert_eq!(reasons(STATIC, None, &state("4", "8Gi")), [Why::Unmanaged]);
    let absent = with_ratio(state("", "8Gi"), r#"{"cpu":2}"#);
    assert_eq!(reasons(STATIC, None, &absent), [Why::Absent]);
    let unreadable = with_ratio(state("-1", "8Gi"), r#"{"cpu":2}"#);
    assert_eq!(reasons(STATIC, None, &unreadable), [Why::Absent]);
}

#[rstest]
#[case::nothing_asks_for_it(Mode::Off, amplified())]
#[case::it_was_never_decided(
    STATIC,
    with_raw(with_ratio(state("4", "8Gi"), r#"{"cpu":2}"#), r#"{"cpu":"4"}"#)
)]
#[case::it_is_amplified(Mode::Auto, amplified())]
fn records_stay_if_a_write_has_no_allocatable(#[case] mode: Mode, #[case] mut node: NodeState) {
    node.allocatable = PerResource::default();
    let hint = found(150, Freshness::Fresh);
    let decision = decided(&policy(mode), Some(&hint), Writer::Kubelet, &node, &node);
    assert_eq!(decision.annotations, []);
}

#[test]
fn other_readers_get_stored_raw_and_written_values() {
    let node = amplified();
    let both = |cpu| PerResource {
        cpu: Some(cpu),
        memory: Some(8 << 30),
    };
    assert_eq!(node.amounts(), both(6000));
    assert_eq!(recorded_raw(&node, "u1"), both(4000));
    assert_eq!(last_written(&node.annotations, "u1"), both(6000));
    assert_eq!(last_written(&node.annotations, "u2"), PerResource::default());
}

#[test]
fn reasons_and_rules_have_distinct_codes_and_texts() {
    let about: BTreeSet<&str> = Why::ALL.map(Why::about).into();
    assert_eq!(about.len(), Why::ALL.len());
    let about: BTreeSet<&str> = Rule::ALL.map(Rule::about).into();
    assert_eq!(about.len(), Rule::ALL.len());
    assert!(Why::ALL.iter().all(|why| why.to_string() == why.code()));
}

#[rstest]
#[case::below_the_limit("4.99", &[Why::Annotation])]
#[case::at_the_limit("5.00", &[Why::Annotation])]
#[case::above_it("5.01", &[Why::Annotation, Why::ClampedMax])]
fn only_annotations_above_the_limit_are_clamped(#[case] ratio: &str, #[case] why: &[Why]) {
    let node = with_ratio(state("4", "8Gi"), &format!(r#"{{"cpu":{ratio}}}"#));
    assert_eq!(reasons(STATIC, None, &node), why);
}

#[rstest]
#[case::at_the_upper_bound(200, &[Why::Hint])]
#[case::above_it(201, &[Why::Hint, Why::ClampedMax])]
#[case::at_the_lower_bound(100, &[Why::Hint])]
#[case::below_it(99, &[Why::Hint, Why::ClampedMin])]
fn only_hints_outside_the_bounds_are_clamped(#[case] cents: u32, #[case] why: &[Why]) {
    let hint = found(cents, Freshness::Fresh);
    assert_eq!(reasons(Mode::Auto, Some(&hint), &state("4", "8Gi")), why);
}

#[rstest]
#[case::a_whole_step(105, &[Why::Hint])]
#[case::more(106, &[Why::Hint, Why::Slewed])]
fn a_rise_of_a_step_is_not_slewed(#[case] cents: u32, #[case] why: &[Why]) {
    let hint = EffectiveHint {
        step: PerResource::from_fn(|_| Cents(5)),
        ..found(cents, Freshness::Fresh)
    };
    assert_eq!(reasons(Mode::Auto, Some(&hint), &state("4", "8Gi")), why);
}

#[rstest]
#[case::at_the_limit(AgentMode::Proc, 150, 150, &[Why::Hint])]
#[case::above_it(AgentMode::Proc, 151, 150, &[Why::Hint, Why::ProcfsOnly])]
#[case::blind(AgentMode::Blind, 150, 100, &[Why::Hint, Why::Blind])]
#[case::shed_sees_enough(AgentMode::FullShed, 151, 151, &[Why::Hint])]
fn the_agents_mode_limits_its_hint(
    #[case] sight: AgentMode,
    #[case] cents: u32,
    #[case] expected: u32,
    #[case] why: &[Why],
) {
    let mut hint = found(cents, Freshness::Fresh);
    hint.note.mode = sight.name().to_owned();
    let node = state("4", "8Gi");
    let cpu = decided(&policy(Mode::Auto), Some(&hint), Writer::Other, &node, &node)
        .outcomes
        .cpu;
    assert_eq!((cpu.hinted, cpu.why.as_slice()), (Some(Cents(expected)), why));
}

#[rstest]
#[case::some_are_held(2000, 150, true)]
#[case::none_are_held(0, 150, false)]
#[case::nothing_is_amplified(2000, 100, false)]
fn exclusive_cpus_are_a_reason_if_they_change_the_product(
    #[case] exclusive: u64,
    #[case] cents: u32,
    #[case] is_told: bool,
) {
    let mut hint = found(cents, Freshness::Fresh);
    hint.note.excl = exclusive;
    let why = reasons(Mode::Auto, Some(&hint), &state("4", "8Gi"));
    assert_eq!(why.contains(&Why::ExclusiveCpus), is_told, "{why:?}");
}

#[test]
fn an_annotation_that_holds_the_ratio_applies_its_own() {
    let mut hint = found(150, Freshness::Fresh);
    hint.note.excl = 2000;
    let raw = state("4", "8Gi");
    let node = stored(
        &raw,
        &decided(&policy(Mode::Auto), Some(&hint), Writer::Other, &raw, &raw),
    );
    let held = EffectiveHint {
        origin: Origin::Annotation,
        ..EffectiveHint::new(hint.note, Freshness::Hold)
    };
    let cpu = decided(&policy(Mode::Auto), Some(&held), Writer::Other, &node, &node)
        .outcomes
        .cpu;
    let ratio = Some(Ratio::from_cents(Cents(150)));
    assert_eq!((cpu.result, cpu.applied), (Some(5000), ratio));
}

#[test]
fn auto_without_a_hint_keeps_the_written_value() {
    let node = amplified();
    let decision = decided(&policy(Mode::Auto), None, Writer::Other, &node, &node);
    assert_eq!(texts(&stored(&node, &decision)).0, "6");
}

#[test]
fn the_ratio_in_cents_is_exact_for_truncated_products() {
    for raw in [1001, 7910, 4000, 32_612_508] {
        for cents in 50..=1000 {
            assert_eq!(
                cents_of(raw * cents / 100, raw),
                u32::try_from(cents).ok().map(Cents)
            );
        }
    }
    assert_eq!(cents_of(5340, 4000), Some(Cents(133)), "of 1.335");
    assert_eq!(cents_of(1, 0), None);
}

#[test]
fn guard_without_a_hint_has_the_reason_no_hint() {
    let node = with_ratio(state("4", "8Gi"), r#"{"cpu":1.5}"#);
    let cpu = decided(&policy(Mode::Guard), None, Writer::Other, &node, &node)
        .outcomes
        .cpu;
    assert_eq!((cpu.hinted, cpu.why.as_slice()), (None, [Why::NoHint].as_slice()));
}

#[test]
fn an_invalid_annotation_is_a_reason() {
    let node = with_ratio(state("4", "8Gi"), r#"{"cpu":"1.5"}"#);
    assert_eq!(reasons(STATIC, None, &node), [Why::BadAnnotation]);
}
