//! Tests of worked examples with every term, among them docs/estimator.md#a-worked-example.

use rstest::rstest;

use super::*;

/// One row: P0, Rw and R lead to P, S, A*, allocatable, the free amount, and T - P - (R - Rw).
struct VectorRow {
    peak: u64,
    warm: u64,
    bound: u64,
    valid: u32,
    predicted: u64,
    slack: i128,
    wanted: u64,
    cents: u32,
    allocatable: u64,
    free: i128,
    room: i128,
}

/// Publication of a node that was at its highest ratio and now falls to this one.
fn published_at(target: Cents) -> Publication {
    let mut publication = Publication::default();
    let mut frame_end = |target| {
        publication.step(
            target,
            BOUNDS.max,
            true,
            false,
            Rise {
                after: 1,
                dead_band: 2,
            },
        );
    };
    (0..20).for_each(|_| frame_end(BOUNDS.max));
    frame_end(target);
    publication
}

#[rstest]
#[case::row_1(VectorRow { peak: 13_900, warm: 27_090, bound: 30_000, valid: 288, predicted: 15_290, slack: 9100, wanted: 40_600, cents: 128, allocatable: 40_320, free: 10_320, room: 10_600 })]
#[case::row_2(VectorRow { peak: 20_000, warm: 27_090, bound: 30_000, valid: 288, predicted: 22_000, slack: 2390, wanted: 33_890, cents: 107, allocatable: 33_705, free: 3705, room: 3890 })]
#[case::row_3(VectorRow { peak: 25_000, warm: 27_090, bound: 30_000, valid: 288, predicted: 27_500, slack: -3110, wanted: 31_500, cents: 100, allocatable: 31_500, free: 1500, room: -1610 })]
#[case::row_4(VectorRow { peak: 25_000, warm: 30_090, bound: 33_000, valid: 288, predicted: 27_500, slack: -110, wanted: 31_500, cents: 100, allocatable: 31_500, free: -1500, room: -1610 })]
#[case::row_5(VectorRow { peak: 13_900, warm: 27_090, bound: 30_000, valid: 72, predicted: 15_290, slack: 9100, wanted: 33_775, cents: 107, allocatable: 33_705, free: 3705, room: 10_600 })]
#[case::row_6(VectorRow { peak: 700, warm: 0, bound: 0, valid: 288, predicted: 770, slack: -3470, wanted: 31_500, cents: 100, allocatable: 31_500, free: 31_500, room: 28_030 })]
#[case::row_7(VectorRow { peak: 12_100, warm: 23_090, bound: 26_000, valid: 288, predicted: 13_310, slack: 7080, wanted: 38_580, cents: 122, allocatable: 38_430, free: 12_430, room: 12_580 })]
#[case::row_7_without_departures(VectorRow { peak: 13_900, warm: 23_090, bound: 26_000, valid: 288, predicted: 15_290, slack: 5100, wanted: 36_600, cents: 116, allocatable: 36_540, free: 10_540, room: 10_600 })]
fn the_worked_examples_match(#[case] row: VectorRow) {
    let slack = cpu(row.peak, row.warm, row.bound);
    assert_eq!(
        (slack.safe, slack.predicted_peak, slack.slack),
        (28_800, row.predicted, row.slack)
    );
    let target = target(&slack, row.valid, 288, BOUNDS, false);
    assert_eq!(target.allocatable, row.wanted);
    let out = published_at(target.cents).published();
    let allocatable = 31_500 * u64::from(out.0) / 100;
    assert_eq!(
        (
            out.0,
            allocatable,
            i128::from(allocatable) - i128::from(row.bound)
        ),
        (row.cents, row.allocatable, row.free)
    );
    let room = i128::from(slack.safe) - i128::from(slack.predicted_peak) - i128::from(row.bound - row.warm);
    assert_eq!(room, row.room);
}

const MIB: u64 = 1 << 20;

fn memory_slack(peak: u64) -> Slack {
    slack(&Inputs {
        resource: Resource::Memory,
        capacity: 128_614 * MIB,
        raw: 120_832 * MIB,
        target_ppm: 900_000,
        peak,
        margin_ppm: EXAMPLE_PPM,
        warm_requests: 98_304 * MIB,
        bound: 106_496 * MIB,
    })
}

#[test]
fn the_memory_row_comes_out() {
    let mut history = History::new(288);
    for (index, peak) in (0..).zip([68_608, 72_704, 70_000, 69_632]) {
        history.push(index, peak * MIB, true);
    }
    let peak = history.peak(Resource::Memory, Vec::new(), 6).unwrap();
    assert_eq!(
        (peak.highest, peak.last, peak.climb, peak.expected()),
        (72_704 * MIB, 69_632 * MIB, 4096 * MIB, 73_728 * MIB)
    );
    let slack = memory_slack(peak.expected());
    assert_eq!(
        (slack.safe / MIB, slack.predicted_peak.div_ceil(MIB)),
        (108_748, 81_101)
    );
    assert_eq!(slack.slack / i128::from(MIB), 5119);
    let bounds = Bounds {
        min: Cents(100),
        max: Cents(125),
    };
    let target = target(&slack, 288, 288, bounds, false);
    assert_eq!(target.allocatable / MIB, 125_951);
    let out = published_at(target.cents).published();
    assert_eq!(
        (out, floor_cents(slack.bound, slack.raw)),
        (Cents(104), Cents(89))
    );
    let allocatable = slack.raw * u64::from(out.0) / 100;
    assert_eq!(
        (allocatable / MIB, (allocatable - slack.bound) / MIB),
        (125_665, 19_169)
    );
    let room = i128::from(slack.safe) - i128::from(slack.predicted_peak) - i128::from(8192 * MIB);
    assert_eq!(room / i128::from(MIB), 19_455);
}

#[test]
fn an_l2_brake_halves_what_the_memory_row_amplifies() {
    let mut publication = Publication::default();
    for _ in 0..4 {
        publication.step(
            Cents(105),
            BOUNDS.max,
            true,
            false,
            Profile::Production.timing().rise(),
        );
    }
    publication.step(
        Cents(104),
        BOUNDS.max,
        true,
        false,
        Profile::Production.timing().rise(),
    );
    publication.brake(Brake::Shed, 89);
    assert_eq!(publication.published(), Cents(102));
}

/// Row 7 with the margin of a new node: 1.31, then 1.18 when the pod's deletion is announced, then 1.23 two or three
/// frames after the pod has left.
#[test]
fn a_departure_lowers_the_ratio_at_once_and_raises_it_in_small_steps() {
    let mut estimator = Estimator::new(Profile::Production.timing());
    let listed = [
        ("a", 22_000, false),
        ("b", 3000, false),
        ("c", 1000, false),
        ("d", 4000, false),
    ];
    estimator.set_view(view(&listed));
    let frame = |index: u64, peak: u64, uids: &[&str]| {
        let mut frame = Frame {
            index,
            is_valid: true,
            ..Frame::default()
        };
        frame.peak.cpu = peak;
        for uid in uids {
            let mut used = PodUse::default();
            used.low.cpu = if *uid == "d" { 1800 } else { 0 };
            used.high.cpu = used.low.cpu;
            frame.pods.insert((*uid).to_owned(), used);
        }
        frame
    };
    for index in 0..=400_u64 {
        let uids: Vec<&str> = [("a", 0), ("d", 0), ("b", 281), ("c", 389)]
            .into_iter()
            .filter_map(|(uid, born)| (index >= born).then_some(uid))
            .collect();
        estimator.end_frame(&frame(index, 13_900, &uids));
    }
    assert_eq!(estimator.estimates().cpu.target, Cents(131));
    estimator.set_view(view(&listed.map(|(uid, cpu, _)| (uid, cpu, uid == "d"))));
    assert_eq!(estimator.estimates().cpu.published, Cents(118));
    estimator.set_view(view(&listed[..3]));
    assert_eq!(
        estimator.estimates().cpu.published,
        Cents(118),
        "its cgroup is still there"
    );
    let mut published = Vec::new();
    for index in 401..=404 {
        estimator.end_frame(&frame(index, 12_100, &["a", "b", "c"]));
        published.push(estimator.estimates().cpu.published.0);
    }
    assert_eq!(estimator.estimates().cpu.slack.peak, 12_100);
    assert_eq!(
        published,
        [118, 118, 123, 123],
        "the rest is inside the dead band"
    );
}

#[rstest]
#[case::no_raw(0, 100)]
#[case::one_milli(1, 100)]
fn a_node_without_anything_stays_at_one(#[case] raw: u64, #[case] expected: u32) {
    let slack = slack(&Inputs {
        resource: Resource::Cpu,
        capacity: 0,
        raw,
        target_ppm: 900_000,
        peak: 0,
        margin_ppm: EXAMPLE_PPM,
        warm_requests: 0,
        bound: 0,
    });
    assert_eq!(target(&slack, 288, 288, BOUNDS, false).cents, Cents(expected));
    assert_eq!(floor_cents(5, 0), Cents::ONE);
    assert_eq!(Publication::default().published(), Cents::ONE);
}

#[test]
fn inputs_out_of_range_give_a_result() {
    let above_one = slack(&Inputs {
        resource: Resource::Memory,
        capacity: 1000,
        raw: 1000,
        target_ppm: 3_000_000,
        peak: 0,
        margin_ppm: u32::MAX,
        warm_requests: 0,
        bound: 0,
    });
    assert_eq!(above_one.safe, 1000, "a theta above 1 is 1");
    let crossed = Bounds {
        min: Cents(150),
        max: Cents(120),
    };
    assert_eq!(
        target(&above_one, 288, 288, crossed, false).cents,
        Cents(120),
        "the upper one holds"
    );
    let generous = cpu(0, 40_000, 0);
    let all = target(&generous, 288, 288, BOUNDS, false).cents;
    assert_eq!(
        target(&generous, 999, 288, BOUNDS, false).cents,
        all,
        "at most all frames are valid"
    );
    assert_eq!(
        target(&generous, 1, 0, BOUNDS, false).cents,
        all,
        "a ring without frames"
    );
    assert_eq!(floor_cents(u64::MAX, 1), Cents(u32::MAX));
}
