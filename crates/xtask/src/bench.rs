//! Benches: each measures beside something, in one run, and prints one flat object whose keys carry their units.

pub mod agent_overhead;
mod audit;
pub mod brake_reaction;
pub mod criterion;
pub mod estimator;
pub mod node_harm;
pub mod node_status;
pub mod node_storm;
mod revisions;
mod target;

use std::{
    env,
    fmt::Write as _,
    io::{self, Write as _},
    iter::once,
};

use anyhow::{Context as _, Result, ensure};
use clap::{Args, Subcommand};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, Value};
use tokio::runtime::Runtime;

use crate::{terminal::say, workspace};

/// `cargo xtask bench NAME`.
#[derive(Debug, Clone, Args)]
pub struct Bench {
    /// Print one JSON object instead of a table.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    name: Name,
}

/// The benches.
#[derive(Debug, Clone, Subcommand)]
enum Name {
    /// The webhook on an 80 kB nodes/status review: CPU per review, requests per second at the TLS socket.
    NodeStatus,
    /// The agent on this kernel: nanoseconds per context switch, percent of a CPU, memory, wake-ups, bytes. Needs root.
    AgentOverhead,
    /// Simulated nodes under our policy and others on the same pods: requests gained, violations, ratios.
    Estimator(estimator::Estimator),
    /// Amplified nodes beside others, kept by real kubelet code: writes to etcd, and what a dead or frozen webhook does.
    NodeStorm(node_storm::NodeStorm),
    /// A node in modes off, static and auto under the same load: latency, kills, leases, pods turned away. Needs root.
    NodeHarm(node_harm::NodeHarm),
    /// How soon a brake halves free capacity in etcd, with durations as in production: saturation, OOM kill. Needs root.
    BrakeReaction(brake_reaction::BrakeReaction),
}

impl Bench {
    /// Runs the bench, prints its result and says whether it meets its criteria. Without optimisation it builds and runs
    /// itself again with: figures of a debug build mean nothing.
    ///
    /// # Errors
    /// If the build or the bench fails, or a criterion is not met.
    pub fn run(&self) -> Result<()> {
        if cfg!(debug_assertions) {
            return again_optimised();
        }
        let (report, criteria) = match &self.name {
            Name::NodeStatus => (serde_json::to_value(node_status::run()?)?, Vec::new()),
            Name::AgentOverhead => (serde_json::to_value(agent_overhead::run()?)?, Vec::new()),
            Name::Estimator(estimator) => (serde_json::to_value(estimator.run()?)?, Vec::new()),
            Name::NodeStorm(storm) => {
                let report = Runtime::new()?.block_on(storm.run())?;
                (serde_json::to_value(&report)?, report.criteria())
            }
            Name::NodeHarm(harm) => {
                let report = Runtime::new()?.block_on(harm.run())?;
                (serde_json::to_value(&report)?, report.criteria())
            }
            Name::BrakeReaction(reaction) => {
                let report = Runtime::new()?.block_on(reaction.run())?;
                (serde_json::to_value(&report)?, report.criteria())
            }
        };
        let text = if self.json {
            report.to_string()
        } else {
            table(&report)?
        };
        writeln!(io::stdout(), "{text}")?;
        criterion::judge(&criteria)
    }
}

/// Runs this program again, with the same arguments, as released.
fn again_optimised() -> Result<()> {
    say("building with optimisation; minutes the first time");
    let status = workspace::cargo()
        .args([
            "run",
            "--release",
            "--quiet",
            "--package",
            env!("CARGO_PKG_NAME"),
            "--",
        ])
        .args(env::args_os().skip(1))
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the bench ended with {status}");
    Ok(())
}

/// The nearest-rank percentile of an ascending list; 0 if it is empty.
fn percentile(ascending: &[f64], percent: usize) -> f64 {
    let rank = (ascending.len() * percent).div_ceil(100).max(1);
    ascending.get(rank - 1).copied().unwrap_or(0.0)
}

/// What was done, then one row per figure; figures of several things that are compared stand side by side, and a list of
/// things has a row for each.
fn table(report: &Value) -> Result<String> {
    let figures = report.as_object().context("a report is an object")?;
    let mut texts = String::new();
    let mut alone = rows(["figure", "value"]);
    let mut lists = Vec::new();
    let mut compared: Vec<(&str, &Map<String, Value>)> = Vec::new();
    for (name, value) in figures {
        match value {
            Value::String(text) => write!(texts, "{name}: {text}\n\n")?,
            Value::Object(of_one) => compared.push((name, of_one)),
            Value::Array(things) if things.iter().all(Value::is_object) => lists.push(list(things)),
            Value::Number(_) | Value::Null | Value::Bool(_) | Value::Array(_) => {
                alone.add_row([name.clone(), figure(value)]);
            }
        }
    }
    let mut tables = Vec::new();
    if let Some((_, first)) = compared.first() {
        let mut beside = rows(once("figure").chain(compared.iter().map(|(name, _)| *name)));
        for name in first.keys() {
            let values = compared
                .iter()
                .map(|(_, of_one)| of_one.get(name).map_or_else(String::new, figure));
            beside.add_row(once(name.clone()).chain(values));
        }
        tables.push(beside);
    }
    if alone.row_count() > 0 {
        tables.push(alone);
    }
    tables.extend(lists);
    let tables: Vec<String> = tables.iter().map(Table::trim_fmt).collect();
    Ok(format!("{texts}{}", tables.join("\n\n")))
}

/// A row for each thing; texts, which say what it is, come before figures.
fn list(things: &[Value]) -> Table {
    let objects = || things.iter().filter_map(Value::as_object);
    let (mut columns, figures): (Vec<&String>, Vec<&String>) = objects()
        .take(1)
        .flatten()
        .map(|(name, _)| name)
        .partition(|name| objects().all(|thing| thing.get(*name).is_some_and(Value::is_string)));
    columns.extend(figures);
    let mut table = rows(columns.iter().map(|name| name.as_str()));
    for thing in objects() {
        let shown = |name: &&String| match thing.get(*name) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_))) => {
                figure(value)
            }
        };
        table.add_row(columns.iter().map(shown));
    }
    table
}

/// A table without rows yet; all columns but the first hold figures.
fn rows<'a>(header: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    for values in table.column_iter_mut().skip(1) {
        values.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn figure(value: &Value) -> String {
    match value.as_f64().filter(|_| value.is_f64()) {
        Some(number) => format!("{number:.2}"),
        None => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_take_the_nearest_rank() {
        let list: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!((percentile(&list, 50), percentile(&list, 99)), (100.0, 198.0));
        assert_eq!((percentile(&[7.0], 99), percentile(&[], 50)), (7.0, 0.0));
    }

    #[test]
    fn the_table_has_a_row_per_figure() {
        let report = serde_json::json!({"workload": "80 kB", "review_us_p50": 41.256, "samples": 7});
        let text = table(&report).unwrap();
        assert!(
            text.contains("41.26") && text.contains("80 kB") && text.contains('7'),
            "{text}"
        );
    }

    #[test]
    fn each_thing_of_a_list_has_a_row_that_begins_with_its_name() {
        let things = serde_json::json!([{"a_pct": 1.255, "name": "x", "b": null}, {"a_pct": 2.0, "name": "y", "b": 3}]);
        let text = table(&serde_json::json!({"things": things})).unwrap();
        let words: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            words,
            [
                vec!["name", "a_pct", "b"],
                vec!["x", "1.25"],
                vec!["y", "2.00", "3"]
            ],
            "{text}"
        );
    }

    #[test]
    fn what_is_compared_stands_side_by_side() {
        let report = serde_json::json!({"auto": {"kills": 3, "us": 1.5}, "off": {"kills": 7, "us": 2.25}, "samples": 9});
        let text = table(&report).unwrap();
        let words: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        for row in [
            ["figure", "auto", "off"],
            ["kills", "3", "7"],
            ["us", "1.50", "2.25"],
        ] {
            assert!(words.contains(&row.to_vec()), "{text}");
        }
        assert!(words.contains(&vec!["samples", "9"]), "{text}");
    }
}
