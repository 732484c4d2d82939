//! Tests of forged annotations (raw, marker, hint): a user with the right to patch Nodes gains no allocatable above
//! the policy's maximum or the demand of admitted pods.

use super::*;
use crate::hint::Origin;

const FORGED: &str = r#"{"cpu":"1000","memory":"9Ti"}"#;

/// Decision on a write that changes nothing, on a node with forged annotations.
fn again(node: &NodeState, hint: Option<&EffectiveHint>) -> NodeState {
    stored(
        node,
        &decided(&policy(Mode::Auto), hint, Writer::Other, node, node),
    )
}

#[test]
fn the_marker_overrides_the_raw_annotation() {
    let node = with_raw(amplified(), FORGED);
    let after = again(&node, Some(&found(150, Freshness::Fresh)));
    assert_eq!(
        texts(&after),
        (
            "6".to_owned(),
            "8Gi".to_owned(),
            Some(r#"{"cpu":"4","memory":"8Gi"}"#.to_owned())
        )
    );
}

#[test]
fn no_saved_raw_value_above_capacity_is_used() {
    let node = with_raw(with_ratio(state("4", "8Gi"), r#"{"cpu":2}"#), FORGED);
    let after = by_static(&node);
    assert_eq!((texts(&after).0.as_str(), texts(&after).1.as_str()), ("8", "8Gi"));
    let mut node = amplified();
    node.annotations.raw = None;
    let marker = node
        .annotations
        .marker
        .unwrap()
        .text()
        .replace(r#""raw":"4""#, r#""raw":"1000""#);
    node.annotations.marker = Some(marker.into());
    let after = again(&node, Some(&found(150, Freshness::Fresh)));
    assert!(
        after.amount(Resource::Cpu) <= Some(6000),
        "at most the stored value counts as raw: {after:?}"
    );
    assert_eq!(recorded_raw(&node, "u1").cpu, None);
}

/// A user with the rights to patch nodes and their status gains nothing by using both: a value above capacity leads
/// to the same raw as a write without changes.
#[rstest]
#[case::stored_is_above_capacity("4", 4000)]
#[case::stored_is_not("8", 6000)]
fn a_forged_marker_and_a_value_above_capacity_raise_nothing(#[case] capacity: &str, #[case] raw: u64) {
    let mut old = amplified();
    old.capacity.cpu = Some(capacity.parse().unwrap());
    let marker = old
        .annotations
        .marker
        .unwrap()
        .text()
        .replace(r#""cpu":"6""#, r#""cpu":"5""#);
    old.annotations.marker = Some(marker.into());
    let hint = found(150, Freshness::Fresh);
    for new in [old.clone(), synced(old.clone(), "12")] {
        let decision = decided(&policy(Mode::Auto), Some(&hint), Writer::Other, &old, &new);
        assert_eq!(decision.outcomes.cpu.raw, Some(raw), "{new:?}");
    }
}

#[test]
fn hint_from_the_annotation_keeps_the_ratio_and_never_raises() {
    let mut forged = found(200, Freshness::Hold);
    forged.origin = Origin::Annotation;
    let mut node = amplified();
    node.annotations.hint = Some(forged.note.to_string().into());
    assert_eq!(texts(&again(&node, Some(&forged))).0, "6");
    let mut node = state("4", "8Gi");
    node.annotations.hint = Some(forged.note.to_string().into());
    assert_eq!(texts(&again(&node, Some(&forged))).0, "4");
}

#[test]
fn a_hint_annotation_above_the_applied_ratio_stays_unchanged() {
    // More than the bounds allow, so that the applied ratio differs from the hint.
    let mut forged = found(300, Freshness::Hold);
    forged.origin = Origin::Annotation;
    let mut node = state("4", "8Gi");
    node.annotations.hint = Some(forged.note.to_string().into());
    let decision = decided(&policy(Mode::Auto), Some(&forged), Writer::Other, &node, &node);
    assert!(
        decision
            .annotations
            .iter()
            .all(|(key, _)| *key != crate::names::HINT)
    );
}

#[test]
fn forged_marker_keeps_at_most_the_demand_of_admitted_pods() {
    let mut node = state("4", "8Gi");
    node.annotations.marker = Some(
        r#"{"cpu":"1000","from":{"cpu":{"capacity":"4","raw":"4"},"memory":{"raw":"8Gi"}},"memory":"8Gi","uid":"u1"}"#
            .into(),
    );
    let (policy, hint) = (policy(Mode::Auto), found(100, Freshness::Fresh));
    for (admitted, expected) in [(0, 4000), (4100, 4120), (1_000_000, 40_000)] {
        let basis = Basis {
            policy: &policy,
            hint: Some(&hint),
            pod_demand: Some(cpu_held(admitted, 1_000_000)),
        };
        let write = Write {
            uid: "u1",
            writer: Writer::Other,
            old: &node,
            new: &node,
        };
        assert_eq!(decide(&write, &basis).outcomes.cpu.result, Some(expected));
    }
    let write = Write {
        uid: "u1",
        writer: Writer::Kubelet,
        old: &node,
        new: &synced(node.clone(), "4"),
    };
    assert_eq!(keep(&write).outcomes.cpu.result, Some(4000));
}

#[test]
fn unreadable_annotations_count_as_absent_and_newer_markers_are_read() {
    let read = |marker: &str| {
        let mut node = amplified();
        node.annotations.raw = None;
        node.annotations.marker = Some(marker.into());
        let decision = decided(
            &policy(Mode::Auto),
            Some(&found(150, Freshness::Fresh)),
            Writer::Other,
            &node,
            &node,
        );
        decision.outcomes.cpu.raw
    };
    let marker = amplified().annotations.marker.unwrap();
    let marker = marker.text();
    assert_eq!(
        read(&marker.replacen('{', r#"{"added":{"later":1},"#, 1)),
        Some(4000)
    );
    // The stored 6 exceeds the capacity of 4, so raw is unknown.
    assert_eq!(read("{}"), None);
}

#[test]
fn a_forged_marker_alone_raises_nothing() {
    let mut node = state("4", "8Gi");
    node.annotations.marker =
        Some(r#"{"cpu":"8","from":{"cpu":{"capacity":"4","raw":"4"}},"memory":"8Gi","uid":"u1"}"#.into());
    let mut hint = found(200, Freshness::Hold);
    hint.origin = Origin::Marker;
    assert_eq!(written_ratios(&node.annotations, "u1"), None, "there is no hint");
    node.annotations.hint = Some(r#"{"v":2}"#.into());
    assert_eq!(written_ratios(&node.annotations, "u1").unwrap().cpu, Cents(200));
    assert_eq!(texts(&again(&node, Some(&hint))).0, "4");
}

#[test]
fn the_demand_of_pods_is_no_ratio_on_a_larger_machine() {
    let mut old = amplified();
    old.annotations.hint = None;
    let mut hint = found(150, Freshness::Hold);
    hint.origin = Origin::Marker;
    let grown = |raw: &str| {
        let mut new = synced(old.clone(), raw);
        new.capacity.cpu = Some("16".parse().unwrap());
        let decision = decided(&policy(Mode::Auto), Some(&hint), Writer::Kubelet, &old, &new);
        texts(&stored(&new, &decision)).0
    };
    assert_eq!([grown("5"), grown("8")], ["6", "8"]);
}

/// Marker and the floor policy's note contain a raw value of 5, on a node of 4.
#[test]
fn substituted_values_are_at_most_capacity() {
    let mut old = state("4", "8Gi");
    let marker = r#"{"cpu":"5","from":{"cpu":{"capacity":"4","raw":"5"}},"uid":"u1"}"#;
    old.annotations.marker = Some(marker.into());
    let mut new = synced(old.clone(), "5");
    let at = new.ready_heartbeat.clone().unwrap();
    new.annotations.kubelet_raw = Some(format!(r#"{{"cpu":"5","at":"{at}"}}"#).as_str().into());
    let decision = decided(&policy(Mode::Auto), None, Writer::Kubelet, &old, &new);
    assert_eq!(decision.outcomes.cpu.raw, None);
}

/// The marker states 5 written CPUs on a node of 8, with a raw value that the node cannot have.
#[rstest]
#[case::nothing("?")]
#[case::more_than_there_is("9")]
fn a_second_call_in_a_request_ignores_a_marker_without_raw_too(#[case] raw: &str) {
    let mut old = state("5", "8Gi");
    old.capacity.cpu = Some("8".parse().unwrap());
    let marker = format!(
        r#"{{"cpu":"5","from":{{"cpu":{{"capacity":"8","raw":"{raw}"}},"memory":{{"raw":"8Gi"}}}},"memory":"8Gi","uid":"u1"}}"#
    );
    old.annotations.marker = Some(marker.as_str().into());
    let hint = found(150, Freshness::Fresh);
    let call = |new: &NodeState| {
        stored(
            new,
            &decided(&policy(Mode::Auto), Some(&hint), Writer::Kubelet, &old, new),
        )
    };
    let first = call(&synced(old.clone(), "5"));
    assert_eq!(texts(&first).0, "5");
    assert_eq!(texts(&call(&first)), texts(&first));
}

/// Result on a node of raw 4 whose kubelet reports another machine, on a replica without a report of its agent: all
/// its inputs were written by another client.
fn on_another_machine(cpu: u64, raw: u64, value: u64, cents: u32) -> u64 {
    let mut node = state("4", "8Gi");
    let marker = format!(
        r#"{{"cpu":"{value}","from":{{"cpu":{{"capacity":"4","raw":"{raw}"}},"memory":{{"raw":"8Gi"}}}},"memory":"8Gi","uid":"u1"}}"#
    );
    node.annotations.marker = Some(marker.into());
    let mut forged = found(cents, Freshness::Hold);
    forged.origin = Origin::Annotation;
    node.annotations.hint = Some(forged.note.to_string().into());
    let mut new = synced(node.clone(), &cpu.to_string());
    new.capacity.cpu = new.allocatable.cpu;
    let (policy, mut last) = (policy(Mode::Auto), 0);
    // A second round with the result as input gives no further rise.
    for _ in 0..3 {
        let decision = decided(&policy, Some(&forged), Writer::Kubelet, &node, &new);
        node = stored(&new, &decision);
        last = node.amount(Resource::Cpu).unwrap();
        assert!(last <= cpu * 2000, "{last} of {cpu} CPUs");
        new = synced(node.clone(), &cpu.to_string());
    }
    last
}

proptest! {
    #[test]
    fn marker_and_hint_gain_at_most_the_maximum_after_a_machine_change(
        cpu in 1..64_u64, raw in 0..64_u64, value in 0..10_000_u64, cents in 0..1_000_u32,
    ) {
        prop_assert!(on_another_machine(cpu, raw, value, cents) >= cpu * 1000);
    }
}

#[test]
fn a_ratio_with_the_floor_in_it_gains_at_most_the_maximum() {
    // An agent of an earlier version reports all bound requests, for any author of the bindings: 1000 CPUs of 4.
    let (policy, mut old) = (policy(Mode::Auto), found(25_000, Freshness::Fresh));
    old.step = PerResource::from_fn(|_| Cents(25_000));
    let mut node = state("4", "8Gi");
    for writer in [Writer::Other, Writer::Kubelet, Writer::Other] {
        let decision = decided(&policy, Some(&old), writer, &node, &node);
        node = stored(&node, &decision);
        assert_eq!(texts(&node).0, "8");
    }
}

/// Decision on `new` with this CPU demand of admitted pods and a hint of 5.00 that only the Node carries.
fn by_forged_hint(origin: Origin, admitted: u64, (old, new): (&NodeState, &NodeState)) -> NodeState {
    let mut forged = found(500, Freshness::Hold);
    forged.origin = origin;
    let write = Write {
        uid: "u1",
        writer: Writer::Kubelet,
        old,
        new,
    };
    let basis = Basis {
        policy: &policy(Mode::Auto),
        hint: Some(&forged),
        pod_demand: Some(cpu_held(admitted, admitted)),
    };
    stored(new, &decide(&write, &basis))
}

/// A node of 8 CPUs with 4 allocatable, on which admitted pods hold 6; no measurement has raised it.
fn held_up() -> NodeState {
    let mut node = state("4", "8Gi");
    node.capacity.cpu = Some("8".parse().unwrap());
    node.annotations.hint = Some(found(500, Freshness::Hold).note.to_string().into());
    let held = by_forged_hint(Origin::Annotation, 6000, (&node, &synced(node.clone(), "4")));
    assert_eq!(texts(&held).0, "6");
    held
}

#[test]
fn the_marker_separates_the_product_from_the_demand_of_pods() {
    let marker = |node: &NodeState| node.annotations.marker.as_ref().unwrap().text().to_owned();
    let origin = r#""cpu":{"capacity":"8","product":"4","raw":"4"}"#;
    assert!(marker(&held_up()).contains(origin), "{}", marker(&held_up()));
    assert!(!marker(&amplified()).contains("product"), "pods hold nothing");
}

/// The pods end, the machine grows, and a hint of 5.00 is on the Node all the time.
#[rstest]
#[case::at_once(&[])]
#[case::after_another_write(&[Some(Origin::Annotation)])]
#[case::after_a_hint_that_cannot_be_read(&[Some(Origin::Marker)])]
#[case::after_a_restart_without_the_api_server(&[None])]
#[case::after_all_of_them(&[None, Some(Origin::Marker), None, Some(Origin::Annotation)])]
fn the_demand_of_pods_gives_a_forged_hint_no_ratio(#[case] between: &[Option<Origin>]) {
    let mut node = held_up();
    for origin in between {
        let new = synced(node.clone(), "4");
        let write = Write {
            uid: "u1",
            writer: Writer::Kubelet,
            old: &node,
            new: &new,
        };
        node = match origin {
            Some(origin) => by_forged_hint(*origin, 6000, (&node, &new)),
            None => stored(&new, &keep(&write)),
        };
        assert_eq!(texts(&node).0, "6", "{origin:?}");
    }
    let grown = synced(node.clone(), "7");
    let after = by_forged_hint(Origin::Annotation, 0, (&node, &grown));
    assert_eq!(texts(&after).0, "7");
    let after = by_forged_hint(Origin::Annotation, 7500, (&node, &grown));
    assert_eq!(
        texts(&after).0,
        "7560m",
        "pods keep their amounts, up to the next cent"
    );
}

#[rstest]
#[case::more_than_the_value("9", "4500m")]
#[case::nothing("?", "3")]
fn a_forged_product_counts_at_most_as_the_written_value(#[case] product: &str, #[case] expected: &str) {
    let mut node = held_up();
    let marker = node.annotations.marker.as_ref().unwrap().text();
    let forged = marker.replace(r#""product":"4""#, &format!(r#""product":"{product}""#));
    node.annotations.marker = Some(forged.as_str().into());
    let after = by_forged_hint(Origin::Annotation, 0, (&node, &synced(node.clone(), "3")));
    assert_eq!(texts(&after).0, expected);
}

/// A client forges the marker of a node of 4 CPUs, of which 6 are published, so that these came from less, and adds a
/// hint of 5.00. Then the kubelet reports its capacity.
#[rstest]
#[case::a_quarter("1")]
#[case::one_percent("40m")]
#[case::nothing("0")]
fn a_forged_raw_value_gives_a_forged_hint_no_ratio(#[case] raw: &str) {
    let mut node = amplified();
    let marker = node.annotations.marker.as_ref().unwrap().text();
    let forged = marker.replacen(r#""raw":"4""#, &format!(r#""raw":"{raw}""#), 1);
    assert_ne!(forged, marker);
    node.annotations.marker = Some(forged.as_str().into());
    node.annotations.hint = Some(found(500, Freshness::Hold).note.to_string().into());
    let published = |node: &NodeState| node.amount(Resource::Cpu).unwrap();
    let at_once = by_forged_hint(Origin::Annotation, 0, (&node, &synced(node.clone(), "4")));
    assert!(published(&at_once) <= 6000, "{at_once:?}");
    // A write without a statement about CPU, then the kubelet.
    let first = by_forged_hint(Origin::Annotation, 0, (&node, &synced(node.clone(), "6")));
    let after = by_forged_hint(Origin::Annotation, 0, (&first, &synced(first.clone(), "4")));
    assert!(published(&first).max(published(&after)) <= 6000, "{after:?}");
}
