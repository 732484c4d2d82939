//! Tests of the report check: reports that contradict their kubelet or each other, and correct reports that seem to.

use rstest::rstest;

use super::*;
use crate::hint::tests::hint;

const GIB: u64 = 1 << 30;

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A machine with 32 CPUs and 64 GiB, of which 30 and 60 are allocatable.
fn kubelet() -> ByKubelet {
    ByKubelet {
        capacity: PerResource {
            cpu: Some(32_000),
            memory: Some(64 * GIB),
        },
        raw: PerResource {
            cpu: Some(30_000),
            memory: Some(60 * GIB),
        },
        has_memory_pressure: false,
    }
}

fn report() -> NodeHint {
    let mut report = hint("n1", 1);
    report.resources.memory.capacity = 64 * GIB;
    report
}

/// Verdict after reports every 15 seconds from `from` to `to`.
fn verdict(
    trial: &mut ReportCheck,
    report: &NodeHint,
    kubelet: &ByKubelet,
    seconds: std::ops::RangeInclusive<u64>,
) -> Option<Contradiction> {
    let last = *seconds.end();
    for second in seconds.step_by(15) {
        trial.report(report, kubelet, at(second));
    }
    trial.verdict(at(last))
}

#[rstest]
#[case::the_same(|_: &mut NodeHint, _: &mut ByKubelet| {}, None)]
#[case::fewer_cpus(|report: &mut NodeHint, _: &mut ByKubelet| report.resources.cpu.capacity = 31_000, Some(Contradiction::Capacity))]
#[case::within_tolerance(|report: &mut NodeHint, _: &mut ByKubelet| report.resources.cpu.capacity = 31_500, None)]
#[case::at_the_tolerance(|report: &mut NodeHint, _: &mut ByKubelet| report.resources.cpu.capacity = 32_640, None)]
#[case::beyond_it(|report: &mut NodeHint, _: &mut ByKubelet| report.resources.cpu.capacity = 32_641, Some(Contradiction::Capacity))]
#[case::more_memory(|report: &mut NodeHint, _: &mut ByKubelet| report.resources.memory.capacity = 66 * GIB, Some(Contradiction::Capacity))]
#[case::huge_pages_left_out(|report: &mut NodeHint, kubelet: &mut ByKubelet| {
    report.resources.memory.capacity = 40 * GIB;
    kubelet.raw.memory = Some(38 * GIB);
}, None)]
#[case::less_than_is_handed_out(|report: &mut NodeHint, _: &mut ByKubelet| report.resources.memory.capacity = 40 * GIB, Some(Contradiction::Capacity))]
#[case::nothing_known(|report: &mut NodeHint, kubelet: &mut ByKubelet| {
    report.resources.cpu.capacity = 1;
    *kubelet = ByKubelet::default();
}, None)]
#[case::nothing_said(|report: &mut NodeHint, _: &mut ByKubelet| {
    (report.resources.cpu.capacity, report.resources.memory.capacity) = (0, 0);
}, None)]
#[case::blind(|report: &mut NodeHint, _: &mut ByKubelet| {
    report.sight = AgentMode::Blind;
    report.resources.cpu.capacity = 1;
}, None)]
#[case::short_of_memory(|_: &mut NodeHint, kubelet: &mut ByKubelet| kubelet.has_memory_pressure = true, Some(Contradiction::MemoryPressure))]
#[case::short_of_memory_and_braked(|report: &mut NodeHint, kubelet: &mut ByKubelet| {
    kubelet.has_memory_pressure = true;
    report.resources.memory.brake = Brake::Stop;
}, None)]
fn reports_are_compared_with_the_node(
    #[case] change: fn(&mut NodeHint, &mut ByKubelet),
    #[case] expected: Option<Contradiction>,
) {
    let (mut report, mut kubelet) = (report(), kubelet());
    change(&mut report, &mut kubelet);
    let mut trial = ReportCheck::default();
    assert_eq!(
        verdict(&mut trial, &report, &kubelet, 0..=59),
        None,
        "the agent may not know of it yet"
    );
    assert_eq!(verdict(&mut trial, &report, &kubelet, 60..=75), expected);
    let honest = self::report();
    assert_eq!(
        verdict(&mut trial, &honest, &self::kubelet(), 90..=90),
        None,
        "the contradiction ended"
    );
}

#[test]
fn one_agreeing_report_restarts_the_minute() {
    let mut trial = ReportCheck::default();
    let mut other = report();
    other.resources.cpu.capacity = 8_000;
    assert_eq!(verdict(&mut trial, &other, &kubelet(), 0..=45), None);
    assert_eq!(verdict(&mut trial, &report(), &kubelet(), 60..=60), None);
    assert_eq!(verdict(&mut trial, &other, &kubelet(), 75..=120), None);
    assert_eq!(
        verdict(&mut trial, &other, &kubelet(), 135..=150),
        Some(Contradiction::Capacity)
    );
}

#[test]
fn a_report_of_an_ended_boot_quarantines_for_ten_minutes() {
    let mut trial = ReportCheck::default();
    let of_boot = |boot: &str| NodeHint {
        boot_id: boot.to_owned(),
        ..report()
    };
    assert_eq!(verdict(&mut trial, &of_boot("one"), &kubelet(), 0..=30), None);
    assert_eq!(verdict(&mut trial, &of_boot("two"), &kubelet(), 45..=60), None);
    assert_eq!(
        verdict(&mut trial, &of_boot("one"), &kubelet(), 75..=75),
        Some(Contradiction::EarlierBoot)
    );
    assert_eq!(trial.verdict(at(674)), Some(Contradiction::EarlierBoot));
    assert_eq!(verdict(&mut trial, &of_boot("one"), &kubelet(), 675..=675), None);
    for boot in 0..1000 {
        trial.report(&of_boot(&boot.to_string()), &kubelet(), at(700));
    }
    assert!(trial.boots.len() <= MOST_BOOTS);
}

/// Compares values once a minute: the agent's CPU and memory, and the kubelet's. Returns the minutes with a verdict.
fn compared(figures: impl IntoIterator<Item = ((u64, u64), (u64, u64))>) -> Vec<usize> {
    let mut trial = ReportCheck::default();
    let mut found = Vec::new();
    for (minute, (said, used)) in figures.into_iter().enumerate() {
        let now = Duration::from_secs(60 * u64::try_from(minute).unwrap());
        let mut report = report();
        (report.resources.cpu.usage, report.resources.memory.usage) = said;
        let used = PerResource {
            cpu: used.0,
            memory: used.1,
        };
        trial.compare(&report, used, now);
        if trial.verdict(now) == Some(Contradiction::Use) {
            found.push(minute);
        }
    }
    found
}

#[test]
fn use_far_below_the_kubelets_counts_after_two_frames_until_three_pairs_agree() {
    let lie = ((6_900, 30 * GIB), (10_000, 30 * GIB));
    let truth = ((7_000, 30 * GIB), (10_000, 30 * GIB));
    assert_eq!(compared([lie; 12]), [0; 0]);
    assert_eq!(compared([lie; 15]), [12, 13, 14]);
    let ended = compared(std::iter::repeat_n(lie, 14).chain([truth; 3]));
    assert_eq!(ended, [12, 13, 14, 15]);
    assert_eq!(compared([truth; 40]), [0; 0]);
}

#[rstest]
#[case::page_cache(((5_000, 12 * GIB), (5_000, 30 * GIB)), false)]
#[case::memory_that_is_not_told_of(((5_000, 10 * GIB), (5_000, 30 * GIB)), true)]
#[case::next_to_nothing(((100, GIB), (3_199, 6 * GIB)), false)]
#[case::a_tenth(((100, GIB), (3_200, GIB)), true)]
fn use_is_compared_only_above_a_minimum(#[case] figure: ((u64, u64), (u64, u64)), #[case] is_found: bool) {
    assert_eq!(!compared([figure; 20]).is_empty(), is_found);
}

#[test]
fn a_correct_mean_never_contradicts_a_jumping_load() {
    // The agent's value is the mean of the last complete frame of five minutes, the kubelet's that of this minute.
    let load = |minute: u64| [2_000_u64, 30_000][usize::from((minute / 17) % 2 == 1)];
    let said = |minute: u64| {
        let frame = (minute / 5).saturating_sub(1) * 5;
        (frame..frame + 5).map(load).sum::<u64>() / 5
    };
    let memory = 30 * GIB;
    let figures = (5..500).map(|minute| ((said(minute), memory), (load(minute), memory)));
    assert_eq!(compared(figures), [0; 0]);
}

#[test]
fn stolen_time_may_be_in_the_kubelets_use() {
    let mut trial = ReportCheck::default();
    for minute in 0..20 {
        let mut report = report();
        report.resources.cpu.usage = 10_000;
        report.steal_ppm = 300_000;
        let used = PerResource {
            cpu: 20_000,
            memory: 0,
        };
        trial.compare(&report, used, at(60 * minute));
        assert_eq!(trial.verdict(at(60 * minute)), None);
    }
}

#[test]
fn stolen_time_explains_at_most_its_share() {
    // 10 % of 32 CPUs are 3.2; with 10 CPUs of use that is 70 % of 18.857.
    for (used, expected) in [(18_857, None), (18_858, Some(Contradiction::Use))] {
        let mut trial = ReportCheck::default();
        let mut report = report();
        report.resources.cpu.usage = 10_000;
        report.steal_ppm = 100_000;
        for minute in 0..20 {
            let used = PerResource { cpu: used, memory: 0 };
            trial.compare(&report, used, at(60 * minute));
        }
        assert_eq!(trial.verdict(at(60 * 19)), expected, "{used}");
    }
}

/// Returns true if a report of `said` milli-cores contradicts `used`. `isolated` of its 16 CPUs are isolated; the
/// hypervisor takes a tenth of the others.
fn is_contradicted(isolated: u64, said: u64, used: u64) -> bool {
    let mut trial = ReportCheck::default();
    let mut report = report();
    report.resources.cpu.capacity = 16_000;
    report.resources.cpu.isolated = isolated;
    report.resources.cpu.usage = said;
    report.steal_ppm = 100_000;
    for minute in 0..20 {
        let used = PerResource { cpu: used, memory: 0 };
        trial.compare(&report, used, at(60 * minute));
    }
    trial.verdict(at(60 * 19)) == Some(Contradiction::Use)
}

#[rstest]
#[case::filled_by_exclusive_pods(12_000, 1_000, 13_000, false)]
#[case::as_much_as_they_can_explain(4_000, 1_800, 10_000, false)]
#[case::and_no_more(4_000, 1_800, 10_001, true)]
#[case::without_any(0, 5_400, 10_000, false)]
#[case::without_any_and_no_more(0, 5_400, 10_001, true)]
#[case::none_would_be_left(16_000, 1_000, 13_000, true)]
#[case::more_than_there_are(u64::MAX, 1_000, 13_000, true)]
fn isolated_cpus_explain_at_most_their_own_time(
    #[case] isolated: u64,
    #[case] said: u64,
    #[case] used: u64,
    #[case] is_found: bool,
) {
    assert_eq!(is_contradicted(isolated, said, used), is_found);
}

#[test]
fn boots_before_a_returning_boot_are_remembered() {
    let mut trial = ReportCheck::default();
    let of_boot = |boot: &str| NodeHint {
        boot_id: boot.to_owned(),
        ..report()
    };
    for (boot, second, expected) in [
        ("one", 0, None),
        ("two", 15, None),
        ("one", 30, Some(Contradiction::EarlierBoot)),
        ("two", 700, Some(Contradiction::EarlierBoot)),
    ] {
        trial.report(&of_boot(boot), &kubelet(), at(second));
        assert_eq!(trial.verdict(at(second)), expected, "{boot} at {second}");
    }
}

#[test]
fn the_maximum_number_of_boots_is_remembered() {
    let mut trial = ReportCheck::default();
    let of_boot = |boot: usize| NodeHint {
        boot_id: boot.to_string(),
        ..report()
    };
    for boot in 0..=MOST_BOOTS {
        trial.report(&of_boot(boot), &kubelet(), at(0));
    }
    trial.report(&of_boot(0), &kubelet(), at(1));
    assert_eq!(trial.verdict(at(1)), None, "forgotten");
    trial.report(&of_boot(2), &kubelet(), at(2));
    assert_eq!(trial.verdict(at(2)), Some(Contradiction::EarlierBoot));
}

#[test]
fn contradictions_have_distinct_names_and_texts() {
    let about = Contradiction::ALL.map(Contradiction::about);
    let apart = |at: usize| !about[..at].contains(&about[at]) && !about[at].is_empty();
    assert!((0..about.len()).all(apart));
}

#[test]
fn agreeing_pairs_refute_a_recorded_contradiction_of_use() {
    let mut trial = ReportCheck::default();
    let mut report = report();
    report.resources.cpu.usage = 10_000;
    let used = PerResource {
        cpu: 10_000,
        memory: 0,
    };
    for figure in 0..LEAST_FIGURES {
        assert!(trial.upholds(Contradiction::Use, at(0)), "after {figure} figures");
        trial.compare(&report, used, at(0));
    }
    assert!(!trial.upholds(Contradiction::Use, at(0)));
}

#[test]
fn reports_of_a_blind_agent_are_not_compared() {
    let mut trial = ReportCheck::default();
    let blind = NodeHint {
        sight: AgentMode::Blind,
        ..report()
    };
    let used = PerResource {
        cpu: 20_000,
        memory: 0,
    };
    for minute in 0..20 {
        trial.compare(&blind, used, at(60 * minute));
    }
    assert_eq!(trial.verdict(at(60 * 19)), None);
}

#[test]
fn without_further_pairs_the_contradiction_ends() {
    let mut trial = ReportCheck::default();
    let used = PerResource {
        cpu: 20_000,
        memory: 0,
    };
    for minute in 0..20 {
        trial.compare(&report(), used, at(60 * minute));
    }
    assert_eq!(trial.verdict(at(60 * 24)), Some(Contradiction::Use));
    assert_eq!(trial.verdict(at(60 * 25)), None);
    trial.compare(&report(), used, at(60 * 25));
    assert_eq!(trial.verdict(at(60 * 25)), None, "two more frames must pass");
}

#[test]
fn a_recorded_contradiction_counts_until_refuted_or_expired() {
    for contradiction in Contradiction::ALL {
        let mut trial = ReportCheck::default();
        assert!(
            trial.upholds(contradiction, at(0)),
            "the watch has not delivered it yet"
        );
        trial.record(Some(contradiction), at(1_000));
        trial.record(Some(contradiction), at(1_300));
        assert!(trial.upholds(contradiction, at(1_599)));
        assert!(!trial.upholds(contradiction, at(1_600)), "{contradiction:?}");
        trial.record(None, at(1_700));
        trial.record(Some(contradiction), at(1_800));
        assert!(
            trial.upholds(contradiction, at(1_801)),
            "another contradiction is recorded"
        );
    }
    let (hint, kubelet) = (report(), kubelet());
    let mut trial = ReportCheck::default();
    trial.report(&hint, &kubelet, at(0));
    assert!(!trial.upholds(Contradiction::Capacity, at(1)));
    assert!(!trial.upholds(Contradiction::MemoryPressure, at(1)));
    assert!(trial.upholds(Contradiction::EarlierBoot, at(1)));
    let mut other = hint.clone();
    other.resources.cpu.capacity *= 2;
    other.seq += 1;
    trial.report(&other, &kubelet, at(15));
    assert_eq!(trial.verdict(at(15)), None, "one report is too few");
    assert!(trial.upholds(Contradiction::Capacity, at(15)));
}
