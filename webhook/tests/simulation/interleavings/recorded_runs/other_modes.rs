//! Recorded runs about a nudge that is decided by another mode than the one it meets.

use rstest::rstest;

use super::{Annotation, ModelRun, ModelStep, Others, PodChange, Quiet};

/// Only one replica observes that ratios are off, when its hint is too old to hold anything. Its nudge passes through
/// a replica that has not observed it and counts the nudge's hint as fresh.
#[test]
fn a_nudge_by_a_hint_that_holds_nothing_lets_no_replica_keep_its_ratio() {
    let run = ModelRun {
        steps: vec![
            ModelStep::Policy {
                policy: 1,
                replica: None,
            },
            ModelStep::Hint {
                cents: 6,
                replica: None,
                is_of_old_life: false,
                exclusive: 0,
            },
            ModelStep::Others(Others::Problem),
            ModelStep::Hear(0),
            ModelStep::Hear(1),
            ModelStep::Sync { lag: 0 },
            ModelStep::Wait(400),
            ModelStep::Policy {
                policy: 3,
                replica: Some(1),
            },
            ModelStep::Nudge(1),
        ],
        quiet: Quiet::UNHEARD,
    };
    run.check().unwrap();
}

/// The answering replica has observed exclusive CPUs of a pod, and the nudging replica that there are none left.
/// Under a ratio set by users this is recorded: the answering replica would count those CPUs again.
#[test]
fn a_nudge_by_a_ratio_of_people_tells_that_no_cpus_are_held_any_more() {
    let report = |replica, exclusive| ModelStep::Hint {
        cents: 0,
        replica,
        is_of_old_life: false,
        exclusive,
    };
    let run = ModelRun {
        steps: vec![
            ModelStep::Pods(PodChange::Bind(5)),
            ModelStep::Pods(PodChange::Admit),
            report(None, 1),
            ModelStep::Annotate(Annotation::Ratio(Some(0))),
            report(Some(1), 0),
            ModelStep::Hear(1),
            ModelStep::Nudge(1),
        ],
        quiet: Quiet::UNHEARD,
    };
    run.check().unwrap();
}

/// A pod has exclusive CPUs, which a ratio set by users must learn. The mode changes to one that uses hints; a nudge
/// of the mode before carries at most its hint's ratio, and a second one for the same reason changes nothing.
#[rstest]
#[case::too_old(400, 2)]
#[case::that_may_only_stay(200, 2)]
#[case::fresh(20, 2)]
#[case::of_hints_alone(400, 3)]
#[case::of_hints_alone_and_fresh(20, 3)]
fn a_nudge_by_a_ratio_of_people_is_no_measurement(#[case] age: u16, #[case] mode: usize) {
    let run = ModelRun {
        steps: vec![
            ModelStep::Annotate(Annotation::Ratio(Some(0))),
            ModelStep::Pods(PodChange::Bind(1)),
            ModelStep::Pods(PodChange::Admit),
            ModelStep::Others(Others::Problem),
            ModelStep::Hint {
                cents: 0,
                replica: None,
                is_of_old_life: false,
                exclusive: 1,
            },
            ModelStep::Hear(0),
            ModelStep::Wait(age),
            ModelStep::Annotate(Annotation::Mode(Some(mode))),
            ModelStep::Send(0),
            ModelStep::Nudge(0),
            ModelStep::Arrive(0),
        ],
        quiet: Quiet::UNHEARD,
    };
    run.check().unwrap();
}
