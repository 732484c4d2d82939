//! Tests of the whole bench on small runs: results repeat, wrong options are refused, the oracle is the upper bound.

use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use rstest::rstest;

use super::*;

#[derive(Debug, Parser)]
struct TestRecord {
    #[command(flatten)]
    bench: Estimator,
}

fn bench(options: &str) -> Result<Estimator, clap::Error> {
    let words = ["estimator"].into_iter().chain(options.split_whitespace());
    let matches = TestRecord::command().try_get_matches_from(words)?;
    Ok(TestRecord::from_arg_matches(&matches)?.bench)
}

fn run(options: &str) -> Report {
    bench(options).unwrap().run().unwrap()
}

/// Options for two nodes and one week.
const SMALL: &str = "--nodes 2 --days 7";

/// Report and page of two nodes, including the frontier.
fn bytes(options: &str) -> [String; 2] {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    let options = format!("--nodes 2 --days 4 {options} --html {}", file.display());
    let report = serde_json::to_string(&run(&options)).unwrap();
    for part in ["parameters", "policies", "open_loop", "frontier", "dominance"] {
        assert!(report.contains(&format!("\"{part}\":")), "{part}");
    }
    assert_eq!(report.contains("\"paired\":"), options.contains("headroom"));
    [report, fs::read_to_string(file).unwrap()]
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = "--seed 3 --policy headroom --policy n-sigma-24h --policy koordinator-peak --policy oracle";
    let [report, page] = bytes(run);
    let [report_again, page_again] = bytes(run);
    // `assert_eq` would print both pages.
    assert!(report == report_again, "{report}\n{report_again}");
    assert!(page == page_again, "the pages differ");
    let few = |seed: u32| bytes(&format!("--seed {seed} --policy borg-default --policy oracle"));
    let figures = |[report, _]: [String; 2]| report.split_once("\"policies\":").unwrap().1.to_owned();
    assert_ne!(figures(few(3)), figures(few(4)));
}

#[test]
fn seeds_add_up_in_any_order() {
    let violations = |seeds: &str| {
        let report = run(&format!("{SMALL} --policy headroom --seed {seeds}"));
        report
            .policies
            .iter()
            .map(|row| row.violation_pct)
            .collect::<Vec<_>>()
    };
    assert_eq!(violations("3,4"), violations("4,3"));
}

#[test]
fn the_oracle_never_predicts_too_little_and_is_the_upper_bound() {
    let report = serde_json::to_value(run(SMALL)).unwrap();
    let rows = report["open_loop"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    assert_eq!(row("oracle")["oracle_miss_pct"], 0.0);
    assert_eq!(row("oracle")["peak_per_oracle_p50"], 1.0);
    let missed = rows
        .iter()
        .filter(|row| row["oracle_miss_pct"].as_f64().unwrap() > 0.0);
    assert!(
        missed.count() > 3,
        "this load has peaks that other policies do not predict"
    );
    let most = row("oracle")["requests_unused_pct"].as_f64().unwrap();
    for row in rows.iter().filter(|row| row["oracle_miss_pct"] == 0.0) {
        assert!(row["requests_unused_pct"].as_f64().unwrap() <= most, "{row}");
    }
}

#[test]
fn every_policy_has_a_row_with_all_figures() {
    let report = serde_json::to_value(run(SMALL)).unwrap();
    let names: Vec<&str> = report["policies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        policy::KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>()
    );
    for row in report["policies"].as_array().unwrap() {
        for figure in [
            "requests_per_allocatable",
            "utilisation_pct",
            "violation_pct",
            "excess_pct",
            "ratio_p5",
            "ratio_p50",
            "ratio_p95",
        ] {
            assert!(row[figure].is_number(), "{figure} of {row}");
        }
    }
    assert_eq!(report["policies"][0]["excess_pct"], 0.0);
    let violation = report["parameters"]["violation"].as_str().unwrap();
    assert!(violation.starts_with("F > C, also for memory"), "{violation}");
}

#[rstest]
#[case::lo("--lo 49", "'49' for '--lo")]
#[case::hi("--hi 99", "'99' for '--hi")]
#[case::theta("--theta 1.1", "'1.1' for '--theta")]
#[case::cv("--cv -1", "-1")]
#[case::nodes("--nodes 0", "'0' for '--nodes")]
#[case::days("--days 3", "'3' for '--days")]
#[case::seed("--seed one", "'one' for '--seed")]
#[case::margin_calibration("--margin-calibration maybe", "'maybe' for '--margin-calibration")]
#[case::loops("--loop round", "'round' for '--loop")]
#[case::policy("--policy best", "'best' for '--policy")]
#[case::unknown("--magic 1", "--magic")]
#[case::two_loads("--synthetic --trace x", "'--synthetic' cannot be used with '--trace")]
#[case::set_of_nothing("--set s", "--trace")]
#[case::along("--frontier --along 0.8,1.2", "'1.2' for '--along")]
#[case::along_nothing("--along 0.8", "--frontier")]
#[case::brakes("--brakes maybe", "'maybe' for '--brakes")]
fn invalid_options_are_named_with_their_value(#[case] options: &str, #[case] expected: &str) {
    let error = bench(options).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn traces_need_ten_days_and_existing_folder_and_sets() {
    let folder = tempfile::tempdir().unwrap();
    let error = |options: &str| {
        let options = format!("--trace {} {options}", folder.path().display());
        format!("{:#}", bench(&options).unwrap().run().unwrap_err())
    };
    assert!(error("--days 9").contains("--days 9"), "{}", error("--days 9"));
    assert!(
        error("").contains("no file SET-RESOURCE-DAY.csv.gz"),
        "{}",
        error("")
    );
}

/// Names in the legend of the figure whose title starts with `figure`.
fn legend<'p>(page: &'p str, figure: &str) -> Vec<&'p str> {
    let (_, from) = page.split_once(&format!("<h3>{figure}")).expect(figure);
    let body = from.split("<h3>").next().unwrap();
    let texts = body.lines().filter(|line| line.starts_with("<text"));
    let names = texts.filter_map(|line| line.split_once("<title>")?.1.split_once("</title>"));
    names.map(|(name, _)| name).collect()
}

#[test]
fn the_page_has_all_plots_and_no_external_resource() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    run(&format!(
        "--nodes 1 --days 5 --policy headroom --policy oracle --html {}",
        file.display()
    ));
    let page = fs::read_to_string(&file).unwrap();
    assert_eq!(page.matches("<svg").count(), 5, "one for each plot");
    let risk = [
        "raw",
        "headroom",
        "oracle",
        "headroom along theta",
        "headroom-peak-rule along theta",
        "oracle along theta",
    ];
    assert_eq!(legend(&page, "Requests against violations"), risk);
    let day = [
        "demand F",
        "predicted peak P",
        "P and untrusted requests",
        "allocatable",
        "bound requests R",
        "capacity C",
        "raw allocatable A",
    ];
    assert_eq!(legend(&page, "A node's last day under headroom"), day);
    assert_eq!(legend(&page, "Ratios"), ["headroom", "oracle"]);
    assert_eq!(legend(&page, "Reaction to a step of load"), day);
    let margin = [
        "M, node 1",
        "amplification switched off",
        "amplification switched on again",
    ];
    assert_eq!(legend(&page, "Margin over time"), margin);
    for foreign in ["http", "src=", "href=", "@import", "<script", "NaN", "inf"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}
