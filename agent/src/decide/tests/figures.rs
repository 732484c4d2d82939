//! Tests of figures that no decision uses: stolen time in reports, and runs of kernel programs in `/status`.

use std::{sync::Arc, time::Duration};

use super::*;
use crate::{
    kernel::probe::{Flavour, Health, Hook, HookVerdict, Runs},
    sample::{StatSpan, procfs::CpuTime},
};

#[test]
fn stolen_time_is_reported_as_its_share_of_all_cpus() {
    let mut decider = decider_with_view();
    for quarter in 41..=48 {
        let mut sample = sample(quarter, 400);
        if let Some(poll) = &mut sample.poll {
            poll.stat = Some(StatSpan {
                elapsed_ns: QUARTER,
                time: CpuTime {
                    // A tenth of the four CPUs.
                    steal_ns: QUARTER * u64::from(CPUS) / 10,
                    ..CpuTime::default()
                },
                shared_busy_ns: 0,
            });
        }
        decider.observe(sample);
    }
    assert_eq!(decider.report().expect("a report").steal_ppm, 100_000);
}

#[test]
fn runs_of_a_program_are_shown_only_at_its_hook() {
    let mut decider = decider_with_view();
    let verdicts = [Hook::SchedWakeup, Hook::SchedSwitch].map(|hook| HookVerdict {
        hook,
        health: Health::Ok,
        flavour: Some(Flavour::Typed),
        reason: None,
        verifier_log: None,
    });
    let runs = Runs {
        hook: Hook::SchedSwitch,
        id: 1,
        count: 7,
        time: Duration::from_nanos(91),
        translated_bytes: 0,
        jited_bytes: 0,
    };
    decider.observe(Sample {
        probe_state: Some(ProbeState::Counting {
            shed: Shed::Nothing,
            is_calm: false,
            reattached: 0,
            verdicts: Some(Arc::from(verdicts)),
        }),
        runs: Some(Arc::from([runs])),
        ..sample(41, 400)
    });
    let shown: Vec<_> = decider
        .status()
        .programs
        .iter()
        .map(|program| (program.runs, program.run_time_ns))
        .collect();
    assert_eq!(shown, [(0, 0), (7, 91)]);
}
