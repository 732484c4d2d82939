//! Tests of the move from the last applied ratio to the hint: up in steps, down at once, never against a brake. They
//! also cover the ratio that remains when another replica, another mode or another Node takes over.

use super::*;
use crate::hint::{AgentMode, Brake, Contradiction, NoRaiseReason, Origin};

/// A fresh hint that may raise by 5 cents.
fn due(cents: u32) -> EffectiveHint {
    EffectiveHint {
        step: PerResource::from_fn(|_| Cents(5)),
        ..found(cents, Freshness::Fresh)
    }
}

fn auto(hint: &EffectiveHint, old: &NodeState) -> (NodeState, Vec<Why>) {
    let decision = decided(&policy(Mode::Auto), Some(hint), Writer::Other, old, old);
    (stored(old, &decision), decision.outcomes.cpu.why)
}

/// CPU ratio in the hint annotation.
fn applied(state: &NodeState) -> u32 {
    let note = state.annotations.hint.as_ref().unwrap().value().unwrap();
    note.cpu.published
}

#[test]
fn a_ratio_rises_in_steps_from_the_applied_ratio_with_a_reason() {
    let raw = state("4", "8Gi");
    let (first, why) = auto(&due(128), &raw);
    assert_eq!((texts(&first).0.as_str(), applied(&first)), ("4200m", 105));
    assert_eq!(why, [Why::Hint, Why::Slewed]);
    let (second, _) = auto(&due(128), &first);
    assert_eq!((texts(&second).0.as_str(), applied(&second)), ("4400m", 110));
    let (last, why) = auto(&due(113), &second);
    assert_eq!((applied(&last), why), (113, vec![Why::Hint]));
}

#[test]
fn a_ratio_that_may_not_rise_stays_or_falls_at_once() {
    let node = amplified();
    let not_due = |cents| EffectiveHint {
        step: PerResource::default(),
        ..due(cents)
    };
    assert_eq!(applied(&auto(&not_due(180), &node).0), 150);
    assert_eq!(applied(&auto(&not_due(101), &node).0), 101);
}

#[rstest]
#[case::hold(Brake::Hold, 180, 150)]
#[case::hold_lets_fall(Brake::Hold, 120, 120)]
#[case::shed(Brake::Shed, 180, 150)]
#[case::stop(Brake::Stop, 180, 100)]
#[case::stop_lets_fall(Brake::Stop, 90, 90)]
fn a_brake_limits_the_ratio_whatever_the_hint_publishes(
    #[case] brake: Brake,
    #[case] cents: u32,
    #[case] ratio: u32,
) {
    let mut hint = due(cents);
    hint.note.cpu.brake = brake.level();
    let mut policy = policy(Mode::Auto);
    policy.bounds.cpu.min = Cents(50);
    let node = amplified();
    let decision = decided(&policy, Some(&hint), Writer::Other, &node, &node);
    assert_eq!(decision.outcomes.cpu.hinted, Some(Cents(ratio)));
    assert_eq!(decision.outcomes.cpu.why.last(), Some(&Why::Braked));
}

#[rstest]
#[case(NoRaiseReason::OlderPods, Why::OlderPods)]
#[case(NoRaiseReason::OtherCapacity, Why::OtherCapacity)]
#[case(NoRaiseReason::NoFloor, Why::NoFloor)]
fn an_outdated_hint_may_lower_but_not_raise(#[case] caution: NoRaiseReason, #[case] why: Why) {
    let cautious = |cents| EffectiveHint {
        caution: Some(caution),
        ..due(cents)
    };
    let (node, reasons) = auto(&cautious(155), &amplified());
    assert_eq!(applied(&node), 150);
    assert!(reasons.contains(&why), "{reasons:?}");
    assert_eq!(applied(&auto(&cautious(120), &node).0), 120);
}

#[rstest]
fn a_quarantined_hint_counts_as_at_most_one(
    #[values(
        Contradiction::Capacity,
        Contradiction::MemoryPressure,
        Contradiction::Use,
        Contradiction::EarlierBoot
    )]
    contradiction: Contradiction,
) {
    let quarantined = |cents| EffectiveHint {
        caution: Some(NoRaiseReason::Quarantined(contradiction)),
        ..due(cents)
    };
    let (node, reasons) = auto(&quarantined(155), &amplified());
    assert_eq!(applied(&node), 100);
    let told = reasons.last().unwrap();
    assert_eq!(told.contradiction(), Some(contradiction));
    assert!(told.code().starts_with("quarantined-"), "{told}");
    assert_eq!(applied(&auto(&quarantined(155), &node).0), 100);
}

#[test]
fn procfs_hints_count_up_to_their_limit() {
    let mut hint = found(190, Freshness::Fresh);
    hint.note.mode = AgentMode::Proc.name().to_owned();
    let (node, why) = auto(&hint, &state("4", "8Gi"));
    assert_eq!((applied(&node), why.last()), (150, Some(&Why::ProcfsOnly)));
}

#[test]
fn the_last_applied_ratio_is_within_bounds() {
    let (node, _) = auto(&found(300, Freshness::Fresh), &state("4", "8Gi"));
    assert_eq!((texts(&node).0.as_str(), applied(&node)), ("8", 200));
    let mut wider = policy(Mode::Auto);
    wider.bounds.cpu.max = Cents(300);
    let decision = decided(&wider, Some(&due(300)), Writer::Other, &node, &node);
    assert_eq!(decision.outcomes.cpu.hinted, Some(Cents(205)));
}

#[test]
fn the_floor_is_no_part_of_it() {
    let node = amplified();
    let basis = Basis {
        policy: &policy(Mode::Auto),
        hint: Some(&due(110)),
        pod_demand: Some(cpu_held(5010, 5010)),
    };
    let write = Write {
        uid: "u1",
        writer: Writer::Other,
        old: &node,
        new: &node,
    };
    let after = stored(&node, &decide(&write, &basis));
    assert_eq!((texts(&after).0.as_str(), applied(&after)), ("5040m", 110));
}

/// A replica without the agent's stream has only the annotation.
#[test]
fn a_replica_without_the_stream_decides_like_the_one_with_it() {
    let mut node = state("4", "8Gi");
    for cents in [128, 130, 104, 190] {
        node = auto(&due(cents), &node).0;
        let note = node.annotations.hint.as_ref().unwrap().value().unwrap().clone();
        let held = EffectiveHint {
            origin: Origin::Annotation,
            ..EffectiveHint::new(note, Freshness::Hold)
        };
        assert_eq!(auto(&held, &node).0, node);
    }
}

#[test]
fn a_hint_from_the_annotation_alone_follows_a_lowered_bound() {
    let node = amplified();
    let note = node.annotations.hint.as_ref().unwrap().value().unwrap().clone();
    let held = EffectiveHint {
        origin: Origin::Annotation,
        ..EffectiveHint::new(note, Freshness::Hold)
    };
    let mut lower = policy(Mode::Auto);
    lower.bounds.cpu.max = Cents(120);
    let after = stored(&node, &decided(&lower, Some(&held), Writer::Other, &node, &node));
    assert_eq!((texts(&after).0.as_str(), applied(&after)), ("4800m", 120));
}

#[test]
fn auto_continues_from_the_ratio_of_another_mode() {
    let node = by_static(&with_ratio(state("4", "8Gi"), r#"{"cpu":1.5}"#));
    assert_eq!(applied(&auto(&due(190), &node).0), 155);
    assert_eq!(applied(&auto(&due(120), &node).0), 120);
}

#[test]
fn a_node_recreated_from_a_copy_does_not_inherit_raw_values() {
    // The old node had 4 CPUs, amplified to 6; this one has 6.
    let copied = amplified();
    let mut new = synced(copied.clone(), "6");
    new.capacity.cpu = Some("6".parse().unwrap());
    let policy = policy(Mode::Auto);
    let hint = due(128);
    let basis = Basis {
        policy: &policy,
        hint: Some(&hint),
        pod_demand: Some(PerResource::default()),
    };
    for writer in [Writer::Kubelet, Writer::Other] {
        let write = Write {
            uid: "u2",
            writer,
            old: &copied,
            new: &new,
        };
        let decision = decide(&write, &basis);
        assert_eq!(decision.outcomes.cpu.raw, Some(6000), "{writer:?}");
        assert_eq!(decision.outcomes.cpu.hinted, Some(Cents(105)), "{writer:?}");
    }
}

#[rstest]
#[case::auto(Mode::Auto, None, "6", 150)]
#[case::guard(Mode::Guard, Some(r#"{"cpu":1.8}"#), "6", 150)]
#[case::guard_with_less(Mode::Guard, Some(r#"{"cpu":1.2}"#), "4800m", 120)]
fn a_marker_without_a_readable_hint_holds_its_ratio_and_leaves_the_hint(
    #[case] mode: Mode,
    #[case] own: Option<&str>,
    #[case] cpu: &str,
    #[case] cents: u32,
) {
    let mut old = amplified();
    old.annotations.hint = Some(r#"{"v":2}"#.into());
    (old.annotations.ratio, old.annotations.static_ratio) = (own.map(Annotation::from), None);
    assert_eq!(written_ratios(&old.annotations, "u1").unwrap().cpu, Cents(150));
    assert_eq!(written_ratios(&old.annotations, "u2"), None);
    let mut hint = found(150, Freshness::Hold);
    hint.origin = Origin::Marker;
    let new = synced(old.clone(), "4");
    let decision = decided(&policy(mode), Some(&hint), Writer::Kubelet, &old, &new);
    let after = stored(&new, &decision);
    assert_eq!(
        (texts(&after).0.as_str(), &after.annotations.hint),
        (cpu, &old.annotations.hint)
    );
    assert_eq!(decision.outcomes.cpu.ratio, Some(Cents(cents)));
    let is_held = decision.outcomes.cpu.why.contains(&Why::MarkerHeld);
    assert_eq!(is_held, cents == 150, "{:?}", decision.outcomes.cpu.why);
    hint.freshness = Freshness::Stop;
    let decision = decided(&policy(mode), Some(&hint), Writer::Kubelet, &old, &new);
    assert_eq!(texts(&stored(&new, &decision)).0, "4");
}

#[test]
fn a_marker_without_amplification_holds_nothing() {
    let (mut raw, _) = auto(&found(100, Freshness::Fresh), &state("4", "8Gi"));
    raw.annotations.hint = Some(r#"{"v":2}"#.into());
    assert!(raw.annotations.marker.is_some());
    assert_eq!(written_ratios(&raw.annotations, "u1"), None);
}
