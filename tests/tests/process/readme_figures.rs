//! Tests that each measured figure of the README stands in the row of the journal that it is from.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{collections::BTreeSet, fs};

use xtask::workspace;

/// Origin of a figure in the README.
struct Origin {
    /// The figure as the README has it, with its unit.
    figure: &'static str,
    /// The entry of the journal, without folder and ending.
    entry: &'static str,
    /// Start of the row in the journal page.
    row: &'static str,
    /// The figure as that row has it.
    recorded: &'static str,
}

const MARGIN: &str = "margin-calibration";
const RULES: &str = "estimator-simulation";
const ROLLOUTS: &str = "rollouts-in-the-simulator";
const HARM: &str = "node-harm";
const REACTION: &str = "brake-reaction";
const WAKE_UPS: &str = "agent-overhead";
const MEMORY: &str = "agent-memory-and-weight";
const FLEET: &str = "fleet-memory-and-cpu";
const STORM: &str = "node-storm";

const fn origin(
    figure: &'static str,
    entry: &'static str,
    row: &'static str,
    recorded: &'static str,
) -> Origin {
    Origin {
        figure,
        entry,
        row,
        recorded,
    }
}

/// Every figure of the README's table of benefits and costs.
static FIGURES: &[Origin] = &[
    origin("+25.4 %", MARGIN, "| **ours** | **1.190**", "**+25.4 %**"),
    origin("+18 %", MARGIN, "| at least +18 % over raw", "+18 %"),
    origin("+0.08 points", MARGIN, "| **ours** | **1.190**", "+0.08"),
    origin("0.15 points", RULES, "The goal is +15 % requests", "0.15 points"),
    origin("63 %", MARGIN, "| at least 70 % of the oracle's gain", "63 %"),
    origin("70 %", MARGIN, "| at least 70 % of the oracle's gain", "70 %"),
    origin("+16.9 %", RULES, "| **ours** | **1.110**", "**+16.9 %**"),
    origin("+0.09 points", RULES, "| **ours** | **1.110**", "+0.09"),
    origin("+31.1 %", RULES, "| Koordinator-style peak |", "+31.1 %"),
    origin("+1.96 points", RULES, "| Koordinator-style peak |", "+1.96"),
    origin("78,850", ROLLOUTS, "| **ours** | 1.039", "78,850 min"),
    origin("55,000", ROLLOUTS, "| raw | 0.934", "55,000 min"),
    origin(
        "0 of 480",
        ROLLOUTS,
        "Seeds 401 to 405, 15 groups of nodes",
        "480 of DaemonSets",
    ),
    origin("| 0 ", ROLLOUTS, "| **ours** | 1.039", "**0, 0, 0**"),
    origin("p99", HARM, "| latency p99 relative to `off`, median", "p99"),
    origin(
        "0.91",
        HARM,
        "| latency p99 relative to `off`, median of turns | 1.00 | **2.29**",
        "0.91",
    ),
    origin(
        "1.09",
        HARM,
        "| latency p99 relative to `off`, median of turns | 1.00 | 0.96",
        "1.09",
    ),
    origin(
        "2.29",
        HARM,
        "| latency p99 relative to `off`, median of turns | 1.00 | **2.29**",
        "2.29",
    ),
    origin("ratio of 2.00", HARM, "| | off | static at 2.00", "2.00"),
    origin(
        "0.96",
        HARM,
        "| latency p99 relative to `off`, median of turns | 1.00 | 0.96",
        "0.96",
    ),
    origin("with 1.30", HARM, "| | off | static at 1.30", "1.30"),
    origin("11.06 s", REACTION, "| start of 32 spinning tasks", "**11.06 s**"),
    origin(
        "12.5 s",
        REACTION,
        "| start of 32 spinning tasks",
        "at most 12.5 s",
    ),
    origin("20 runs", REACTION, "20 runs", "20 runs"),
    origin("10.81 s", REACTION, "| primary stopped half-way", "**10.81 s**"),
    origin("12.5 s", REACTION, "| primary stopped half-way", "at most 12.5 s"),
    origin(
        "1.19 %",
        WAKE_UPS,
        "| CPU at 100,000 switches/s",
        "0.22 %, 1.19 %",
    ),
    origin("0.5 %", WAKE_UPS, "| at most 0.5 % of a CPU", "missed here"),
    origin(
        "100,000 switches",
        WAKE_UPS,
        "| CPU at 100,000 switches/s",
        "100,000 switches/s",
    ),
    origin("98 ns", WAKE_UPS, "| at most 35 ns per switch", "98, of which"),
    origin("35 ns", WAKE_UPS, "| at most 35 ns per switch", "missed here"),
    origin("10.48 MiB", MEMORY, "| resident with 100 pods", "10.48"),
    origin("12 MiB", MEMORY, "| resident with 100 pods", "| 12 |"),
    origin("100 pods", MEMORY, "| resident with 100 pods", "100 pods"),
    origin("0.23 cores", FLEET, "| CPU when quiet |", "0.23 cores"),
    origin("0.5 cores", FLEET, "| CPU when quiet |", "| 0.5 |"),
    origin("296 MiB", FLEET, "| replica, largest", "296 MiB"),
    origin("300 MiB", FLEET, "| replica, largest", "300 MiB"),
    origin("448 MiB", FLEET, "| restart, agents over TLS | 448", "448"),
    origin("3.0 times", STORM, "| policies, webhook called | 17.15", "3.0"),
];

/// Numbers of the table that were not measured: the size of the fleet is an assumption.
const ASKED: [&str; 1] = ["5,000 quiet nodes"];

/// Numbers elsewhere in the README: versions, defaults and licences, whose tests are elsewhere.
const NO_MEASUREMENTS: [&str; 15] = [
    "0.1.0", "1", "1.30", "1.35", "1.36", "1.50", "2", "2.0", "2.00", "3", "5.8", "6.1", "6.12", "64", "86",
];

fn readme() -> String {
    fs::read_to_string(workspace::root().join("README.md")).expect("the README")
}

/// The rows of the table, each without the link to its entry.
fn table(readme: &str) -> Vec<String> {
    let (_, section) = readme
        .split_once("## What it gives and what it costs\n")
        .expect("the section");
    let (section, _) = section.split_once("\n## ").expect("its end");
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|row| row.split("| [").next().expect("cells").to_owned())
        .collect()
}

/// The numbers of a text, as they are written.
fn numbers(text: &str) -> BTreeSet<String> {
    let is_part = |character: char| character.is_ascii_digit() || ".,".contains(character);
    text.split(|character| !is_part(character))
        .map(|number| number.trim_matches(['.', ',']).to_owned())
        .filter(|number| !number.is_empty())
        .collect()
}

/// Prose alone: without blocks, quoted code and the targets of links.
fn prose(readme: &str) -> String {
    let mut text = String::new();
    for (number, part) in readme.split("```").enumerate() {
        if number % 2 == 0 {
            text.extend(part.split('`').step_by(2));
        }
    }
    let mut parts = text.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |before, part| {
        before + part.split_once(')').map_or(part, |(_, behind)| behind)
    })
}

#[test]
fn each_figure_of_the_readme_is_in_the_row_of_the_journal() {
    let rows = table(&readme());
    assert!(rows.len() >= 7, "{rows:#?}");
    let root = workspace::root();
    let mut left = rows.join("\n");
    for Origin {
        figure,
        entry,
        row,
        recorded,
    } in FIGURES
    {
        assert!(left.contains(figure), "the README does not have {figure}");
        left = left.replacen(figure, "", 1);
        let text = fs::read_to_string(root.join(format!("docs/journal/{entry}.md"))).expect("an entry");
        let is_recorded = text
            .lines()
            .any(|line| line.starts_with(row) && line.contains(recorded));
        assert!(
            is_recorded,
            "{figure}: {entry} has no row {row:?} with {recorded:?}"
        );
    }
    for asked in ASKED {
        assert!(left.contains(asked), "{asked}");
        left = left.replacen(asked, "", 1);
    }
    assert_eq!(numbers(&left), BTreeSet::new(), "figures without an origin");
}

#[test]
fn the_readme_has_measured_figures_in_that_table_alone() {
    let readme = readme();
    let (before, section) = readme
        .split_once("## What it gives and what it costs\n")
        .expect("the section");
    let (_, after) = section.split_once("\n## ").expect("its end");
    let known: BTreeSet<String> = NO_MEASUREMENTS.map(str::to_owned).into();
    let others: Vec<String> = numbers(&prose(&format!("{before}\n## {after}")))
        .difference(&known)
        .cloned()
        .collect();
    assert_eq!(others, [""; 0], "measured? Then the table is their place");
}

#[test]
fn unrecorded_figure_is_detected() {
    assert_eq!(
        numbers("+16.9 %, of 5,000."),
        BTreeSet::from(["16.9".to_owned(), "5,000".to_owned()])
    );
    let text = "a `b 1` [c 2](d/3.md) 4\n```text\n5\n```\n6";
    assert_eq!(numbers(&prose(text)), ["2", "4", "6"].map(str::to_owned).into());
    let rows =
        table("## What it gives and what it costs\n\n| | a |\n|---|---|\n| x | 1 s | [e](f) |\n\n## Next\n");
    assert_eq!(rows, ["| x | 1 s "]);
    assert_eq!(FIGURES[0].figure, "+25.4 %");
}
