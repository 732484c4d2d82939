//! Tests of writes while the policy is unknown: the last decision stays.

use super::*;

/// A node of raw `cpu` and 8Gi, amplified to 1.5 and 1.25.
fn amplified(cpu: &str) -> NodeState {
    by_static(&with_ratio(state(cpu, "8Gi"), r#"{"cpu":1.5,"memory":1.25}"#))
}

fn kept(writer: Writer, old: &NodeState, new: &NodeState) -> Decision {
    keep(&Write {
        uid: "u1",
        writer,
        old,
        new,
    })
}

fn after(old: &NodeState, new: &NodeState) -> NodeState {
    stored(new, &kept(Writer::Kubelet, old, new))
}

fn amounts(state: &NodeState) -> (Option<u64>, Option<u64>) {
    (
        state.amount(Resource::Cpu),
        state.amount(Resource::Memory).map(|bytes| bytes >> 30),
    )
}

#[rstest]
#[case::the_kubelet_sends_raw("4")]
#[case::the_kubelet_sends_a_heartbeat_alone("6")]
fn the_last_decision_stays(#[case] sent: &str) {
    let old = amplified("4");
    assert_eq!(amounts(&old), (Some(6000), Some(10)));
    let new = synced(old.clone(), sent);
    let stored = after(&old, &new);
    assert_eq!(amounts(&stored), (Some(6000), Some(10)));
    let annotations = |state: &NodeState| Annotations {
        marker: None,
        ..state.annotations.clone()
    };
    assert_eq!(annotations(&stored), annotations(&old));
    let cpu = kept(Writer::Kubelet, &old, &new).outcomes.cpu;
    assert_eq!(
        (cpu.ratio, cpu.why.as_slice()),
        (Some(Cents(150)), [Why::PolicyUnknown].as_slice())
    );
}

#[rstest]
#[case::more_than_is_stored("8", 8_000)]
#[case::less_than_is_stored("5", 6_000)]
#[case::less("2", 3_000)]
#[case::cut_off("3333m", 4_999)]
fn another_raw_value_gets_the_last_ratio_and_never_more_than_is_stored(
    #[case] raw: &str,
    #[case] expected: u64,
) {
    let old = amplified("4");
    let mut new = synced(old.clone(), raw);
    new.capacity.cpu = new.allocatable.cpu;
    let stored = after(&old, &new);
    assert_eq!(amounts(&stored), (Some(expected), Some(10)));
    // The record follows, so that the next heartbeat alone is not mistaken for raw.
    let heartbeat = synced(stored.clone(), &format!("{expected}m"));
    assert_eq!(amounts(&after(&stored, &heartbeat)), (Some(expected), Some(10)));
}

#[rstest]
#[case::whole_cents("7910m", "1.33", 2_660)]
#[case::more_digits("4", "1.333", 2_666)]
fn the_last_ratio_is_rescaled_exactly(#[case] before: &str, #[case] ratio: &str, #[case] expected: u64) {
    let old = by_static(&with_ratio(
        state(before, "8Gi"),
        &format!(r#"{{"cpu":{ratio}}}"#),
    ));
    let mut new = synced(old.clone(), "2");
    new.capacity.cpu = new.allocatable.cpu;
    assert_eq!(after(&old, &new).amount(Resource::Cpu), Some(expected));
}

#[rstest]
#[case::never_seen(state("4", "8Gi"))]
#[case::of_koordinator(with_raw(
    with_ratio(state("6", "8Gi"), r#"{"cpu":1.5}"#),
    r#"{"cpu":"4","memory":"8Gi"}"#
))]
#[case::of_another_node(NodeState {
    annotations: Annotations { marker: amplified("4").annotations.marker.map(|marker| marker.text().replace("u1", "u0").into()), ..Annotations::default() },
    ..state("4", "8Gi")
})]
fn a_node_without_a_marker_is_left_unchanged(#[case] old: NodeState) {
    let decision = kept(Writer::Kubelet, &old, &synced(old.clone(), "4"));
    assert_eq!(decision.outcomes.cpu.why, [Why::PolicyUnknown]);
    assert_eq!(
        (decision.allocatable, decision.annotations),
        (PerResource::default(), vec![])
    );
}

#[test]
fn a_write_without_allocatable_is_unchanged_with_a_reason() {
    let old = amplified("4");
    let new = NodeState {
        allocatable: PerResource::default(),
        ..synced(old.clone(), "4")
    };
    let decision = kept(Writer::Kubelet, &old, &new);
    assert_eq!(decision.outcomes.cpu.why, [Why::Absent]);
    assert_eq!(
        (decision.allocatable, decision.annotations),
        (PerResource::default(), vec![])
    );
}

#[test]
fn the_policy_continues_as_if_it_had_been_known() {
    let old = amplified("4");
    let kept = after(&old, &synced(old.clone(), "4"));
    let new = synced(kept.clone(), "4");
    let decision = decided(&policy(STATIC), None, Writer::Kubelet, &kept, &new);
    assert_eq!(amounts(&stored(&new, &decision)), (Some(6000), Some(10)));
    assert_eq!(decision.outcomes.cpu.raw, Some(4000));
}

proptest! {
    /// After any decision and for any raw value, keeping it a second time changes nothing.
    #[test]
    fn keeping_twice_changes_nothing(before in 0_u64..500_000, raw in 0_u64..500_000, is_kubelet in any::<bool>()) {
        let old = amplified(&format!("{before}m"));
        let mut new = synced(old.clone(), &format!("{raw}m"));
        new.capacity.cpu = new.allocatable.cpu;
        let writer = if is_kubelet { Writer::Kubelet } else { Writer::Other };
        let first = stored(&new, &kept(writer, &old, &new));
        let again = stored(&first, &kept(writer, &old, &first));
        prop_assert_eq!(&again, &first);
        let carried = stored(&first, &kept(Writer::Other, &first, &first));
        prop_assert_eq!(&carried, &first);
    }
}
