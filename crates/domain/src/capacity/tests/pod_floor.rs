//! Tests of the floor: pods keep their capacity, and requests add none.

use super::*;
use crate::hint::Brake;

fn with_held<'a>(
    policy: &'a Policy,
    hint: Option<&'a EffectiveHint>,
    held: Option<PerResource<PodDemand>>,
) -> impl Fn(&NodeState, &NodeState) -> Decision + 'a {
    move |old, new| {
        let write = Write {
            uid: "u1",
            writer: Writer::Other,
            old,
            new,
        };
        decide(
            &write,
            &Basis {
                policy,
                hint,
                pod_demand: held,
            },
        )
    }
}

fn cpu(decision: &Decision) -> (Option<u64>, Vec<Why>) {
    let is_floor = |why: &&Why| why.code().starts_with("floor-");
    let why = decision
        .outcomes
        .cpu
        .why
        .iter()
        .filter(is_floor)
        .copied()
        .collect();
    (decision.outcomes.cpu.result, why)
}

/// A node of 4 that auto has amplified to 6 and lowers to 4. Its maximum is 2.00.
#[rstest]
#[case::nothing_held(0, 0, 4000, &[])]
#[case::less_than_raw(3990, 4000, 4000, &[])]
#[case::admitted(5010, 5010, 5040, &[Why::FloorAdmitted])]
#[case::waiting_pods_hold_what_is_stored(0, 5010, 5040, &[Why::FloorFit])]
#[case::and_no_more(0, 9000, 6000, &[Why::FloorFit])]
#[case::admitted_pods_hold_more_than_is_stored(7000, 7000, 7000, &[Why::FloorAdmitted])]
#[case::up_to_the_maximum(9000, 9000, 8000, &[Why::FloorAdmitted, Why::FloorCapped])]
#[case::both(5010, 5500, 5520, &[Why::FloorFit])]
fn pods_keep_their_capacity_and_gain_none(
    #[case] admitted: u64,
    #[case] fit: u64,
    #[case] expected: u64,
    #[case] why: &[Why],
    #[values(Brake::Off, Brake::Stop)] brake: Brake,
) {
    let node = amplified();
    let mut hint = found(100, Freshness::Fresh);
    hint.note.cpu.brake = brake.level();
    let policy = policy(Mode::Auto);
    let decide = with_held(&policy, Some(&hint), Some(cpu_held(admitted, fit)));
    let decision = decide(&node, &node);
    assert_eq!(cpu(&decision), (Some(expected), why.to_vec()));
    let after = stored(&node, &decision);
    assert_eq!(stored(&after, &decide(&after, &after)), after);
}

#[test]
fn pods_that_are_not_admitted_raise_nothing() {
    let node = state("8", "8Gi");
    let (policy, hint) = (policy(Mode::Auto), found(100, Freshness::Fresh));
    let decide = with_held(&policy, Some(&hint), Some(cpu_held(0, 1_000_000)));
    assert_eq!(cpu(&decide(&node, &node)).0, Some(8000));
}

#[test]
fn off_falls_to_the_admitted_amounts_and_never_rises_again() {
    let policy = policy(Mode::Off);
    let down = |node: &NodeState, admitted| {
        let decision = with_held(&policy, None, Some(cpu_held(admitted, admitted)))(node, node);
        stored(node, &decision)
    };
    let node = down(&amplified(), 5000);
    assert_eq!(texts(&node).0, "5");
    assert!(node.annotations.marker.is_some(), "what is above raw is recorded");
    let node = down(&node, 4500);
    assert_eq!(texts(&node).0, "4520m");
    let more = down(&node, 5900);
    assert_eq!(texts(&more).0, "4520m", "the cap came down with what was written");
    let gone = down(&node, 0);
    assert_eq!(
        gone,
        NodeState {
            annotations: Annotations::default(),
            ..state("4", "8Gi")
        }
    );
}

#[test]
fn a_maximum_below_the_admitted_amounts_lowers_nothing() {
    let node = amplified();
    let mut policy = policy(Mode::Auto);
    policy.bounds.cpu = Bounds::new(Cents(100), Cents(110)).unwrap();
    let hint = found(150, Freshness::Fresh);
    let decide = with_held(&policy, Some(&hint), Some(cpu_held(5900, 5900)));
    let decision = decide(&node, &node);
    assert_eq!(cpu(&decision), (Some(5920), vec![Why::FloorAdmitted]));
    let decide = with_held(&policy, Some(&hint), Some(cpu_held(0, 0)));
    assert_eq!(cpu(&decide(&node, &node)), (Some(4400), vec![]));
}

#[rstest]
#[case::in_static_the_annotation_is_the_cap(STATIC, Some(r#"{"cpu":1.5}"#), 6000)]
#[case::within_its_limit(STATIC, Some(r#"{"cpu":40}"#), 20_000)]
#[case::guard_has_the_highest_hint(Mode::Guard, Some(r#"{"cpu":1.1}"#), 8000)]
fn the_mode_limits_the_amount_that_pods_can_hold(
    #[case] mode: Mode,
    #[case] ratio: Option<&str>,
    #[case] expected: u64,
) {
    let mut node = state("4", "8Gi");
    node.annotations.ratio = ratio.map(Annotation::from);
    let (policy, hint) = (policy(mode), found(100, Freshness::Fresh));
    let decide = with_held(&policy, Some(&hint), Some(cpu_held(100_000, 100_000)));
    assert_eq!(cpu(&decide(&node, &node)).0, Some(expected));
}

#[test]
fn raw_that_shrinks_brings_the_cap_down() {
    let old = amplified();
    let mut new = synced(old.clone(), "2");
    new.capacity.cpu = new.allocatable.cpu;
    let (policy, hint) = (policy(Mode::Off), found(100, Freshness::Fresh));
    let write = Write {
        uid: "u1",
        writer: Writer::Kubelet,
        old: &old,
        new: &new,
    };
    let held = Some(cpu_held(5900, 5900));
    let basis = Basis {
        policy: &policy,
        hint: Some(&hint),
        pod_demand: held,
    };
    // The last written ratio was 1.50: for 2 CPUs that is 3.
    assert_eq!(
        cpu(&decide(&write, &basis)),
        (Some(3000), vec![Why::FloorAdmitted, Why::FloorCapped])
    );
}

#[test]
fn a_maximum_below_one_still_holds_raw() {
    let mut policy = policy(Mode::Auto);
    policy.bounds.cpu = Bounds {
        min: Cents(50),
        max: Cents(80),
    };
    let (node, hint) = (state("4", "8Gi"), found(60, Freshness::Fresh));
    let decide = with_held(&policy, Some(&hint), Some(cpu_held(3900, 3900)));
    assert_eq!(cpu(&decide(&node, &node)), (Some(3920), vec![Why::FloorAdmitted]));
}

#[test]
fn nothing_is_lowered_while_the_demand_is_unknown() {
    let node = amplified();
    let hint = found(100, Freshness::Fresh);
    for mode in [Mode::Auto, Mode::Off] {
        let policy = policy(mode);
        let decision = with_held(&policy, Some(&hint), None)(&node, &node);
        assert_eq!(cpu(&decision), (Some(6000), vec![Why::FloorUnknown]), "{mode}");
    }
}

#[test]
fn an_unknown_demand_matters_only_for_lower_values() {
    let node = state("4", "8Gi");
    let (policy, hint) = (policy(Mode::Auto), found(100, Freshness::Fresh));
    let decision = with_held(&policy, Some(&hint), None)(&node, &node);
    assert_eq!(cpu(&decision), (Some(4000), vec![]));
}

#[test]
fn without_a_floor_the_decision_stands() {
    let node = amplified();
    let hint = found(100, Freshness::Fresh);
    let policy = Policy {
        floor: Floor::None,
        ..policy(Mode::Auto)
    };
    for held in [None, Some(cpu_held(5900, 5900))] {
        let decision = with_held(&policy, Some(&hint), held)(&node, &node);
        assert_eq!(cpu(&decision), (Some(4000), vec![]));
        assert_eq!(decision.outcomes.cpu.cap, None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// For any requests: without admitted pods nothing rises above the stored or decided value, and pods hold at most
    /// ten times raw.
    #[test]
    fn pending_pods_never_raise_allocatable(
        milli in 0_u64..500_000, cents in 50_u32..400, waiting in any::<u64>(), admitted in any::<u64>(),
        mode in prop::sample::select(Mode::ALL.to_vec()),
    ) {
        let mut node = by_static(&with_ratio(state("1", "8Gi"), r#"{"cpu":1.4}"#));
        node.allocatable.cpu = Some(Quantity::from_milli(milli));
        let (policy, hint) = (policy(mode), found(cents, Freshness::Fresh));
        let result = |admitted, fit| {
            let held = Some(cpu_held(admitted, fit));
            with_held(&policy, Some(&hint), held)(&node, &node).outcomes.cpu
        };
        let (plain, waits, holds) = (result(0, 0), result(0, waiting), result(admitted, waiting));
        prop_assert!(waits.result <= plain.result.max(Some(milli)));
        prop_assert!(waits.result >= plain.result && holds.result >= waits.result);
        let most = holds.raw.map(|raw| raw * 10);
        prop_assert!(holds.result <= plain.result.max(most), "{holds:?}");
    }
}
