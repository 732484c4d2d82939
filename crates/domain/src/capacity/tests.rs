//! Tests of capacity decisions: Koordinator's cases, and cases in which the author of a value is easy to mistake.

mod exclusive_cpus;
mod forged;
mod hint_steps;
mod places;
mod pod_floor;
mod reasons;
mod unknown_policy;

use std::collections::BTreeMap;

use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::{
    hint::{Freshness, NoRaiseReason, Note, tests::hint},
    policy::{Bounds, Mode},
};

const STATIC: Mode = Mode::Static;

/// State of a node with these allocatable values and equal capacity.
fn state(cpu: &str, memory: &str) -> NodeState {
    let value = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
    NodeState {
        allocatable: PerResource {
            cpu: value(cpu),
            memory: value(memory),
        },
        capacity: PerResource {
            cpu: value(cpu),
            memory: value(memory),
        },
        ready_heartbeat: Some("t0".to_owned()),
        annotations: Annotations::default(),
    }
}

fn with_ratio(mut state: NodeState, ratio: &str) -> NodeState {
    state.annotations.ratio = Some(ratio.into());
    state
}

fn with_raw(mut state: NodeState, raw: &str) -> NodeState {
    state.annotations.raw = Some(raw.into());
    state
}

/// The object after a status sync of the kubelet: the heartbeat has changed.
fn synced(mut state: NodeState, cpu: &str) -> NodeState {
    state.allocatable.cpu = Some(cpu.parse().unwrap());
    state.ready_heartbeat = Some(format!("{}'", state.ready_heartbeat.unwrap()));
    state
}

fn policy(mode: Mode) -> Policy {
    Policy {
        mode,
        ..Policy::default()
    }
}

fn found(cents: u32, standing: Freshness) -> EffectiveHint {
    let mut hint = hint("n1", 7);
    hint.resources.cpu.published = Cents(cents);
    EffectiveHint::new(Note::from_hint(&hint), standing)
}

fn decided(
    policy: &Policy,
    hint: Option<&EffectiveHint>,
    writer: Writer,
    old: &NodeState,
    new: &NodeState,
) -> Decision {
    let held = Some(PerResource::default());
    decide(
        &Write {
            uid: "u1",
            writer,
            old,
            new,
        },
        &Basis {
            policy,
            hint,
            pod_demand: held,
        },
    )
}

/// Demand of pods for CPU: admitted pods, and all that fit.
fn cpu_held(admitted: u64, fit: u64) -> PerResource<PodDemand> {
    PerResource {
        cpu: PodDemand {
            admitted,
            fit,
            ..PodDemand::default()
        },
        memory: PodDemand::default(),
    }
}

/// Stored object: the write with the decision applied.
fn stored(new: &NodeState, decision: &Decision) -> NodeState {
    let mut stored = new.clone();
    for resource in Resource::ALL {
        if let Some(value) = decision.allocatable.get(resource) {
            // As text, because that is the stored form, in which the family of an amount can change.
            *stored.allocatable.get_mut(resource) = Some(value.to_string().parse().unwrap());
        }
    }
    let mut texts: BTreeMap<_, _> = new.annotations.texts().into();
    for (key, value) in &decision.annotations {
        let before = texts.insert(key, value.as_deref());
        assert!(before.is_some(), "{key} is not one of ours");
    }
    let text = |key: &'static str| texts[key].map(str::to_owned);
    stored.annotations = Annotations::read(text, &new.annotations);
    stored
}

/// Text of an annotation, if there is one.
fn text_of<T>(annotation: Option<&Annotation<T>>) -> Option<String> {
    annotation.map(|annotation| annotation.text().to_owned())
}

fn texts(state: &NodeState) -> (String, String, Option<String>) {
    let text = |value: &Option<Quantity>| value.map(|value| value.to_string()).unwrap_or_default();
    (
        text(&state.allocatable.cpu),
        text(&state.allocatable.memory),
        text_of(state.annotations.raw.as_ref()),
    )
}

/// A write in `static` by a client other than the kubelet whose allocatable equals the stored one.
fn by_static(new: &NodeState) -> NodeState {
    stored(new, &decided(&policy(STATIC), None, Writer::Other, new, new))
}

#[rstest]
#[case::n1("4", "8Gi", r#"{"cpu":1.5}"#, "6", "8Gi", r#"{"cpu":"4","memory":"8Gi"}"#)]
#[case::n2_d8(
    "3920m",
    "7Gi",
    r#"{"cpu":1.5,"memory":1.2}"#,
    "5880m",
    "9019431321",
    r#"{"cpu":"3920m","memory":"7Gi"}"#
)]
#[case::n4(
    "4",
    "32612508Ki",
    r#"{"memory":1.5}"#,
    "4",
    "48918762Ki",
    r#"{"cpu":"4","memory":"32612508Ki"}"#
)]
#[case::n6(
    "4",
    "1000M",
    r#"{"memory":1.5}"#,
    "4",
    "1500M",
    r#"{"cpu":"4","memory":"1G"}"#
)]
#[case::n9(
    "7910m",
    "8Gi",
    r#"{"cpu":1.33}"#,
    "10520m",
    "8Gi",
    r#"{"cpu":"7910m","memory":"8Gi"}"#
)]
#[case::n10(
    "1001m",
    "8Gi",
    r#"{"cpu":1.1}"#,
    "1101m",
    "8Gi",
    r#"{"cpu":"1001m","memory":"8Gi"}"#
)]
#[case::n12("4000m", "", r#"{"cpu":2}"#, "8", "", r#"{"cpu":"4"}"#)]
#[case::n23("4", "8Gi", r#"{"cpu":1}"#, "4", "8Gi", r#"{"cpu":"4","memory":"8Gi"}"#)]
#[case::n24("4", "8Gi", r#"{"cpu":0.5}"#, "4", "8Gi", r#"{"cpu":"4","memory":"8Gi"}"#)]
#[case::n25("4", "8Gi", "null", "4", "8Gi", r#"{"cpu":"4","memory":"8Gi"}"#)]
#[case::n26_d3("4", "8Gi", r#"{"cpu":"1.5"}"#, "4", "8Gi", r#"{"cpu":"4","memory":"8Gi"}"#)]
#[case::n28_d3("4", "8Gi", " ", "4", "8Gi", r#"{"cpu":"4","memory":"8Gi"}"#)]
#[case::n31_d7("8", "8Gi", r#"{"cpu":1e300}"#, "8", "8Gi", r#"{"cpu":"8","memory":"8Gi"}"#)]
#[case::n31_clamped("8", "8Gi", r#"{"cpu":50}"#, "40", "8Gi", r#"{"cpu":"8","memory":"8Gi"}"#)]
#[case::n32_d7("8", "12Pi", r#"{"memory":2}"#, "8", "24Pi", r#"{"cpu":"8","memory":"12Pi"}"#)]
#[case::n34("4", "8Gi", r#"{"CPU":2}"#, "4", "8Gi", r#"{"cpu":"4","memory":"8Gi"}"#)]
#[case::n35(
    "8",
    "8Gi",
    r#"{"cpu":2,"cpu":3}"#,
    "24",
    "8Gi",
    r#"{"cpu":"8","memory":"8Gi"}"#
)]
#[case::n47("0", "8Gi", r#"{"cpu":2}"#, "0", "8Gi", r#"{"cpu":"0","memory":"8Gi"}"#)]
fn a_static_ratio_is_applied_as_koordinator_applies_it(
    #[case] cpu: &str,
    #[case] memory: &str,
    #[case] ratio: &str,
    #[case] cpu_after: &str,
    #[case] memory_after: &str,
    #[case] raw: &str,
) {
    let after = by_static(&with_ratio(state(cpu, memory), ratio));
    assert_eq!(
        texts(&after),
        (
            cpu_after.to_owned(),
            memory_after.to_owned(),
            Some(raw.to_owned())
        )
    );
}

#[rstest]
#[case::n14("8", r#"{"cpu":2}"#, r#"{"cpu":"4","memory":"8Gi"}"#, "8")]
#[case::n15("8", r#"{"cpu":3}"#, r#"{"cpu":"4","memory":"8Gi"}"#, "12")]
#[case::n42("8", r#"{"cpu":2}"#, r#"{"cpu":4}"#, "8")]
fn the_saved_raw_value_is_the_baseline(
    #[case] cpu: &str,
    #[case] ratio: &str,
    #[case] raw: &str,
    #[case] after: &str,
) {
    let node = with_raw(with_ratio(state(cpu, "8Gi"), ratio), raw);
    assert_eq!(texts(&by_static(&node)).0, after);
}

#[test]
fn a_node_without_ratio_and_records_is_left_unchanged() {
    let node = state("4", "8Gi");
    assert_eq!(
        decided(&policy(STATIC), None, Writer::Other, &node, &node).annotations,
        vec![]
    );
}

#[test]
fn n20_remains_of_a_ratio_are_removed_and_foreign_values_stay() {
    let node = with_raw(state("8", "8Gi"), r#"{"cpu":"4"}"#);
    assert_eq!(texts(&by_static(&node)), ("8".to_owned(), "8Gi".to_owned(), None));
}

#[test]
fn d10_a_removed_ratio_restores_raw_in_the_same_write() {
    let mut node = by_static(&with_ratio(state("4", "8Gi"), r#"{"cpu":2}"#));
    node.annotations.ratio = None;
    assert_eq!(texts(&by_static(&node)), ("4".to_owned(), "8Gi".to_owned(), None));
}

#[test]
fn n17_a_kubelets_new_value_is_raw() {
    let old = with_raw(
        with_ratio(state("8", "8Gi"), r#"{"cpu":2}"#),
        r#"{"cpu":"4","memory":"8Gi"}"#,
    );
    let new = synced(old.clone(), "6");
    let after = stored(&new, &decided(&policy(STATIC), None, Writer::Kubelet, &old, &new));
    assert_eq!(texts(&after).0, "12");
}

#[test]
fn a_recorded_zero_has_no_format_family() {
    let node = with_raw(state("4", "8Gi"), r#"{"cpu":"4","memory":"0Gi"}"#);
    let call = |new: &NodeState| {
        let decision = decided(&policy(Mode::Auto), None, Writer::Other, &node, new);
        stored(new, &decision)
    };
    let first = call(&node);
    assert_eq!(
        texts(&first),
        (
            "4".to_owned(),
            "8Gi".to_owned(),
            Some(r#"{"cpu":"4","memory":"0"}"#.to_owned())
        )
    );
    assert_eq!(call(&first), first);
}

#[test]
fn n18_d4_a_third_party_that_changes_memory_does_not_amplify_cpu_again() {
    let old = with_raw(
        with_ratio(state("8", "8Gi"), r#"{"cpu":2}"#),
        r#"{"cpu":"4","memory":"8Gi"}"#,
    );
    let mut new = old.clone();
    new.allocatable.memory = Some("7Gi".parse().unwrap());
    let after = stored(&new, &decided(&policy(STATIC), None, Writer::Other, &old, &new));
    assert_eq!(
        texts(&after),
        (
            "8".to_owned(),
            "7Gi".to_owned(),
            Some(r#"{"cpu":"4","memory":"7Gi"}"#.to_owned())
        )
    );
}

#[test]
fn n44_absent_allocatable_is_left_alone() {
    let node = with_ratio(
        NodeState {
            allocatable: PerResource::default(),
            ..state("4", "8Gi")
        },
        r#"{"cpu":2}"#,
    );
    assert_eq!(
        decided(&policy(STATIC), None, Writer::Other, &node, &node).allocatable,
        PerResource::default()
    );
}

/// A node that auto has amplified from 4 to 6 (ratio 1.50).
fn amplified() -> NodeState {
    let raw = state("4", "8Gi");
    let after = stored(
        &raw,
        &decided(
            &policy(Mode::Auto),
            Some(&found(150, Freshness::Fresh)),
            Writer::Kubelet,
            &raw,
            &raw,
        ),
    );
    assert_eq!(texts(&after).0, "6");
    after
}

#[test]
fn g1a_a_heartbeat_only_patch_after_a_nudge_does_not_amplify_twice() {
    let old = amplified();
    let new = synced(old.clone(), "6");
    let after = stored(
        &new,
        &decided(
            &policy(Mode::Auto),
            Some(&found(150, Freshness::Fresh)),
            Writer::Kubelet,
            &old,
            &new,
        ),
    );
    assert_eq!(texts(&after), texts(&old));
}

#[test]
fn n19_d1_a_new_capacity_shows_that_raw_became_the_amplified_value() {
    let old = amplified();
    let mut new = synced(old.clone(), "6");
    new.capacity.cpu = Some("6".parse().unwrap());
    let after = stored(
        &new,
        &decided(
            &policy(Mode::Auto),
            Some(&found(150, Freshness::Fresh)),
            Writer::Kubelet,
            &old,
            &new,
        ),
    );
    assert_eq!(texts(&after).0, "9");
}

/// The stored 6 of a node whose capacity has become 6 is raw (G1a), unless the floor policy recorded that the kubelet
/// sent 4.
#[rstest]
#[case::of_this_request("t0'", Writer::Kubelet, "4", "6")]
#[case::of_an_earlier_one("t0", Writer::Kubelet, "4", "9")]
#[case::of_another_value_than_the_policy_replaces("t0'", Writer::Kubelet, "3", "9")]
#[case::of_another_client("t0'", Writer::Other, "3", "6")]
fn g0_the_floor_policys_note_counts_only_in_its_own_request(
    #[case] at: &str,
    #[case] writer: Writer,
    #[case] noted: &str,
    #[case] expected: &str,
) {
    let old = amplified();
    let mut new = synced(old.clone(), "6");
    new.capacity.cpu = Some("6".parse().unwrap());
    new.annotations.kubelet_raw = Some(format!(r#"{{"cpu":"{noted}","memory":"8Gi","at":"{at}"}}"#).into());
    let hint = found(150, Freshness::Fresh);
    let decision = decided(&policy(Mode::Auto), Some(&hint), writer, &old, &new);
    let after = stored(&new, &decision);
    assert_eq!(
        (texts(&after).0.as_str(), &after.annotations.kubelet_raw),
        (expected, &None)
    );
}

#[test]
fn d5_a_lost_raw_annotation_is_taken_from_the_marker() {
    let mut node = amplified();
    node.annotations.raw = None;
    let after = stored(
        &node,
        &decided(
            &policy(Mode::Auto),
            Some(&found(150, Freshness::Fresh)),
            Writer::Other,
            &node,
            &node,
        ),
    );
    assert_eq!(texts(&after).0, "6");
}

#[test]
fn d2_a_value_written_during_an_outage_is_not_ours() {
    let mut node = amplified();
    node.allocatable.cpu = Some("3".parse().unwrap());
    let after = stored(
        &node,
        &decided(
            &policy(Mode::Auto),
            Some(&found(150, Freshness::Fresh)),
            Writer::Other,
            &node,
            &node,
        ),
    );
    assert_eq!(texts(&after).0, "4500m");
}

/// Another webhook doubles the written value: 12 CPUs on a node of 4.
#[rstest]
#[case::heartbeats_alone(Writer::Kubelet)]
#[case::a_nudge(Writer::Other)]
fn values_above_capacity_are_never_raw(#[case] writer: Writer) {
    let mut old = amplified();
    old.allocatable.cpu = Some("12".parse().unwrap());
    let new = synced(old.clone(), "12");
    let hint = found(150, Freshness::Fresh);
    let decision = decided(&policy(Mode::Auto), Some(&hint), writer, &old, &new);
    assert_eq!(
        (decision.outcomes.cpu.raw, decision.outcomes.cpu.result),
        (Some(4000), Some(6000))
    );
    assert!(decision.outcomes.cpu.why.contains(&Why::AboveCapacity));
}

/// The kubelet reported 3 CPUs while the webhook was down, and then another client sets 12 on a node of 4. A
/// kubelet's own sync above capacity comes from another webhook, and so may the stored value.
#[rstest]
#[case::others(Writer::Other, 3000)]
#[case::kubelet(Writer::Kubelet, 4000)]
fn values_above_capacity_do_not_hide_a_missed_raw_value(#[case] writer: Writer, #[case] raw: u64) {
    let mut old = amplified();
    old.allocatable.cpu = Some("3".parse().unwrap());
    let new = synced(old.clone(), "12");
    let hint = found(150, Freshness::Fresh);
    let decision = decided(&policy(Mode::Auto), Some(&hint), writer, &old, &new);
    assert_eq!(decision.outcomes.cpu.raw, Some(raw));
    assert!(decision.outcomes.cpu.why.contains(&Why::AboveCapacity));
}

#[test]
fn values_above_capacity_without_known_raw_are_unchanged() {
    let mut node = with_ratio(state("6", "8Gi"), r#"{"cpu":1.5}"#);
    node.capacity.cpu = Some("4".parse().unwrap());
    let after = stored(
        &node,
        &decided(
            &policy(STATIC),
            None,
            Writer::Kubelet,
            &node,
            &synced(node.clone(), "6"),
        ),
    );
    assert_eq!(
        texts(&after),
        (
            "6".to_owned(),
            "8Gi".to_owned(),
            Some(r#"{"memory":"8Gi"}"#.to_owned())
        )
    );
}

/// A client changes the marker so that the stored 6 CPUs came from 9, on a node of 8.
#[rstest]
#[case::a_nudge(Writer::Other)]
#[case::heartbeats_alone(Writer::Kubelet)]
fn written_values_are_not_amplified_again_with_an_impossible_raw(#[case] writer: Writer) {
    let mut old = amplified();
    old.capacity.cpu = Some("8".parse().unwrap());
    let marker = text_of(old.annotations.marker.as_ref()).unwrap();
    let forged = marker.replace(r#""raw":"4""#, r#""raw":"9""#);
    assert_ne!(forged, marker);
    old.annotations.marker = Some(forged.as_str().into());
    let hint = found(150, Freshness::Fresh);
    let after = |old: &NodeState| {
        let new = synced(old.clone(), "6");
        let decision = decided(&policy(Mode::Auto), Some(&hint), writer, old, &new);
        texts(&stored(&new, &decision)).0
    };
    assert_eq!(after(&old), "6", "the raw annotation says 4");
    old.annotations.raw = None;
    assert_eq!(after(&old), "6", "nothing says what is raw");
}

#[test]
fn a_marker_of_another_node_object_counts_as_absent() {
    let mut old = amplified();
    old.capacity.cpu = Some("6".parse().unwrap());
    let new = synced(old.clone(), "6");
    let hint = found(150, Freshness::Fresh);
    let held = Some(PerResource::default());
    let basis = Basis {
        policy: &policy(Mode::Auto),
        hint: Some(&hint),
        pod_demand: held,
    };
    let decision = decide(
        &Write {
            uid: "u2",
            writer: Writer::Kubelet,
            old: &old,
            new: &new,
        },
        &basis,
    );
    assert_eq!(decision.outcomes.cpu.raw, Some(6000));
}

#[test]
fn reinvocation_differs_from_a_forged_or_old_marker() {
    let old = synced(state("4", "8Gi"), "4");
    let after = stored(
        &old,
        &decided(
            &policy(Mode::Auto),
            Some(&found(150, Freshness::Fresh)),
            Writer::Kubelet,
            &old,
            &old,
        ),
    );
    assert!(is_reinvoked(&old, &after));
    assert!(!is_reinvoked(&after, &after), "the marker is the stored one");
    assert!(!is_reinvoked(&after, &synced(after.clone(), "6")));
    assert!(!is_reinvoked(&old, &old));
}

#[test]
fn reinvocation_is_detected_without_a_new_heartbeat() {
    let old = with_ratio(state("4", "8Gi"), r#"{"cpu":2}"#);
    let stored = by_static(&old);
    let changed = by_static(&with_ratio(stored.clone(), r#"{"cpu":3}"#));
    assert!(is_reinvoked(&stored, &changed));
}

#[test]
fn n58_d2_another_writer_does_not_hide_a_new_capacity_from_the_kubelets_next_sync() {
    let mut away = by_static(&with_ratio(state("4", "8Gi"), r#"{"cpu":1.5}"#));
    away.capacity.cpu = Some("6".parse().unwrap());
    let carried = by_static(&away);
    let new = synced(carried.clone(), "6");
    let after = stored(
        &new,
        &decided(&policy(STATIC), None, Writer::Kubelet, &carried, &new),
    );
    assert_eq!(texts(&after).0, "9");
}

#[test]
fn a_sync_records_a_new_capacity_with_the_same_raw() {
    let old = amplified();
    let mut new = synced(old.clone(), "4");
    new.capacity.cpu = Some("5".parse().unwrap());
    let hint = found(150, Freshness::Fresh);
    let recorded = |writer| {
        let decision = decided(&policy(Mode::Auto), Some(&hint), writer, &old, &new);
        let annotations = stored(&new, &decision).annotations;
        annotations.marker_of("u1").unwrap().capacity(Resource::Cpu)
    };
    assert_eq!(
        (recorded(Writer::Kubelet), recorded(Writer::Other)),
        (Some(5000), Some(4000))
    );
}

#[rstest]
#[case::fresh_rises(150, Freshness::Fresh, "6")]
#[case::held_may_fall(120, Freshness::Hold, "4800m")]
#[case::held_may_not_rise(180, Freshness::Hold, "6")]
#[case::stopped(180, Freshness::Stop, "4")]
#[case::clamped(900, Freshness::Fresh, "8")]
fn the_hint_counts_by_its_freshness(#[case] cents: u32, #[case] standing: Freshness, #[case] expected: &str) {
    let old = amplified();
    let after = stored(
        &old,
        &decided(
            &policy(Mode::Auto),
            Some(&found(cents, standing)),
            Writer::Other,
            &old,
            &old,
        ),
    );
    assert_eq!(texts(&after).0, expected);
}

#[test]
fn auto_without_a_hint_records_raw_and_changes_nothing() {
    let node = state("4", "8Gi");
    let decision = decided(&policy(Mode::Auto), None, Writer::Kubelet, &node, &node);
    assert_eq!(decision.allocatable, PerResource::default());
    let after = stored(&node, &decision);
    assert_eq!(
        text_of(after.annotations.raw.as_ref()).as_deref(),
        Some(r#"{"cpu":"4","memory":"8Gi"}"#)
    );
    assert_eq!(after.annotations.ratio, None);
}

#[test]
fn auto_without_a_hint_uses_the_value_that_the_floor_replaced() {
    let old = amplified();
    let mut new = synced(old.clone(), "4");
    let sent = texts(&stored(
        &new,
        &decided(&policy(Mode::Auto), None, Writer::Kubelet, &old, &new),
    ));
    let at = new.ready_heartbeat.clone().unwrap();
    new.allocatable = old.allocatable;
    new.annotations.kubelet_raw = Some(format!(r#"{{"cpu":"4","memory":"8Gi","at":"{at}"}}"#).into());
    let replaced = texts(&stored(
        &new,
        &decided(&policy(Mode::Auto), None, Writer::Kubelet, &old, &new),
    ));
    assert_eq!((sent.0.as_str(), replaced.0.as_str()), ("4", "4"));
}

#[test]
fn auto_without_a_hint_rejects_values_above_capacity() {
    let old = synced(amplified(), "4");
    let mut new = old.clone();
    new.allocatable.cpu = Some("5500m".parse().unwrap());
    let decision = decided(&policy(Mode::Auto), None, Writer::Other, &old, &new);
    assert_eq!(texts(&stored(&new, &decision)).0, "4");
}

#[test]
fn auto_saves_and_restores_the_administrators_ratio() {
    let own = with_ratio(state("4", "8Gi"), r#"{"cpu":1.25}"#);
    let hint = found(150, Freshness::Fresh);
    let auto = stored(
        &own,
        &decided(&policy(Mode::Auto), Some(&hint), Writer::Other, &own, &own),
    );
    assert_eq!(auto.annotations.ratio, Some(r#"{"cpu":1.50}"#.into()));
    assert_eq!(auto.annotations.static_ratio, Some(r#"{"cpu":1.25}"#.into()));
    let back = stored(
        &auto,
        &decided(&policy(STATIC), None, Writer::Other, &auto, &auto),
    );
    assert_eq!(back.annotations.ratio, Some(r#"{"cpu":1.25}"#.into()));
    assert_eq!(
        (&back.annotations.static_ratio, texts(&back).0.as_str()),
        (&None, "5")
    );
}

#[test]
fn off_restores_raw_and_leaves_no_trace() {
    let node = amplified();
    let after = stored(
        &node,
        &decided(&policy(Mode::Off), None, Writer::Other, &node, &node),
    );
    assert_eq!(
        after,
        NodeState {
            annotations: Annotations::default(),
            ..state("4", "8Gi")
        }
    );
}

#[test]
fn guard_takes_the_smaller_of_annotation_and_hint() {
    let node = with_ratio(state("4", "8Gi"), r#"{"cpu":1.333}"#);
    for (cents, expected) in [(150, 5332), (120, 4800)] {
        let decision = decided(
            &policy(Mode::Guard),
            Some(&found(cents, Freshness::Fresh)),
            Writer::Other,
            &node,
            &node,
        );
        assert_eq!(decision.outcomes.cpu.result, Some(expected));
    }
    assert_eq!(
        decided(&policy(Mode::Guard), None, Writer::Other, &node, &node)
            .outcomes
            .cpu
            .result,
        Some(4000)
    );
}

#[test]
fn memory_is_amplified_only_where_bounds_allow_it() {
    let node = state("4", "8Gi");
    let mut hint = hint("n1", 7);
    hint.resources.memory.published = Cents(120);
    let hint = EffectiveHint::new(Note::from_hint(&hint), Freshness::Fresh);
    let mut policy = policy(Mode::Auto);
    assert_eq!(
        decided(&policy, Some(&hint), Writer::Other, &node, &node)
            .allocatable
            .memory,
        None
    );
    policy.bounds.memory = Bounds::new(Cents(100), Cents(125)).unwrap();
    let decision = decided(&policy, Some(&hint), Writer::Other, &node, &node);
    assert_eq!(decision.outcomes.memory.result, Some((8 << 30) * 120 / 100));
}

proptest! {
    /// After any decision, a second decision on its result changes nothing, for any writer.
    #[test]
    fn deciding_twice_changes_nothing(
        milli in 1_u64..500_000, cents in 50_u32..400, (admitted, waiting) in (0_u64..600_000, 0_u64..600_000),
        mode in prop::sample::select(Mode::ALL.to_vec()),
        ratio in prop::option::of("[{]\"cpu\":[1-6][.][0-9]{1,3},\"memory\":1[.][0-9]{1,3}[}]"),
        is_kubelet in any::<bool>(),
    ) {
        let mut node = state("1", "8Gi");
        node.allocatable.cpu = Some(Quantity::from_milli(milli));
        node.capacity.cpu = node.allocatable.cpu;
        node.annotations.ratio = ratio.map(Annotation::parse);
        let hint = found(cents, Freshness::Fresh);
        let held = cpu_held(admitted, admitted + waiting);
        let basis = Basis { policy: &policy(mode), hint: Some(&hint), pod_demand: Some(held) };
        let writer = if is_kubelet { Writer::Kubelet } else { Writer::Other };
        let first = stored(&node, &decide(&Write { uid: "u1", writer, old: &node, new: &node }, &basis));
        let again = stored(&first, &decide(&Write { uid: "u1", writer, old: &node, new: &first }, &basis));
        prop_assert_eq!(&again, &first);
        let carried = stored(&first, &decide(&Write { uid: "u1", writer: Writer::Other, old: &first, new: &first }, &basis));
        prop_assert_eq!(&carried, &first);
    }
}
