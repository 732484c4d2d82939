//! Recorded runs about markers that users forge one after the other, and the pods that they cover.

use rstest::rstest;

use super::{Annotation, Forgery, ModelRun, ModelStep, Others, PodChange, Quiet, SYNC};

/// A machine shrinks below the amount that its pods hold; a forged raw value lets the node cover them above its
/// maximum. The next forged marker leaves at most that maximum.
#[rstest]
#[case::as_found(2, 3, Forgery::Quarter, ModelStep::Restart)]
#[case::another_ratio(3, 3, Forgery::Quarter, ModelStep::Restart)]
#[case::another_machine(3, 2, Forgery::Quarter, ModelStep::Restart)]
#[case::another_writer(2, 3, Forgery::Quarter, ModelStep::Others(Others::Problem))]
#[case::of_capacity(3, 3, Forgery::Origin, ModelStep::Restart)]
fn what_one_forged_marker_covers_another_uncovers(
    #[case] ratio: usize,
    #[case] machine: usize,
    #[case] forged: Forgery,
    #[case] last: ModelStep,
) {
    let run = ModelRun {
        steps: vec![
            ModelStep::Pods(PodChange::Bind(6)),
            ModelStep::Annotate(Annotation::Ratio(Some(ratio))),
            ModelStep::Report { lag: 0 },
            ModelStep::Pods(PodChange::Admit),
            ModelStep::Machine(machine),
            SYNC,
            ModelStep::Forge(forged),
            SYNC,
            ModelStep::Forge(Forgery::Written),
            last,
        ],
        quiet: Quiet::UNHEARD,
    };
    run.check().unwrap();
}

/// Like the run above, but some pods leave before, and the rest is less than the marker's value: it stays covered.
#[test]
fn what_a_forged_marker_still_covers_stays_covered() {
    let admitted = [6, 0, 0].map(|size| ModelStep::Pods(PodChange::Bind(size)));
    let after = [
        ModelStep::Annotate(Annotation::Ratio(Some(3))),
        ModelStep::Report { lag: 0 },
        ModelStep::Pods(PodChange::Admit),
        ModelStep::Pods(PodChange::Admit),
        ModelStep::Pods(PodChange::Admit),
        ModelStep::Machine(3),
        SYNC,
        ModelStep::Forge(Forgery::Quarter),
        SYNC,
        ModelStep::Pods(PodChange::Resize { pod: 0, size: 1 }),
        ModelStep::Annotate(Annotation::Ratio(Some(2))),
        ModelStep::Forge(Forgery::Written),
        ModelStep::Restart,
    ];
    let run = ModelRun {
        steps: admitted.into_iter().chain(after).collect(),
        quiet: Quiet::UNHEARD,
    };
    run.check().unwrap();
}
