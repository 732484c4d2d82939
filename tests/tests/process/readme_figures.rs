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

const TRACES: &str = "estimator-simulation";
const REACTION: &str = "brake-reaction";
const STOPPED: &str = "brake-reaction";
const WAKE_UPS: &str = "agent-overhead";
const MEMORY: &str = "agent-memory-and-weight";
const FLEET: &str = "fleet-memory-and-cpu";

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
    origin("+16.9 %", TRACES, "| **ours** |", "**+16.9 %**"),
    origin("+31.1 %", TRACES, "| Koordinator-style peak |", "+31.1 %"),
    origin("3.14 %", TRACES, "| **ours** |", "3.14 %"),
    origin("3.05 %", TRACES, "| raw |", "3.05 %"),
    origin("5.01 %", TRACES, "| Koordinator-style peak |", "5.01 %"),
    origin("11.06 s", REACTION, "| start of 32 spinning tasks", "**11.06 s**"),
    origin(
        "12.5 s",
        REACTION,
        "| start of 32 spinning tasks",
        "at most 12.5 s",
    ),
    origin("20 runs", REACTION, "20 runs", "20 runs"),
    origin("10.81 s", STOPPED, "| primary stopped half-way", "**10.81 s**"),
    origin("12.5 s", STOPPED, "| primary stopped half-way", "at most 12.5 s"),
    origin(
        "1.19 %",
        WAKE_UPS,
        "| CPU at 100,000 switches/s",
        "0.22 %, 1.19 %",
    ),
    origin(
        "0.22 %",
        WAKE_UPS,
        "| CPU at 100,000 switches/s",
        "0.22 %, 1.19 %",
    ),
    origin(
        "100,000 switches",
        WAKE_UPS,
        "| CPU at 100,000 switches/s",
        "100,000 switches/s",
    ),
    origin("10.48 MiB", MEMORY, "| resident with 100 pods", "10.48"),
    origin("10.54 MiB", MEMORY, "| resident with 500 pods", "10.54"),
    origin("100 pods", MEMORY, "| resident with 100 pods", "100 pods"),
    origin("with 500", MEMORY, "| resident with 500 pods", "with 500"),
    origin("0.23 cores", FLEET, "| CPU when quiet |", "0.23 cores"),
    origin("0.5 was", FLEET, "| CPU when quiet |", "| 0.5 |"),
    origin("296 MiB", FLEET, "| replica, largest", "296 MiB"),
    origin("300 MiB", FLEET, "| replica, largest", "300 MiB"),
];

/// Numbers of the table that were not measured: the size of the fleet is an assumption.
const ASKED: [&str; 1] = ["5,000 quiet nodes"];

/// Numbers elsewhere in the README: versions, defaults and licences, whose tests are elsewhere.
const NO_MEASUREMENTS: [&str; 16] = [
    "1", "1.30", "1.36", "5.8", "6.1", "6.12", "2.00", "1.50", "86", "64", "2", "2.0", "5,000", "90", "0",
    "1.00",
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
    assert_eq!(FIGURES[0].figure, "+16.9 %");
}
