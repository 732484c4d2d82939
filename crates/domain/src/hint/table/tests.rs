//! Tests of the hint table: freshness by age, the later of two reports, the speed of a rise, and the effect of
//! restarts.

use rstest::rstest;

use super::*;
use crate::{
    annotation::Annotation,
    hint::{PodTrust, tests::hint},
};

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Annotation of a report in which that CPU ratio was applied.
fn note(boot: &str, seq: u64, cents: u32) -> String {
    let mut hint = hint("n1", seq);
    boot.clone_into(&mut hint.boot_id);
    hint.resources.cpu.published = Cents(cents);
    Note::from_hint(&hint).to_string()
}

fn reported(seq: u64, cents: u32) -> NodeHint {
    let mut hint = hint("n1", seq);
    hint.resources.cpu.published = Cents(cents);
    hint
}

/// Hint of `n1` at that version with that annotation, once the watch has delivered it.
fn found(table: &mut Table, version: u64, stored: Option<&str>, seconds: u64) -> Option<EffectiveHint> {
    let stored = stored.map(Annotation::from);
    let asked = HintQuery {
        node: "n1",
        uid: "u1",
        version,
        stored: stored.as_ref(),
        ..HintQuery::default()
    };
    table.observe_node(&asked, at(seconds));
    table.lookup(&asked, at(seconds))
}

fn standing(table: &mut Table, seconds: u64) -> Option<Freshness> {
    found(table, 1, None, seconds).map(|found| found.freshness)
}

#[test]
fn a_streamed_hint_counts_for_less_with_age() {
    let mut table = Table::default();
    assert_eq!(table.insert(hint("n1", 1), at(1000)), ReportVerdict::Accepted);
    assert_eq!(standing(&mut table, 1060), Some(Freshness::Fresh));
    assert_eq!(standing(&mut table, 1061), Some(Freshness::Hold));
    assert_eq!(standing(&mut table, 1300), Some(Freshness::Hold));
    assert_eq!(standing(&mut table, 1301), Some(Freshness::Stop));
}

#[test]
fn a_draining_agent_is_held_longer() {
    let mut table = Table::default();
    let draining = NodeHint {
        is_draining: true,
        ..hint("n1", 1)
    };
    table.insert(draining, at(0));
    assert_eq!(standing(&mut table, 600), Some(Freshness::Hold));
    assert_eq!(standing(&mut table, 601), Some(Freshness::Stop));
}

#[test]
fn the_last_hint_of_an_ended_stream_ages_like_an_annotation() {
    let mut table = Table::default();
    table.insert(hint("n1", 1), at(0));
    table.leave("n1");
    assert_eq!(standing(&mut table, 1), Some(Freshness::Hold));
    assert_eq!(standing(&mut table, 600), Some(Freshness::Hold));
    assert_eq!(standing(&mut table, 900), Some(Freshness::Stop));
    table.insert(hint("n1", 2), at(901));
    assert_eq!(standing(&mut table, 901), Some(Freshness::Fresh));
}

#[rstest]
#[case::fresh(60, [120, 134, 100])]
#[case::that_may_only_stay(61, [120, 134, 100])]
#[case::that_holds_nothing(301, [100, 100, 100])]
fn other_replicas_get_at_most_the_hints_effect(#[case] age: u64, #[case] expected: [u32; 3]) {
    let mut table = Table::default();
    table.insert(reported(1, 134), at(0));
    let found = found(&mut table, 1, None, age).unwrap();
    let told = [120, 140, 100].map(|applied| {
        let applied = PerResource::from_fn(|_| Cents(applied));
        found.note_for_others(&applied).cpu.published
    });
    assert_eq!(told, expected);
}

#[test]
fn an_older_sequence_of_the_same_boot_is_stale() {
    let mut table = Table::default();
    table.insert(hint("n1", 5), at(0));
    assert_eq!(
        table.insert(hint("n1", 5), at(1)),
        ReportVerdict::Stale { held: 5 }
    );
    assert_eq!(
        table.insert(hint("n1", 4), at(1)),
        ReportVerdict::Stale { held: 5 }
    );
    let reboot = NodeHint {
        boot_id: "b2".into(),
        ..hint("n1", 1)
    };
    assert_eq!(table.insert(reboot, at(2)), ReportVerdict::Accepted);
}

#[test]
fn hints_of_another_node_object_count_as_absent() {
    let mut table = Table::default();
    table.insert(hint("n1", 1), at(0));
    let stored = note("b1", 7, 128);
    let of = |uid, stored: Option<&str>| {
        let stored = stored.map(Annotation::from);
        let asked = HintQuery {
            node: "n1",
            uid,
            version: 1,
            stored: stored.as_ref(),
            ..HintQuery::default()
        };
        table.lookup(&asked, at(1)).is_some()
    };
    assert!(!of("u2", None));
    assert!(!of("u2", Some(&stored)));
    assert!(of("u1", Some("garbage")), "the report still counts");
    assert!(found(&mut Table::default(), 1, Some("garbage"), 0).is_none());
}

#[test]
fn an_annotation_holds_from_when_it_was_first_seen() {
    let mut table = Table::default();
    let stored = note("b1", 7, 128);
    let mut standing = |seconds| {
        let found = found(&mut table, 1, Some(&stored), seconds).unwrap();
        assert_eq!(found.origin, Origin::Annotation);
        found.freshness
    };
    assert_eq!(standing(5000), Freshness::Hold);
    assert_eq!(standing(5600), Freshness::Hold);
    assert_eq!(standing(5000 + 600 + 300), Freshness::Stop);
}

#[test]
fn the_marker_replaces_an_unreadable_hint_for_its_hold_time() {
    let mut table = Table::default();
    let written = PerResource {
        cpu: Cents(120),
        memory: Cents(100),
    };
    let mut found = |uid, stored: Option<&str>, seconds| {
        let stored = stored.map(Annotation::from);
        let asked = HintQuery {
            node: "n1",
            uid,
            stored: stored.as_ref(),
            written: Some(written),
            ..HintQuery::default()
        };
        table.observe_node(&asked, at(seconds));
        let found = table.lookup(&asked, at(seconds)).unwrap();
        let ratios = found.note.resources().map(|_, part| part.published());
        (found.origin, found.freshness, ratios)
    };
    let (marker, stored) = (Origin::Marker, note("b1", 7, 128));
    let later = stored.replace(r#""v":1"#, r#""v":2"#);
    assert_eq!(found("u1", None, 5000), (marker, Freshness::Hold, written));
    assert_eq!(
        found("u1", Some(&later), 5600),
        (marker, Freshness::Hold, written)
    );
    assert_eq!(found("u1", None, 5900).1, Freshness::Stop);
    assert_eq!(found("u2", None, 5900).1, Freshness::Hold, "another Node");
    assert_eq!(found("u1", Some(&stored), 5901).0, Origin::Annotation);
    assert_eq!(found("u1", None, 5902), (marker, Freshness::Hold, written));
}

#[test]
fn a_report_overrides_the_marker() {
    let mut table = Table::default();
    let asked = HintQuery {
        node: "n1",
        uid: "u1",
        written: Some(PerResource::from_fn(|_| Cents(120))),
        ..HintQuery::default()
    };
    table.observe_node(&asked, at(0));
    table.insert(reported(1, 128), at(1));
    let found = table.lookup(&asked, at(1)).unwrap();
    assert_eq!(
        (found.origin, found.freshness),
        (Origin::Stream, Freshness::Fresh)
    );
    assert!(found.step.cpu > Cents(0), "a first report may raise at once");
}

#[test]
fn an_annotation_announces_the_end_of_its_hold() {
    let mut table = Table::default();
    let stored = note("b1", 7, 128);
    let left = found(&mut table, 1, Some(&stored), 0)
        .unwrap()
        .changes_in
        .unwrap();
    let standing = |table: &mut Table, seconds| found(table, 1, Some(&stored), seconds).unwrap().freshness;
    assert_eq!(standing(&mut table, left.as_secs()), Freshness::Hold);
    assert_eq!(standing(&mut table, left.as_secs() + 1), Freshness::Stop);
    assert_eq!(
        found(&mut table, 1, Some(&stored), 5000).unwrap().changes_in,
        None
    );
}

#[test]
fn of_two_unordered_copies_the_last_observed_one_counts() {
    let mut table = Table::default();
    table.insert(reported(5, 128), at(0));
    step(&mut table, 0, &note("b1", 4, 105), 0);
    assert_eq!(step(&mut table, 0, &note("b1", 5, 110), 300), 0);
    assert_eq!(step(&mut table, 0, &note("b1", 5, 110), 599), 0);
}

#[test]
fn replicas_release_a_fleet_over_five_minutes_and_each_node_together() {
    let ends: Vec<u64> = (0..3000)
        .map(|i| {
            let node = format!("node-{i}");
            let holds = |age| freshness::noted(&node, at(age)).0 == Freshness::Hold;
            (600..900).take_while(|age| holds(*age)).last().unwrap()
        })
        .collect();
    for second in 600..900 {
        let share = ends.iter().filter(|end| **end == second).count();
        assert!(
            share < 30,
            "{share} of 3000 nodes in second {second}: more than 1 %"
        );
    }
}

#[rstest]
#[case::a_later_report_that_went_another_way(note("b1", 9, 110), 9, Origin::Annotation)]
#[case::the_report_it_was_made_of(note("b1", 5, 110), 5, Origin::Stream)]
#[case::an_earlier_report(note("b1", 4, 110), 5, Origin::Stream)]
#[case::a_report_of_the_boot_after(note("b2", 1, 110), 1, Origin::Annotation)]
fn of_two_reports_the_later_one_counts(#[case] stored: String, #[case] seq: u64, #[case] origin: Origin) {
    let mut table = Table::default();
    table.insert(reported(5, 128), at(100));
    let found = found(&mut table, 1, Some(&stored), 101).unwrap();
    assert_eq!((found.note.seq, found.origin), (seq, origin));
}

#[test]
fn an_annotation_claiming_a_later_report_counts_for_a_minute() {
    let mut table = Table::default();
    let stored = note("b1", u64::MAX, 100);
    let mut origin = |seconds, seq| {
        table.insert(reported(seq, 128), at(seconds));
        found(&mut table, 1, Some(&stored), seconds).unwrap().origin
    };
    assert_eq!(origin(10, 1), Origin::Annotation);
    assert_eq!(origin(70, 2), Origin::Annotation);
    assert_eq!(origin(71, 3), Origin::Stream);
}

#[test]
fn a_report_overrides_a_simultaneous_annotation_of_another_boot() {
    let mut table = Table::default();
    table.insert(reported(5, 128), at(100));
    let found = found(&mut table, 1, Some(&note("b2", 1, 110)), 100).unwrap();
    assert_eq!(found.origin, Origin::Stream);
}

#[test]
fn an_annotation_claiming_a_later_report_waits_for_the_stale_report() {
    let mut table = Table::default();
    let stored = note("b1", u64::MAX, 100);
    found(&mut table, 1, Some(&stored), 0);
    table.insert(reported(1, 128), at(10));
    let mut origin = |seconds| found(&mut table, 1, Some(&stored), seconds).unwrap().origin;
    assert_eq!((origin(70), origin(71)), (Origin::Stream, Origin::Annotation));
}

#[test]
fn a_replica_with_a_silent_stream_follows_the_later_annotation() {
    let mut table = Table::default();
    table.insert(reported(5, 128), at(0));
    let stored = note("b1", 30, 128);
    found(&mut table, 1, Some(&stored), 290);
    let found = found(&mut table, 1, Some(&stored), 400).unwrap();
    assert_eq!(
        (found.origin, found.freshness),
        (Origin::Annotation, Freshness::Hold)
    );
}

fn step(table: &mut Table, version: u64, stored: &str, seconds: u64) -> u32 {
    found(table, version, Some(stored), seconds).unwrap().step.cpu.0
}

#[test]
fn a_ratio_rises_by_one_step_a_frame() {
    let mut table = Table::default();
    table.insert(reported(5, 128), at(0));
    assert_eq!(
        found(&mut table, 1, None, 0).unwrap().step.cpu.0,
        5,
        "nothing was applied yet"
    );
    let first = note("b1", 5, 105);
    assert_eq!(step(&mut table, 2, &first, 1), 0);
    table.insert(reported(6, 128), at(299));
    assert_eq!(step(&mut table, 2, &first, 300), 0);
    assert_eq!(step(&mut table, 2, &first, 301), 5);
    let second = note("b1", 6, 110);
    assert_eq!(step(&mut table, 3, &second, 302), 0);
    assert_eq!(step(&mut table, 3, &second, 602), 5);
    table.insert(reported(8, 128), at(602));
    let renewed = note("b1", 7, 110);
    assert_eq!(step(&mut table, 4, &renewed, 603), 5, "a renewal is no move");
    let lowered = note("b1", 8, 104);
    assert_eq!(step(&mut table, 5, &lowered, 604), 0, "a fall is one");
}

#[test]
fn queries_change_no_state() {
    let mut table = Table::default();
    table.insert(reported(5, 128), at(0));
    let stored = note("b1", 5, 105);
    step(&mut table, 2, &stored, 1);
    let before = format!("{table:?}");
    for (uid, version, text) in [
        ("u1", 3, Some(note("b1", 6, 128))),
        ("u1", 2, Some(note("b2", 1, 110))),
        ("u1", u64::MAX, None),
        ("u2", 9, Some(note("b1", 5, 105))),
    ] {
        let written = text.map(Annotation::parse);
        let asked = HintQuery {
            node: "n1",
            uid,
            version,
            stored: written.as_ref(),
            ..HintQuery::default()
        };
        table.lookup(&asked, at(100));
        assert_eq!(format!("{table:?}"), before);
    }
    assert_eq!(
        step(&mut table, 2, &stored, 301),
        5,
        "the frame began when the watch delivered it"
    );
}

#[test]
fn a_state_not_yet_watched_counts_as_observed_now() {
    let mut table = Table::default();
    table.insert(reported(5, 128), at(0));
    step(&mut table, 2, &note("b1", 5, 105), 1);
    table.insert(reported(9, 128), at(301));
    let raised = Annotation::parse(note("b1", 6, 110));
    let asked = HintQuery {
        node: "n1",
        uid: "u1",
        version: 3,
        stored: Some(&raised),
        ..HintQuery::default()
    };
    let found = table.lookup(&asked, at(301)).unwrap();
    assert_eq!(found.step.cpu, Cents(0), "another replica has just raised it");
}

#[test]
fn a_restarted_replica_neither_jumps_nor_loses_the_rise() {
    let stored = note("b1", 5, 110);
    let mut table = Table::default();
    table.observe_node(
        &HintQuery {
            node: "n1",
            uid: "u1",
            version: 1,
            stored: Some(&stored.as_str().into()),
            ..HintQuery::default()
        },
        at(7),
    );
    table.insert(reported(6, 128), at(8));
    assert_eq!(step(&mut table, 1, &stored, 8), 0);
    let found = found(&mut table, 1, Some(&stored), 8).unwrap();
    assert!(
        found
            .changes_in
            .is_some_and(|after| after > FRESH && after < FRESH * 2)
    );
    table.insert(reported(20, 128), at(300));
    assert_eq!(step(&mut table, 1, &stored, 307), 5);
}

#[test]
fn an_older_copy_of_the_node_is_ignored() {
    let mut table = Table::default();
    table.insert(reported(5, 128), at(0));
    let (old, new) = (note("b1", 4, 105), note("b1", 5, 110));
    step(&mut table, 7, &old, 0);
    step(&mut table, 8, &new, 10);
    step(&mut table, 7, &old, 11);
    table.insert(reported(6, 128), at(300));
    assert_eq!(step(&mut table, 8, &new, 310), 5);
}

fn nudged(table: &mut Table, stored: &str, nudged: &str, seconds: u64) -> EffectiveHint {
    let asked = HintQuery {
        node: "n1",
        uid: "u1",
        version: 1,
        stored: Some(&stored.into()),
        nudged: Some(&nudged.into()),
        ..HintQuery::default()
    };
    table.observe_node(&asked, at(seconds));
    table.lookup(&asked, at(seconds)).unwrap()
}

#[test]
fn replicas_without_a_later_report_follow_a_nudge() {
    let (stored, nudge) = (note("b1", 5, 110), note("b1", 6, 115));
    let found = nudged(&mut Table::default(), &stored, &nudge, 0);
    assert_eq!(
        (found.origin, found.freshness, found.note.cpu.published),
        (Origin::Nudge, Freshness::Fresh, 115)
    );
    let mut behind = Table::default();
    behind.insert(reported(5, 128), at(0));
    let lowering = note("b1", 6, 100);
    assert_eq!(nudged(&mut behind, &stored, &lowering, 1).note.cpu.published, 100);
}

/// After its own report the replica would use other exclusive CPUs at the next write, unless the nudge's are
/// recorded.
#[rstest]
#[case::none_known(None, false)]
#[case::the_same(Some(0), false)]
#[case::others(Some(1_000), true)]
fn a_nudge_with_other_exclusive_cpus_than_reported_must_be_recorded(
    #[case] reported_before: Option<u64>,
    #[case] expected: bool,
) {
    let mut table = Table::default();
    if let Some(exclusive_cpus_milli) = reported_before {
        let pod = PodTrust {
            uid: "p1".to_owned(),
            cpu_ppm: 0,
            memory_ppm: 0,
            exclusive_cpus_milli,
        };
        let trust = vec![pod];
        table.insert(
            NodeHint {
                trust,
                ..reported(5, 128)
            },
            at(0),
        );
    }
    let found = nudged(&mut table, &note("b1", 4, 110), &note("b1", 6, 115), 1);
    assert_eq!((found.origin, found.is_record_due), (Origin::Nudge, expected));
}

#[test]
fn an_outdated_nudge_only_permits_its_step() {
    let mut table = Table::default();
    table.insert(reported(9, 128), at(0));
    let stored = note("b1", 5, 110);
    let found = nudged(&mut table, &stored, &note("b1", 6, 115), 1);
    assert_eq!(
        (found.origin, found.note.cpu.published, found.step.cpu.0),
        (Origin::Stream, 128, 5)
    );
    let found = nudged(&mut table, &stored, &note("b1", 6, 100), 1);
    assert_eq!((found.note.cpu.published, found.step.cpu.0), (128, 0));
}

#[test]
fn an_annotation_close_to_its_end_is_renewed() {
    let mut table = Table::default();
    let stored = note("b1", 5, 128);
    let mut is_due = |seconds, seq| {
        table.insert(reported(seq, 128), at(seconds));
        found(&mut table, 1, Some(&stored), seconds)
            .unwrap()
            .is_record_due
    };
    assert!(!is_due(0, 5) && !is_due(449, 30) && is_due(450, 31));
}

#[test]
fn a_freshness_lasts_exactly_its_announced_time() {
    let moment = Duration::from_millis(1);
    let ends_in_time = |standing: &dyn Fn(Duration) -> (Freshness, Option<Duration>)| {
        let (mut age, mut ladder) = (Duration::ZERO, Vec::new());
        loop {
            let (now, left) = standing(age);
            ladder.push(now);
            let Some(left) = left else { return ladder };
            assert_eq!(standing((age + left).saturating_sub(moment)).0, now);
            assert_ne!(standing(age + left).0, now);
            age += left;
        }
    };
    for is_draining in [false, true] {
        let ladder = ends_in_time(&|age| freshness::streamed(age, is_draining));
        assert_eq!(ladder, [Freshness::Fresh, Freshness::Hold, Freshness::Stop]);
    }
    let ladder = ends_in_time(&|age| freshness::noted("n1", age));
    assert_eq!(ladder, [Freshness::Hold, Freshness::Stop]);
}

#[test]
fn a_table_lists_the_newest_hint_of_each_node_until_removal() {
    let mut table = Table::default();
    assert!(table.is_empty() && table.all(at(0)).is_empty());
    for (node, seconds) in [("n2", 10), ("n1", 12), ("n3", 13)] {
        table.insert(hint(node, 1), at(seconds));
    }
    let all = |table: &Table| -> Vec<(String, Duration)> {
        let all = table.all(at(15)).into_iter();
        all.map(|(hint, age)| (hint.node.clone(), age)).collect()
    };
    let listed = [("n1", 3), ("n2", 5), ("n3", 2)].map(|(node, age)| (node.to_owned(), at(age)));
    assert_eq!(
        (table.len(), table.is_empty(), all(&table)),
        (3, false, listed.to_vec())
    );
    let (newest, age) = table.get("n1", at(15)).unwrap();
    assert_eq!((newest.node.as_str(), age), ("n1", at(3)));
    table.remove("n1");
    assert!(table.get("n1", at(15)).is_none());
    assert_eq!((table.len(), all(&table)), (2, listed[1..].to_vec()));
}

#[test]
fn removing_a_node_drops_its_annotation_age() {
    let mut table = Table::default();
    let stored = note("b1", 7, 128);
    found(&mut table, 9, Some(&stored), 0);
    table.remove("n1");
    let found = found(&mut table, 1, Some(&stored), 2000).unwrap();
    assert_eq!(found.freshness, Freshness::Hold);
}
