//! Projects the allocatable that mode `auto` would reach on a node by its newest report, for nodes in other modes.

use crate::{
    estimate::HIGHEST_PROC,
    hint::{AgentMode, Brake, EffectiveHint, Freshness, NoRaiseReason},
    policy::Policy,
    ratio::Cents,
    resource::{PerResource, Resource},
};

/// Allocatable at which `auto` would settle, in milli-cores and bytes: raw times the published ratio, within bounds
/// and without exclusive CPUs. Mode `auto` reaches it in steps, and only with the floor in force. `None` without a
/// fresh report, or if the report is from another machine; `None` for a resource whose raw value is unknown.
pub fn projected_allocatable(
    found: &EffectiveHint,
    policy: &Policy,
    raw: PerResource<Option<u64>>,
) -> Option<PerResource<Option<u64>>> {
    if found.freshness != Freshness::Fresh || found.caution == Some(NoRaiseReason::OtherCapacity) {
        return None;
    }
    Some(PerResource::from_fn(|resource| {
        let raw = (*raw.get(resource))?;
        let exclusive = match resource {
            Resource::Cpu => found.note.excl.min(raw),
            Resource::Memory => 0,
        };
        let shared = u128::from(raw - exclusive) * u128::from(ratio(resource, found, policy).0) / 100;
        u64::try_from(shared).ok()?.checked_add(exclusive)
    }))
}

fn ratio(resource: Resource, found: &EffectiveHint, policy: &Policy) -> Cents {
    let part = *found.note.resources().get(resource);
    let is_quarantined = matches!(found.caution, Some(NoRaiseReason::Quarantined(_)));
    let is_blind = found.note.mode == AgentMode::Blind.name();
    let mut cents = part.published();
    if is_quarantined || is_blind || part.brake() == Brake::Stop {
        cents = cents.min(Cents::ONE);
    }
    if found.note.mode == AgentMode::Proc.name() {
        cents = cents.min(HIGHEST_PROC);
    }
    policy.bounds.get(resource).clamp(cents)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::{
        estimate::Profile,
        hint::{Contradiction, NodeHint, Note, ResourceHint},
        policy::{Bounds, Mode},
    };

    /// A fresh report that publishes 1.30 for CPU and 1.10 for memory.
    fn found() -> EffectiveHint {
        let part = |cents| ResourceHint {
            published: Cents(cents),
            ..ResourceHint::default()
        };
        let hint = NodeHint {
            node: "n1".to_owned(),
            node_uid: "u1".to_owned(),
            boot_id: "b1".to_owned(),
            seq: 1,
            is_primary: true,
            pods_generation: 0,
            sight: AgentMode::Full,
            timing: Profile::Production,
            is_draining: false,
            resources: PerResource {
                cpu: part(130),
                memory: part(110),
            },
            trust: Vec::new(),
            past: None,
            frame_use: None,
            steal_ppm: 0,
            signals: Vec::new(),
        };
        EffectiveHint {
            step: PerResource::from_fn(|_| Cents(5)),
            ..EffectiveHint::new(Note::from_hint(&hint), Freshness::Fresh)
        }
    }

    fn policy() -> Policy {
        Policy {
            mode: Mode::Off,
            ..Policy::default()
        }
    }

    const RAW: PerResource<Option<u64>> = PerResource {
        cpu: Some(10_000),
        memory: Some(1_000),
    };

    #[test]
    fn every_mode_projects_the_published_ratio_within_bounds() {
        let would = projected_allocatable(&found(), &policy(), RAW).unwrap();
        assert_eq!((would.cpu, would.memory), (Some(13_000), Some(1_000)));
        let mut wide = policy();
        wide.bounds.memory = Bounds::new(Cents(100), Cents(150)).unwrap();
        wide.bounds.cpu = Bounds::new(Cents(100), Cents(120)).unwrap();
        let would = projected_allocatable(&found(), &wide, RAW).unwrap();
        assert_eq!((would.cpu, would.memory), (Some(12_000), Some(1_100)));
    }

    #[rstest]
    #[case::quarantined(|found: &mut EffectiveHint| found.caution = Some(NoRaiseReason::Quarantined(Contradiction::Capacity)), 10_000)]
    #[case::blind(|found: &mut EffectiveHint| found.note.mode = "BLIND".to_owned(), 10_000)]
    #[case::stopped(|found: &mut EffectiveHint| found.note.cpu.brake = 3, 10_000)]
    #[case::held(|found: &mut EffectiveHint| found.note.cpu.brake = 1, 13_000)]
    #[case::by_procfs(
        |found: &mut EffectiveHint| {
            found.note.mode = "PROC".to_owned();
            found.note.cpu.published = 190;
        },
        15_000
    )]
    #[case::without_floor(|found: &mut EffectiveHint| found.caution = Some(NoRaiseReason::NoFloor), 13_000)]
    #[case::exclusive(|found: &mut EffectiveHint| found.note.excl = 4_000, 11_800)]
    #[case::all_exclusive(|found: &mut EffectiveHint| found.note.excl = 40_000, 10_000)]
    fn reasons_against_the_report_lower_the_projection(
        #[case] change: impl Fn(&mut EffectiveHint),
        #[case] cpu: u64,
    ) {
        let mut found = found();
        change(&mut found);
        assert_eq!(
            projected_allocatable(&found, &policy(), RAW).unwrap().cpu,
            Some(cpu)
        );
    }

    #[test]
    fn old_reports_and_other_machines_give_no_projection() {
        for freshness in [Freshness::Hold, Freshness::Stop] {
            let old = EffectiveHint { freshness, ..found() };
            assert_eq!(projected_allocatable(&old, &policy(), RAW), None);
        }
        let other = EffectiveHint {
            caution: Some(NoRaiseReason::OtherCapacity),
            ..found()
        };
        assert_eq!(projected_allocatable(&other, &policy(), RAW), None);
        let unknown = PerResource { cpu: None, ..RAW };
        assert_eq!(
            projected_allocatable(&found(), &policy(), unknown).unwrap().cpu,
            None
        );
    }
}
