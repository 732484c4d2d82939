//! Tests of each policy on cases small enough to be computed by hand.

use headroom_domain::{hint::Brake, ratio::Cents};
use rstest::rstest;

use super::*;
use crate::{
    convert::whole,
    node::{Pod, tests::node},
};

pub(in super::super) fn settings() -> Settings {
    Settings {
        resource: Resource::Cpu,
        machine: Machine::for_resource(Resource::Cpu),
        bounds: Bounds {
            min: Cents(100),
            max: Cents(200),
        },
        theta_ppm: 900_000,
        is_calibrated: true,
        has_brakes: true,
        oracle_ppm: 1_000_000,
    }
}

fn policy(name: &str) -> Box<dyn Policy> {
    let kind = all().find(|kind| kind.name == name).unwrap();
    (kind.build)(&settings())
}

/// Allocatable and predicted peak of a policy after `frames` frames of these pods.
fn after(frames: usize, name: &str, pods: &[(u64, usize, Vec<u64>)]) -> (u64, Option<u64>) {
    let mut node = node(pods);
    let mut policy = policy(name);
    for frame in 0..frames {
        node.begin(frame);
        policy.allocatable(&node);
        policy.end_frame(&node);
    }
    node.begin(frames);
    (policy.allocatable(&node), policy.predicted_peak(&node))
}

/// A pod that alternates between `low` and `high` use.
fn alternating(low: u64, high: u64) -> Vec<u64> {
    (0..900)
        .map(|frame| if frame % 2 == 0 { low } else { high })
        .collect()
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = all().map(|kind| kind.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[rstest]
#[case::raw("raw", 31_500, 10_800)]
#[case::guessed("static-1.25", 39_375, 8800)]
#[case::guessed_more("static-1.50", 47_250, 7467)]
// 10 000 + 32 000 - 800 - 9000; the prediction is 0.9 of limits plus the system.
#[case::borg("borg-default", 32_200, 9800)]
fn constant_policies_ignore_use(#[case] name: &str, #[case] allocatable: u64, #[case] peak: u64) {
    for used in [0, 9000] {
        let pods = [(10_000, 0, vec![used; 900])];
        assert_eq!(after(300, name, &pods), (allocatable, Some(peak)));
    }
}

#[test]
fn katalyst_follows_current_use() {
    // U = 4800 with the system, load = 0.48: (18 900 - 4800) / 0.48 + 10 000 = 39 375.
    assert_eq!(
        after(5, "katalyst-realtime", &[(10_000, 0, vec![4000; 900])]).0,
        39_375
    );
    // U / R = 0.25 is raised to 0.4: (18 900 - 1000) / 0.4 + 4000 = 48 750, more than 1.50.
    assert_eq!(
        after(5, "katalyst-realtime", &[(4000, 0, vec![200; 900])]).0,
        47_250
    );
    assert_eq!(
        after(5, "katalyst-realtime", &[]).0,
        31_500,
        "an empty node is not amplified"
    );
}

#[test]
fn n_sigma_adds_five_deviations_to_the_mean() {
    let pods = [(10_000, 0, alternating(4000, 5000))];
    // Mean 0.45, sample deviation of 120 such samples 0.05 × sqrt(120/119) = 0.0502: 0.7010 of 10 000.
    let (allocatable, peak) = after(300, "n-sigma-10h", &pods);
    assert_eq!(peak, Some(7011 + 800));
    assert_eq!(allocatable, 10_000 + 32_000 - 7811);
    // With two hours of history: the limit.
    assert_eq!(after(23, "n-sigma-10h", &pods).1, Some(10_800));
    assert!(after(24, "n-sigma-10h", &pods).1 < Some(10_800));
    // At most all limits.
    assert_eq!(
        after(300, "n-sigma-10h", &[(10_000, 0, alternating(0, 9000))]).1,
        Some(10_800)
    );
}

#[test]
fn a_cold_task_counts_with_its_limit() {
    let mut node = node(&[]);
    node.bind(Pod {
        uid: "0".to_owned(),
        owner: None,
        request: 1000,
        limit: 4000,
        start: 0,
        usage: vec![3000; 900],
    });
    let mut policy = policy("n-sigma-10h");
    node.begin(23);
    assert_eq!(policy.predicted_peak(&node), Some(4800));
    node.begin(24);
    assert_eq!(policy.predicted_peak(&node), Some(3800));
}

#[test]
fn n_sigma_remembers_as_long_as_its_window() {
    let mut usage = vec![9000; 100];
    usage.resize(900, 5000);
    let pods = [(10_000, 0, usage)];
    assert_eq!(after(230, "n-sigma-10h", &pods).1, Some(5800));
    assert_eq!(after(230, "n-sigma-24h", &pods).1, Some(10_800));
}

#[test]
fn rc_like_adds_up_percentiles() {
    // The 120 samples are 0, 10 .. 1190: rank 117.81, so 1178.1; the other pod has at most its limit, 1100.
    let ramp: Vec<u64> = (0..900).map(|frame| frame % 120 * 10).collect();
    let pods = [(2000, 0, ramp.clone()), (1100, 0, ramp), (500, 230, vec![1; 600])];
    let (_, peak) = after(240, "rc-like-10h", &pods);
    assert_eq!(peak, Some(1179 + 1100 + 500 + 800));
}

#[test]
fn the_maximum_is_the_larger_of_both() {
    let steady = [(
        2000,
        0,
        (0..900)
            .map(|frame| if frame % 50 == 0 { 1900 } else { 100 })
            .collect(),
    )];
    for pods in [steady, [(10_000, 0, alternating(4000, 5000))]] {
        let of = |name| after(300, name, &pods).1;
        assert_eq!(of("max-10h"), of("n-sigma-10h").max(of("rc-like-10h")));
    }
}

#[test]
fn koordinator_adds_requests_that_old_pods_never_use() {
    // Peak of 4000: its bucket ends at 4125.6, plus 10 % this is 4539, for each pod and for all; system 880.
    let pods = [(10_000, 0, vec![4000; 900])];
    assert_eq!(
        after(287, "koordinator-peak", &pods).0,
        31_500,
        "younger than a day"
    );
    let (allocatable, peak) = after(288, "koordinator-peak", &pods);
    let bucket_end = {
        let (mut end, mut width) = (25.0, 25.0);
        while end <= 4000.0 {
            width *= 1.05;
            end += width;
        }
        end
    };
    let of_node = 10_000 - ((whole(bucket_end) * 11).div_ceil(10) + 880);
    assert_eq!((allocatable, peak), (31_500 + of_node, Some(10_800 - of_node)));
    // Requests beyond capacity cannot be reclaimed.
    let of_capacity = 32_000 - ((whole(bucket_end) * 11).div_ceil(10) + 880);
    assert_eq!(
        after(288, "koordinator-peak", &[(40_000, 0, vec![4000; 900])]).0,
        31_500 + of_capacity
    );
}

#[test]
fn the_oracle_advertises_capacity_beyond_the_coming_peak() {
    let mut usage = vec![2000; 900];
    usage[400] = 6000;
    let pods = [(20_000, 0, usage)];
    // 6000 and a spread of 1.165 × 6000, plus the system.
    assert_eq!(after(113, "oracle", &pods), (52_000 - 13_790, Some(13_790)));
    assert_eq!(after(112, "oracle", &pods).1, Some(800 + 2000 + 2330));
}

#[test]
fn headroom_uses_the_agents_estimator() {
    // F = 4000 + 1.165 × 4000 + 800 = 9460, P = 9933; after a day S = 28 800 - 9933 + 20 000 - 31 500 = 7367, so
    // 1.23, or one cent less, within the dead band.
    let pods = [(20_000, 0, vec![4000; 900])];
    let (allocatable, peak) = after(320, "headroom", &pods);
    assert_eq!(peak, Some(9933));
    assert!((122..=123).any(|cents| allocatable == 315 * cents));
    assert_eq!(after(24, "headroom", &pods), (31_500, Some(29_933)));
}

#[test]
fn headroom_adds_a_new_pods_peak_and_its_untrusted_request() {
    // Before the new pod F was 9460; its 2000 come on top: P = 1.05 × 11 460. 196 of 264 parts of its request are
    // trusted after 220 frames.
    let mut old = vec![4000; 100];
    old.resize(900, 1000);
    let pods = [(20_000, 0, old), (2000, 100, vec![2000; 800])];
    assert_eq!(after(320, "headroom", &pods).1, Some(12_033 + 2000 - 1484));
}

#[test]
fn headroom_brakes_on_saturated_cpus_and_releases_after_half_an_hour() {
    let mut usage = vec![33_000];
    usage.resize(900, 100);
    let brakes = |has_brakes| -> Vec<Brake> {
        let mut node = node(&[(20_000, 0, usage.clone())]);
        let mut ours = MeasuredSlack::new(&Settings {
            has_brakes,
            ..settings()
        });
        let frame = |frame| {
            node.begin(frame);
            ours.allocatable(&node);
            ours.end_frame(&node);
            ours.estimate().brake
        };
        (0..9).map(frame).collect()
    };
    let braked = brakes(true);
    assert_eq!(
        (braked[0], braked[5], braked[8]),
        (Brake::Stop, Brake::Stop, Brake::Off)
    );
    assert_eq!(brakes(false), [Brake::Off; 9]);
}

#[test]
fn the_peak_rule_advertises_all_capacity_beyond_the_peak() {
    // 28 800 + 20 000 - 9460, immediately.
    let pods = [(20_000, 0, vec![4000; 900])];
    assert_eq!(after(320, "headroom-peak-rule", &pods), (39_340, Some(9460)));
}

#[rstest]
#[case("headroom", 40_950)]
// 28 800 + 20 000 - 1.05 × (800 + 2.165 × 6000) = 34 321.
#[case("headroom-week", 34_321)]
// With 800 of 2016 frames counted: 31 500 + 2820 × 800 / 2016.
#[case("headroom-7d-ring", 32_619)]
fn weekly_variants_remember_a_week(#[case] name: &str, #[case] most: u64) {
    let mut usage = vec![6000; 100];
    usage.resize(900, 3000);
    let (allocatable, _) = after(800, name, &[(20_000, 0, usage)]);
    assert!(allocatable <= most, "{allocatable}");
    assert!(name != "headroom" || allocatable > 34_321, "{allocatable}");
}

#[test]
fn the_lowest_of_five_minutes_subtracts_less() {
    // Subtracted for the pod that ended: 3000, or less by 1.163 × 0.5 / 7.746 of that, which P increases by 5 %.
    let pods = [(10_000, 0, vec![3000; 100]), (10_000, 0, vec![3000; 800])];
    let peak = |name| after(320, name, &pods).1.unwrap();
    let (ours, least) = (peak("headroom"), peak("headroom-min-of-5"));
    assert!((232..=242).contains(&(least - ours)), "{ours} {least}");
}

#[test]
fn a_short_ramp_trusts_after_four_hours() {
    let pods = [(20_000, 0, vec![4000; 900])];
    let untrusted = |name| after(100, name, &pods).1.unwrap() - 9933;
    assert_eq!(
        (untrusted("headroom-4h-ramp"), untrusted("headroom") > 10_000),
        (0, true)
    );
}
