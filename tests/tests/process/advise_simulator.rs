//! `kubectl headroom advise` gives the same figures as the simulator of `bench estimator` that feeds its Prometheus
//! server. The server is real, so all data passes through scrapes, counters and PromQL.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use std::{env, ffi::OsString, fs, path::Path, process::Command};

use clap::Parser;
use e2e::{
    built::programs,
    console,
    prometheus::{self, Prometheus},
    shell::Shell,
};
use headroom_plot::picture;
use headroom_simulator::{Estimator, PAST_FROM_S};
use serde_json::Value;
use xtask::workspace;

/// A node of each mean use, and days enough for the ratio to stand and for a day to follow decisions.
const DAYS: u64 = 5;
/// Its commands are run here.
const PAGE: &str = "docs/advise.md";

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    bench: Estimator,
}

/// Start of the command in docs/advise.md; the rest is for the optimized program.
const BENCH: &str = "cargo xtask bench ";

/// Runs the simulator as the page's command does, and returns the rows of our estimator for the history that is
/// written to `file`.
fn simulated(file: &Path) -> Vec<Value> {
    let commands = console::page_commands(PAGE, BENCH);
    let command = commands.first().expect("a command");
    let (options, name) = command.rsplit_once(' ').expect("a file");
    assert!(file.ends_with(name), "{command}");
    let options = options.strip_prefix(BENCH).expect("its options");
    let words = options.split(' ').map(Into::into).chain([file.into()]);
    let words: Vec<OsString> = words.collect();
    let report = Line::parse_from(words).bench.run().expect("simulate");
    let report = serde_json::to_value(report).expect("JSON");
    report["past"].as_array().expect("rows").clone()
}

/// A server over the blocks that the page's command creates from the file in the folder.
async fn served(folder: &Path) -> Prometheus {
    let commands = console::page_commands(PAGE, "promtool ");
    let command = commands.first().expect("a command");
    let tool = prometheus::programs().tool;
    let bin = tool.parent().expect("its folder").display();
    let shell = Shell::new(folder, &format!("export PATH='{bin}':\"$PATH\""));
    shell.printed(command).await;
    let blocks = command.rsplit(' ').next().expect("a folder");
    Prometheus::over_blocks(&folder.join(blocks)).await
}

fn advised(cli: &Path, flags: &[&str]) -> Value {
    let output = Command::new(cli)
        .env_clear()
        .args(["advise", "-o", "json"])
        .args(flags)
        .output()
        .expect("run the CLI");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// The figures of a pool's CPU.
fn pool<'a>(advice: &'a Value, name: &Value) -> &'a Value {
    let mut pools = advice["pools"].as_array().expect("pools").iter();
    let found = pools.find(|pool| pool["name"] == *name);
    &found.expect("the pool")["cpu"]
}

/// Maximum difference of figures: ratios in cents, gain of raw allocatable and share of saturated frames in ppm,
/// number of decisions.
struct Tolerance {
    ratio: f64,
    gained: f64,
    saturated: f64,
    decisions: f64,
}

/// The simulator has means of five minutes. The remaining difference is that cores are decimal fractions of seconds.
const BY_FRAME: Tolerance = Tolerance {
    ratio: 0.0,
    gained: 50.0,
    saturated: 0.0,
    decisions: 0.0,
};
/// The query's window of two minutes that ends a minute into a frame has half of it in the frame before. Where that
/// was the busier one, the frame's peak is the mean of both: the highest peak of a day stays the same, while some
/// frames after busy ones count as saturated (here 3 of 1152), and a ratio moves a frame earlier or later.
const BY_MINUTE: Tolerance = Tolerance {
    ratio: 1.0,
    gained: 300.0,
    saturated: 4000.0,
    decisions: 1.0,
};

fn assert_close(advised: &Value, own: &Value, tolerance: &Tolerance) {
    assert_eq!(advised["frames"], own["frames"], "{advised} {own}");
    for (figure, most) in [
        ("ratio_p5_cents", tolerance.ratio),
        ("ratio_p50_cents", tolerance.ratio),
        ("ratio_p95_cents", tolerance.ratio),
        ("gained_ppm", tolerance.gained),
        ("saturated_ppm", tolerance.saturated),
        ("would_saturate_ppm", tolerance.saturated),
        ("judged", tolerance.decisions),
    ] {
        let difference = (number(&advised[figure]) - number(&own[figure])).abs();
        assert!(
            difference <= most,
            "{figure}: {advised}, and of the simulator {own}"
        );
    }
    // In decisions, of those that were judged; none without any. A share in ppm is cut off.
    let missed = |row: &Value| row["missed_ppm"].as_f64().unwrap_or(0.0) * number(&row["judged"]) / 1e6;
    let difference = (missed(advised) - missed(own)).abs();
    assert!(
        difference <= tolerance.decisions + 0.01,
        "missed: {advised}, and of the simulator {own}"
    );
}

/// The first plot of a node's day on the page, as a file.
fn day(page: &str) -> String {
    let (_, rest) = page.split_once(": a day of ").expect("a day");
    let (_, rest) = rest.split_once("<div>").expect("its plot");
    let (svg, _) = rest.split_once("</div>").expect("its end");
    picture(svg)
}

/// The picture in the README is this one. With `HEADROOM_PICTURES=write` it becomes this one.
fn is_the_picture(drawn: &str) {
    let file = workspace::root().join("docs/pictures/advise-day.svg");
    if env::var("HEADROOM_PICTURES").is_ok_and(|value| value == "write") {
        fs::write(&file, drawn).expect("write the picture");
    }
    let shown = fs::read_to_string(&file).expect("the picture");
    assert!(
        shown == drawn,
        "HEADROOM_PICTURES=write renews {}",
        file.display()
    );
}

#[tokio::test]
async fn advice_equals_the_simulators_estimator() {
    let cli = programs().await.cli;
    let folder = tempfile::tempdir().expect("folder");
    let (file, page) = (folder.path().join("past.om"), folder.path().join("advice.html"));
    let rows = simulated(&file);
    let server = served(folder.path()).await;
    let (until, days) = ((PAST_FROM_S + DAYS * 86_400).to_string(), DAYS.to_string());
    let html = page.display().to_string();
    let flags = [
        "--prometheus",
        &server.url,
        "--until",
        &until,
        "--days",
        &days,
        "--pool-label",
        "label_pool",
    ];
    let advice = advised(&cli, &[&flags[..], &["--html", &html]].concat());
    let (level, bursty): (Vec<&Value>, Vec<&Value>) = rows.iter().partition(|row| row["cv"] == 0.0);
    assert_eq!((level.len(), bursty.len()), (4, 4), "{rows:?}");
    assert!(
        number(&level[0]["gained_ppm"]) > 100_000.0,
        "there is something to compare: {rows:?}"
    );
    let by_frame = [
        "--step-seconds",
        "300",
        "--query",
        r#"node-cpu=sum by (node) (rate(container_cpu_usage_seconds_total{id="/"}[5m]))"#,
    ];
    let by_frame = advised(&cli, &[&flags[..], &by_frame].concat());
    for own in level {
        assert_close(pool(&by_frame, &own["pool"]), own, &BY_FRAME);
        assert_close(pool(&advice, &own["pool"]), own, &BY_MINUTE);
    }
    // As the caveat states: an agent observes the bursts that averages hide, and gives less.
    for own in bursty {
        let advised = pool(&advice, &own["pool"]);
        for figure in ["ratio_p50_cents", "gained_ppm"] {
            assert!(
                number(&own[figure]) <= number(&advised[figure]),
                "{figure}: {advised} {own}"
            );
        }
    }

    let text = fs::read_to_string(&page).expect("the page");
    // Four plots of all pools, a day of each, and the nodes that need less.
    assert_eq!(text.matches("<svg").count(), 4 + 4 + 1);
    assert!(text.contains("from 2023-11-09T00:00:00Z to 2023-11-14T00:00:00Z"));
    for foreign in ["http", "src=", "href=", "<script", "NaN"] {
        assert!(!text.contains(foreign), "{foreign}");
    }
    is_the_picture(&day(&text));
    advised(&cli, &[&flags[..], &["--html", &html]].concat());
    assert_eq!(
        fs::read_to_string(&page).expect("the page"),
        text,
        "the same past, the same bytes"
    );
}
