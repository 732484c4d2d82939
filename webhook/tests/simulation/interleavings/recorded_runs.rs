//! Runs that once failed, each for a rule of its own.

mod forged_markers;
mod larger_machines;
mod other_modes;

use rstest::rstest;

use super::{Annotation, Forgery, ModelRun, ModelStep, Others, Quiet, model_pods::PodChange};

const SYNC: ModelStep = ModelStep::Sync { lag: 0 };

#[test]
fn replicas_that_know_of_other_exclusive_cpus_come_to_rest() {
    let run = ModelRun {
        steps: vec![
            ModelStep::Annotate(Annotation::Ratio(Some(0))),
            ModelStep::Pods(PodChange::Bind(1)),
            ModelStep::Pods(PodChange::Admit),
            ModelStep::Hint {
                cents: 0,
                replica: None,
                is_of_old_life: false,
                exclusive: 1,
            },
        ],
        quiet: Quiet::HEARD_BY_ONE,
    };
    run.check().unwrap();
}

/// A pod holds more than raw, a user writes a hint while no agent is connected, and the machine grows.
#[test]
fn what_a_pod_held_is_no_ratio_for_a_forged_hint() {
    let run = ModelRun {
        steps: vec![
            ModelStep::Policy {
                policy: 1,
                replica: None,
            },
            ModelStep::Pods(PodChange::Bind(5)),
            ModelStep::Others(Others::Edit(2)),
            ModelStep::Forge(Forgery::Hint),
            ModelStep::Others(Others::Edit(3)),
        ],
        quiet: Quiet::UNHEARD,
    };
    run.check().unwrap();
}

/// A replica without a policy keeps the stored value while raw grows and shrinks again.
#[test]
fn what_a_replica_without_policies_kept_is_a_share_of_raw() {
    let run = ModelRun {
        steps: vec![
            ModelStep::Annotate(Annotation::Ratio(Some(1))),
            ModelStep::Others(Others::Edit(3)),
            ModelStep::StartBlind(0),
            ModelStep::Restart,
            ModelStep::Others(Others::Edit(0)),
        ],
        quiet: Quiet::UNHEARD,
    };
    run.check().unwrap();
}

/// A user writes that the published value was computed from a quarter of raw, and a hint of far more, and no agent is
/// connected.
#[test]
fn a_forged_raw_value_is_no_ratio_for_a_forged_hint() {
    let run = ModelRun {
        steps: vec![
            ModelStep::Policy {
                policy: 1,
                replica: None,
            },
            ModelStep::Sync { lag: 0 },
            ModelStep::Forge(Forgery::Quarter),
            ModelStep::Forge(Forgery::Hint),
            ModelStep::Report { lag: 0 },
            ModelStep::Report { lag: 0 },
        ],
        quiet: Quiet::UNHEARD,
    };
    run.check().unwrap();
}

/// A pod holds more than raw, the kubelet writes while no replica answers, and a user writes that the pod's amount
/// was computed from the whole machine.
#[test]
fn a_forged_raw_value_lessens_what_pods_hold() {
    let run = ModelRun {
        steps: vec![
            ModelStep::Annotate(Annotation::Ratio(Some(2))),
            ModelStep::Route(1),
            ModelStep::Pods(PodChange::Bind(2)),
            ModelStep::Report { lag: 0 },
            ModelStep::Policy {
                policy: 2,
                replica: Some(1),
            },
            ModelStep::Pods(PodChange::Admit),
            ModelStep::Others(Others::Problem),
            ModelStep::Outage {
                replica: 1,
                is_over: false,
            },
            ModelStep::Sync { lag: 0 },
            ModelStep::Forge(Forgery::Origin),
            ModelStep::Annotate(Annotation::Ratio(None)),
        ],
        quiet: Quiet::UNHEARD,
    };
    run.check().unwrap();
}

/// The kubelet reports less while no replica answers, and a user sets more than the node has before a replica without
/// policies.
#[test]
fn a_value_above_capacity_hides_nothing_that_the_kubelet_told_unheard() {
    let run = ModelRun {
        steps: vec![
            ModelStep::Outage {
                replica: 1,
                is_over: false,
            },
            ModelStep::Annotate(Annotation::Ratio(Some(0))),
            ModelStep::Others(Others::Problem),
            ModelStep::Route(1),
            ModelStep::Machine(2),
            ModelStep::Sync { lag: 0 },
            ModelStep::Route(0),
            ModelStep::StartBlind(0),
            ModelStep::Others(Others::Edit(4)),
            ModelStep::Sync { lag: 2 },
        ],
        quiet: Quiet::UNHEARD,
    };
    run.check().unwrap();
}

/// A pod holds more than a smaller machine may advertise, and a user writes that more was written than is stored.
#[test]
fn a_forged_written_value_counts_for_what_pods_hold() {
    let run = ModelRun {
        steps: vec![
            ModelStep::Annotate(Annotation::Ratio(Some(2))),
            ModelStep::Others(Others::Problem),
            ModelStep::Pods(PodChange::Bind(6)),
            ModelStep::Pods(PodChange::Admit),
            ModelStep::Machine(3),
            ModelStep::Sync { lag: 0 },
            ModelStep::Forge(Forgery::Written),
        ],
        quiet: Quiet::UNHEARD,
    };
    run.check().unwrap();
}

/// A user removes the marker of a machine that has less than its raw annotation states, and the next machine has
/// more.
#[test]
fn a_raw_annotation_without_a_marker_counts_on_a_machine_that_has_as_much() {
    let run = ModelRun {
        steps: vec![
            ModelStep::Policy {
                policy: 1,
                replica: None,
            },
            ModelStep::Machine(3),
            ModelStep::Others(Others::Problem),
            ModelStep::Outage {
                replica: 0,
                is_over: false,
            },
            ModelStep::Sync { lag: 0 },
            ModelStep::Hint {
                cents: 0,
                replica: None,
                is_of_old_life: false,
                exclusive: 0,
            },
            ModelStep::Forge(Forgery::Nothing),
            ModelStep::Machine(5),
            ModelStep::Sync { lag: 0 },
        ],
        quiet: Quiet::UNHEARD,
    };
    run.check().unwrap();
}

/// While no webhook answers, a user sets less than raw and then more than the node has, and the kubelet reports raw
/// again: the floor policy keeps the stored value, which is less than the marker's.
#[test]
fn what_somebody_wrote_above_capacity_stays_behind_the_floor_while_no_webhook_answers() {
    let run = ModelRun {
        steps: vec![
            ModelStep::Floor(true),
            ModelStep::Forge(Forgery::Hint),
            ModelStep::Annotate(Annotation::Ratio(Some(1))),
            ModelStep::Others(Others::Problem),
            ModelStep::Outage {
                replica: 0,
                is_over: false,
            },
            ModelStep::Others(Others::Edit(2)),
            ModelStep::Wait(400),
            ModelStep::Others(Others::Edit(1)),
            ModelStep::Sync { lag: 0 },
        ],
        quiet: Quiet::UNHEARD,
    };
    run.check().unwrap();
}

/// While no webhook answers, a kubelet reports a larger machine without its capacity, a user sets more than the
/// smaller one has, and then the kubelet reports the capacity alone: the stored value can be raw.
#[test]
fn what_somebody_wrote_above_capacity_is_raw_once_the_node_has_as_much() {
    let run = ModelRun {
        steps: vec![
            ModelStep::Annotate(Annotation::Ratio(Some(0))),
            ModelStep::Report { lag: 0 },
            ModelStep::Machine(3),
            ModelStep::Others(Others::Problem),
            ModelStep::Others(Others::Device),
            ModelStep::Sync { lag: 0 },
            ModelStep::Annotate(Annotation::Ratio(None)),
            ModelStep::Outage {
                replica: 0,
                is_over: false,
            },
            ModelStep::Machine(0),
            ModelStep::Sync { lag: 2 },
            ModelStep::Annotate(Annotation::Ratio(Some(0))),
            ModelStep::Others(Others::Edit(3)),
            ModelStep::Annotate(Annotation::Ratio(None)),
            ModelStep::Report { lag: 2 },
            ModelStep::Annotate(Annotation::Ratio(Some(0))),
        ],
        quiet: Quiet::UNHEARD,
    };
    run.check().unwrap();
}

/// While no webhook answers, a user sets a possible value, and the floor policy drops the kubelet's denial: the value
/// counts as raw until the kubelet's next write. The same holds if a heartbeat is due and is written.
#[rstest]
#[case::no_heartbeat(1)]
#[case::a_heartbeat(280)]
#[case::a_late_heartbeat(400)]
fn what_somebody_wrote_is_raw_while_the_floor_keeps_the_kubelets_word_to_itself(#[case] wait: u16) {
    let run = ModelRun {
        steps: vec![
            ModelStep::Machine(2),
            ModelStep::Annotate(Annotation::Ratio(Some(0))),
            ModelStep::Sync { lag: 0 },
            ModelStep::Floor(true),
            ModelStep::Outage {
                replica: 0,
                is_over: false,
            },
            ModelStep::Others(Others::Revert { lag: 1 }),
            ModelStep::Wait(wait),
            SYNC,
        ],
        quiet: Quiet::UNHEARD,
    };
    run.check().unwrap();
}

/// A pod waits with more than a user's value allows, and later requests less. The machine shrinks, and a replica
/// without a policy keeps the share that the pod held: on one machine after the other, in whole cents, and of the
/// stored value after an unobserved lowering.
#[rstest]
#[case::at_once(0, vec![ModelStep::StartBlind(0)])]
#[case::after_a_machine_on_which_the_value_stays(
    0,
    vec![ModelStep::StartBlind(0), ModelStep::Machine(0), ModelStep::Sync { lag: 0 }]
)]
#[case::in_whole_cents(1, vec![ModelStep::StartBlind(0)])]
#[case::of_what_somebody_lowered_unheard(
    0,
    vec![
        ModelStep::Outage { replica: 0, is_over: false },
        ModelStep::Others(Others::Edit(1)),
        ModelStep::StartBlind(0),
    ]
)]
fn what_a_pod_held_is_a_share_of_raw_for_a_replica_without_policies(
    #[case] edit: usize,
    #[case] between: Vec<ModelStep>,
) {
    let before = [
        ModelStep::Policy {
            policy: 1,
            replica: None,
        },
        ModelStep::Pods(PodChange::Bind(2)),
        ModelStep::Machine(1),
        ModelStep::Sync { lag: 0 },
        ModelStep::Others(Others::Edit(edit)),
        ModelStep::Pods(PodChange::Resize { pod: 0, size: 0 }),
    ];
    let after = [ModelStep::Machine(3), ModelStep::Sync { lag: 0 }];
    let run = ModelRun {
        steps: before.into_iter().chain(between).chain(after).collect(),
        quiet: Quiet::UNHEARD,
    };
    run.check().unwrap();
}

/// A Node is created again, and no replica observes that. Its agent reports, and then an agent of the earlier life:
/// the rest of the first report is on the Node. A pod holds a machine that a user has lowered, and on the next one
/// the report's ratio counts, at most for the stored value.
#[rstest]
#[case::as_found(vec![PodChange::Bind(0), PodChange::Resize { pod: 0, size: 1 }], false, 0, None, 3, SYNC)]
#[case::a_copy(vec![PodChange::Bind(1)], true, 0, None, 3, SYNC)]
#[case::another_report(vec![PodChange::Bind(1)], false, 3, None, 3, SYNC)]
#[case::one_replica(vec![PodChange::Bind(1)], false, 0, Some(0), 3, SYNC)]
#[case::the_replica_that_is_not_asked(vec![PodChange::Bind(1)], false, 0, Some(1), 3, SYNC)]
#[case::another_machine(vec![PodChange::Bind(1)], false, 0, None, 2, SYNC)]
#[case::no_pod(vec![], false, 0, None, 3, SYNC)]
#[case::a_report_of_the_kubelet(vec![PodChange::Bind(1)], false, 0, None, 3, ModelStep::Report { lag: 0 })]
#[case::a_restart(vec![PodChange::Bind(1)], false, 0, None, 3, ModelStep::Restart)]
fn a_report_of_the_life_before_leaves_what_the_node_says(
    #[case] pods: Vec<PodChange>,
    #[case] is_copy: bool,
    #[case] cents: usize,
    #[case] replica: Option<usize>,
    #[case] machine: usize,
    #[case] last: ModelStep,
) {
    let report = |is_of_old_life, replica| ModelStep::Hint {
        cents,
        replica,
        is_of_old_life,
        exclusive: 0,
    };
    let after = [
        ModelStep::Recreate { is_copy },
        ModelStep::Policy {
            policy: 1,
            replica: None,
        },
        ModelStep::Machine(machine),
        report(false, None),
        ModelStep::Others(Others::Problem),
        report(true, replica),
        ModelStep::Others(Others::Edit(2)),
        last,
    ];
    let run = ModelRun {
        steps: pods.into_iter().map(ModelStep::Pods).chain(after).collect(),
        quiet: Quiet::UNHEARD,
    };
    run.check().unwrap();
}
