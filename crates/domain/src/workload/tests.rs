//! Tests of the table of workloads: worked examples of docs/estimator.md, bounds, and nodes that lie.

use super::*;
use crate::resource::PerResource;

const NAMESPACE: u64 = 7;
const SHOP: Workload = Workload {
    controller: 1,
    version: 1,
};
/// Midnight of some day.
const MIDNIGHT: u64 = 1000 * PERIODS_A_DAY;

fn pod(workload: Workload, request: u64, used: u64) -> PodEvidence {
    PodEvidence {
        namespace: NAMESPACE,
        workload,
        requests: PerResource {
            cpu: request,
            memory: 0,
        },
        used: PerResource { cpu: used, memory: 0 },
    }
}

fn report(table: &mut ProfileTable, period: u64, node: u64, pods: &[PodEvidence]) -> Recorded {
    let evidence = NodeEvidence {
        node,
        pods: pods.to_vec(),
        counts: PerResource {
            cpu: true,
            memory: true,
        },
    };
    table.record(&evidence, period)
}

fn table() -> ProfileTable {
    ProfileTable::new(Limits::default())
}

/// A day in which `nodes` honest nodes with one pod each report `used` of 1,000 m, and `liar` of node 99.
fn day(nodes: u64, used: u64, liar: Option<u64>) -> WorkloadProfile {
    let mut table = table();
    for period in MIDNIGHT..=MIDNIGHT + PERIODS_A_DAY {
        for node in 0..nodes {
            report(&mut table, period, node, &[pod(SHOP, 1000, used)]);
        }
        if let Some(lie) = liar {
            report(&mut table, period, 99, &[pod(SHOP, 1000, lie)]);
        }
    }
    table.profile(&SHOP, MIDNIGHT + PERIODS_A_DAY + 1).unwrap()
}

fn noon(profile: &WorkloadProfile) -> SlotUse {
    profile.hourly.cpu.slot(12).unwrap()
}

#[test]
fn a_profile_has_192_bytes() {
    assert_eq!(size_of::<PerResource<HourlyUse>>(), 192);
}

/// docs/estimator.md#trust-by-workload: an entry with its keys, for 20,000 workloads within 24 MiB.
#[test]
fn twenty_thousand_workloads_fit_into_24_mib() {
    let entry = size_of::<entry::ProfileEntry>() + size_of::<(u64, Box<entry::ProfileEntry>)>() * 2;
    assert!(entry * 20_000 <= 24 << 20, "{entry} bytes");
}

/// docs/estimator.md#trust-by-workload, first example.
#[test]
fn three_nodes_of_one_period_give_mean_and_excess() {
    let mut table = table();
    for period in MIDNIGHT..MIDNIGHT + 3 {
        report(
            &mut table,
            period,
            1,
            &[pod(SHOP, 1000, 200), pod(SHOP, 1000, 300)],
        );
        report(&mut table, period, 2, &[pod(SHOP, 1000, 400)]);
        report(&mut table, period, 3, &[pod(SHOP, 1000, 900)]);
    }
    let profile = table.profile(&SHOP, MIDNIGHT + 4).unwrap();
    // Means 250 (twice), 400 and 900 become 400, 400 and 400; the second-largest node's pod used 400.
    let used = profile.hourly.cpu.slot(0).unwrap();
    assert_eq!((used.mean_ppm, used.excess_ppm), (400_000, 0));
    assert_eq!(profile.request.cpu, 1000);
    assert_eq!(profile.trust_ppm.cpu, 0, "one slot of six");
}

/// docs/estimator.md#trust-by-workload, second example.
#[test]
fn trust_is_the_share_of_observed_slots() {
    let coverage = Coverage {
        slots: 24,
        shared_slots: 24,
        version_age: Some(PERIODS_A_DAY),
    };
    let trust = |change: fn(&mut Coverage)| {
        let mut coverage = coverage;
        change(&mut coverage);
        trust_ppm(coverage)
    };
    assert_eq!(trust(|_| {}), 1_000_000);
    assert_eq!(trust(|known| known.slots = 5), 0);
    assert_eq!(trust(|known| known.slots = 6), 250_000);
    assert_eq!(trust(|known| known.version_age = None), 800_000);
    assert_eq!(trust(|known| known.version_age = Some(36)), 900_000);
    assert_eq!(trust(|known| known.shared_slots = 11), 500_000);
}

#[test]
fn a_node_that_reports_no_use_changes_nothing_for_twenty_honest_ones() {
    let (honest, attacked) = (day(20, 300, None), day(20, 300, Some(0)));
    assert_eq!(noon(&honest).mean_ppm, 300_000);
    assert_eq!(noon(&attacked), noon(&honest));
    assert_eq!(attacked.trust_ppm, honest.trust_ppm);
}

#[test]
fn a_node_that_reports_a_thousand_cpus_changes_nothing_for_two_honest_ones() {
    assert_eq!(noon(&day(2, 300, Some(1_000_000))), noon(&day(2, 300, None)));
    let alone = noon(&day(1, 300, Some(1_000_000)));
    assert_eq!(alone.mean_ppm, LARGEST_PPM, "of two nodes the larger one counts");
}

#[test]
fn of_two_nodes_the_idle_one_does_not_count() {
    assert_eq!(noon(&day(1, 300, Some(0))).mean_ppm, 300_000);
}

#[test]
fn evidence_of_one_node_gives_at_most_half() {
    assert_eq!(day(1, 300, None).trust_ppm.cpu, 500_000);
    assert_eq!(day(2, 300, None).trust_ppm.cpu, 1_000_000);
}

#[test]
fn an_idle_workload_counts_with_five_percent() {
    assert_eq!(noon(&day(3, 0, None)).mean_ppm, LEAST_MEAN_PPM);
}

#[test]
fn mean_and_excess_are_at_most_twice_the_request() {
    let mut hourly = HourlyUse::default();
    let used = SlotUse {
        mean_ppm: 1_500_000,
        excess_ppm: 1_500_000,
    };
    hourly.raise(3, used);
    assert_eq!(hourly.highest_sum_ppm(), LARGEST_PPM);
    assert_eq!((hourly.observed(), hourly.slot(4)), (1, None));
}

#[test]
fn a_node_counts_once_per_period() {
    let mut table = table();
    let pods = [pod(SHOP, 1000, 300)];
    assert_eq!(report(&mut table, MIDNIGHT, 1, &pods), Recorded::Counted);
    assert_eq!(report(&mut table, MIDNIGHT, 1, &pods), Recorded::Repeated);
    assert!(table.is_empty(), "one frame is not enough for an entry");
    assert_eq!(report(&mut table, MIDNIGHT + 1, 1, &pods), Recorded::Counted);
    assert_eq!(table.len(), 1);
}

#[test]
fn a_larger_request_counts_only_after_a_day() {
    let mut table = table();
    let small = [pod(SHOP, 1000, 300)];
    let larger = Workload { version: 2, ..SHOP };
    let large = [pod(larger, 2000, 600)];
    for period in MIDNIGHT..MIDNIGHT + PERIODS_A_DAY {
        report(&mut table, period, 1, &small);
        report(&mut table, period, 2, &small);
    }
    for period in MIDNIGHT + PERIODS_A_DAY..MIDNIGHT + 2 * PERIODS_A_DAY + 12 {
        report(&mut table, period, 1, &large);
        report(&mut table, period, 2, &large);
        let request = table.profile(&larger, period).unwrap().request.cpu;
        let is_a_day_old = period >= MIDNIGHT + 2 * PERIODS_A_DAY - 12;
        assert_eq!(request, if is_a_day_old { 2000 } else { 1000 }, "period {period}");
    }
}

#[test]
fn an_hour_replaces_yesterdays_and_missed_hours_are_forgotten() {
    let mut table = table();
    let mut at = |period: u64, used: u64| {
        report(&mut table, period, 1, &[pod(SHOP, 1000, used)]);
    };
    for period in 0..24 {
        at(MIDNIGHT + period, 900);
    }
    for period in 0..12 {
        at(MIDNIGHT + PERIODS_A_DAY + period, 100);
    }
    let profile = table.profile(&SHOP, MIDNIGHT + PERIODS_A_DAY + 6).unwrap();
    assert_eq!(
        profile.hourly.cpu.slot(0).unwrap().mean_ppm,
        900_000,
        "still under way"
    );
    let profile = table.profile(&SHOP, MIDNIGHT + PERIODS_A_DAY + 12).unwrap();
    assert_eq!(profile.hourly.cpu.slot(0).unwrap().mean_ppm, 810_000);
    assert_eq!(profile.hourly.cpu.slot(1).unwrap().mean_ppm, 900_000);
    let profile = table.profile(&SHOP, MIDNIGHT + PERIODS_A_DAY + 24).unwrap();
    assert_eq!(profile.hourly.cpu.slot(1), None, "no report in its last hour");
}

#[test]
fn a_table_and_each_namespace_are_bounded() {
    let mut table = ProfileTable::new(Limits {
        workloads: 30,
        of_namespace: 10,
    });
    let pods: Vec<PodEvidence> = (0..100_000)
        .map(|controller| PodEvidence {
            namespace: controller % 5,
            ..pod(
                Workload {
                    controller,
                    version: 1,
                },
                1000,
                300,
            )
        })
        .collect();
    for period in MIDNIGHT..MIDNIGHT + 40 {
        report(&mut table, period, 1, &pods);
    }
    assert_eq!(table.len(), 30);
    let mut one = ProfileTable::new(Limits {
        workloads: 30,
        of_namespace: 10,
    });
    let pods: Vec<PodEvidence> = pods
        .iter()
        .map(|pod| PodEvidence { namespace: 1, ..*pod })
        .collect();
    for period in MIDNIGHT..MIDNIGHT + 40 {
        report(&mut one, period, 1, &pods);
    }
    assert_eq!(one.len(), 10);
    report(&mut one, MIDNIGHT + 3 * PERIODS_A_DAY, 1, &[]);
    assert!(one.is_empty(), "no report for a day");
}

#[test]
fn pods_must_explain_the_use_of_their_node() {
    assert!(is_plausible(7_000, 13_200, 32_000), "70 % of 10,000");
    assert!(!is_plausible(6_999, 13_200, 32_000));
    assert!(is_plausible(0, 3_200, 32_000));
}

#[test]
fn replicas_with_different_tables_give_the_smallest_trust_and_the_largest_profile() {
    let (one, other) = (day(2, 300, None), day(1, 500, None));
    let both = one.most_careful(&other);
    assert_eq!(both.trust_ppm.cpu, 500_000);
    assert_eq!(noon(&both).mean_ppm, 500_000);
    assert_eq!(both, other.most_careful(&one));
}
