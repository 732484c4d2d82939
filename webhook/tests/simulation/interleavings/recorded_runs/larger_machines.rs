//! Recorded runs about a machine that grows until its raw CPU is what a ratio made before.

use rstest::rstest;

use super::{Annotation, ModelRun, ModelStep, Others, Quiet};

/// While no webhook answers, the kubelet tells of a larger machine whose raw value is the very one that is published, and the
/// floor policy keeps its next heartbeats quiet.
#[test]
fn a_larger_machine_that_nobody_heard_of_is_found_by_the_next_report() {
    let run = ModelRun {
        steps: vec![
            ModelStep::Annotate(Annotation::Ratio(Some(0))),
            ModelStep::Others(Others::Problem),
            ModelStep::Floor(true),
            ModelStep::Outage {
                replica: 0,
                is_over: false,
            },
            ModelStep::RawBecomesStored,
            ModelStep::Sync { lag: 0 },
        ],
        quiet: Quiet::HEARD_BY_ONE,
    };
    run.check().unwrap();
}

/// A machine grows so that its raw CPU is what a ratio made before. In quarantine the node is at the raw value before, and a kubelet
/// with an old copy tells of the capacity alone. Out of it, what is written is what the kubelet finds: the node stays there.
#[test]
fn a_larger_machine_whose_raw_value_nobody_tells_stays_at_it() {
    let run = ModelRun {
        steps: vec![
            ModelStep::Annotate(Annotation::Ratio(Some(0))),
            ModelStep::Others(Others::Problem),
            ModelStep::RawBecomesStored,
            ModelStep::Others(Others::Device),
            ModelStep::Policy {
                policy: 2,
                replica: None,
            },
            ModelStep::Lies {
                cents: 0,
                replica: None,
            },
            ModelStep::Others(Others::Problem),
            ModelStep::Sync { lag: 1 },
        ],
        quiet: Quiet {
            streams: 1,
            cents: 1,
            exclusive: 0,
            are_lies: false,
        },
    };
    run.check().unwrap();
}

/// Ratios are off for all, or what the first policy says.
const RATIOS_OFF: ModelStep = ModelStep::Policy {
    policy: 3,
    replica: None,
};
const RATIOS_ON: ModelStep = ModelStep::Policy {
    policy: 0,
    replica: None,
};
const PROBLEM: ModelStep = ModelStep::Others(Others::Problem);

/// While no webhook answers, a machine grows so that its raw CPU equals an amplified value, and the kubelet reports
/// the capacity alone. Then raw is restored in a write that is no sync, and the marker with the earlier capacity is
/// deleted. The next written value equals the kubelet's: the node stays there. This does not happen if the kubelet is
/// observed in between, or with another ratio.
#[rstest]
#[case::for_one_replica(0, vec![ModelStep::Policy { policy: 3, replica: Some(1) }, PROBLEM])]
#[case::for_both(0, vec![RATIOS_OFF, PROBLEM, RATIOS_ON])]
#[case::by_another_ratio(1, vec![RATIOS_OFF, PROBLEM, RATIOS_ON])]
#[case::by_a_high_ratio(3, vec![RATIOS_OFF, PROBLEM, RATIOS_ON])]
#[case::by_a_device_of_the_kubelets(0, vec![RATIOS_OFF, ModelStep::Others(Others::Device), RATIOS_ON])]
#[case::by_an_address(0, vec![RATIOS_OFF, ModelStep::Others(Others::Address(1)), RATIOS_ON])]
#[case::by_a_sweep(0, vec![RATIOS_OFF, ModelStep::Hear(1), ModelStep::Sweep(1), RATIOS_ON])]
#[case::without_a_ratio(
    0,
    vec![
        ModelStep::Annotate(Annotation::Ratio(None)),
        PROBLEM,
        ModelStep::Annotate(Annotation::Ratio(Some(0))),
    ]
)]
#[case::heard_before(0, vec![ModelStep::Report { lag: 0 }, RATIOS_OFF, PROBLEM, RATIOS_ON])]
#[case::heard_with_ratios_off(0, vec![RATIOS_OFF, ModelStep::Report { lag: 0 }, RATIOS_ON])]
#[case::heard_with_raw_restored(0, vec![RATIOS_OFF, PROBLEM, ModelStep::Sync { lag: 0 }, RATIOS_ON])]
#[case::until_another_ratio(
    0,
    vec![RATIOS_OFF, PROBLEM, RATIOS_ON, ModelStep::Annotate(Annotation::Ratio(Some(1)))]
)]
fn a_larger_machine_that_nobody_heard_of_stays_at_raw_once_the_marker_is_gone(
    #[case] ratio: usize,
    #[case] between: Vec<ModelStep>,
    #[values(0, 1)] first: usize,
) {
    let before = [
        ModelStep::Route(first),
        ModelStep::Annotate(Annotation::Ratio(Some(ratio))),
        PROBLEM,
        ModelStep::Outage {
            replica: first,
            is_over: false,
        },
        ModelStep::RawBecomesStored,
        ModelStep::Sync { lag: 0 },
        ModelStep::Route(1),
        ModelStep::Outage {
            replica: 1,
            is_over: true,
        },
    ];
    let run = ModelRun {
        steps: before.into_iter().chain(between).collect(),
        quiet: Quiet::UNHEARD,
    };
    run.check().unwrap();
}

/// A machine grows so that its raw CPU equals an amplified value; the ratio is removed and set again. The kubelet's
/// old copy makes it report the capacity alone, and its next value equals the one that the webhook has computed from
/// the former raw value meanwhile: the node stays there. This does not happen if the kubelet is observed before, or
/// with another value.
#[rstest]
#[case::as_found(1, 5, 3, 1)]
#[case::by_another_ratio(2, 2, 3, 1)]
#[case::by_an_older_copy(1, 1, 4, 1)]
#[case::by_an_older_copy_twice(1, 1, 3, 2)]
#[case::heard_before(1, 1, 0, 1)]
#[case::made_to_another_value(1, 2, 3, 1)]
fn a_word_of_the_kubelet_that_is_what_was_made_is_not_heard(
    #[case] ratio: usize,
    #[case] again: usize,
    #[case] lag: usize,
    #[case] next: usize,
    #[values(PROBLEM, ModelStep::Others(Others::Device))] last: ModelStep,
) {
    let run = ModelRun {
        steps: vec![
            ModelStep::Annotate(Annotation::Ratio(Some(ratio))),
            ModelStep::Others(Others::Device),
            ModelStep::RawBecomesStored,
            ModelStep::Annotate(Annotation::Ratio(None)),
            ModelStep::Others(Others::Device),
            last,
            ModelStep::Annotate(Annotation::Ratio(Some(again))),
            ModelStep::Sync { lag },
            ModelStep::Sync { lag: next },
        ],
        quiet: Quiet::UNHEARD,
    };
    run.check().unwrap();
}

/// Like the run above, but no replica has observed the capacity before: the capacity shows that the value is raw.
#[test]
fn a_word_of_the_kubelet_that_is_what_was_made_is_heard_with_its_capacity() {
    let outage = |is_over| ModelStep::Outage { replica: 0, is_over };
    let run = ModelRun {
        steps: vec![
            ModelStep::Annotate(Annotation::Ratio(Some(1))),
            ModelStep::Others(Others::Device),
            ModelStep::RawBecomesStored,
            ModelStep::Annotate(Annotation::Ratio(Some(2))),
            ModelStep::Others(Others::Device),
            outage(false),
            ModelStep::Sync { lag: 1 },
            outage(true),
            ModelStep::Annotate(Annotation::Ratio(Some(1))),
            PROBLEM,
            ModelStep::Sync { lag: 1 },
        ],
        quiet: Quiet::UNHEARD,
    };
    run.check().unwrap();
}
