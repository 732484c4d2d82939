//! Benches: each measures beside something, in one run, and prints one flat object whose keys carry their units.

pub mod agent_overhead;
pub mod node_status;

use std::{
    env,
    fmt::Write as _,
    io::{self, Write as _},
};

use anyhow::{Context as _, Result, ensure};
use clap::{Args, Subcommand};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::Value;

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
    /// The agent on this kernel: nanoseconds per context switch, percent of a CPU, memory. Needs root.
    AgentOverhead,
}

impl Bench {
    /// Runs the bench and prints its result. Without optimisation it builds and runs itself again with: figures of a
    /// debug build mean nothing.
    ///
    /// # Errors
    /// If the build or the bench fails.
    pub fn run(&self) -> Result<()> {
        if cfg!(debug_assertions) {
            return again_optimised();
        }
        let report = match self.name {
            Name::NodeStatus => serde_json::to_value(node_status::run()?)?,
            Name::AgentOverhead => serde_json::to_value(agent_overhead::run()?)?,
        };
        let text = if self.json {
            report.to_string()
        } else {
            table(&report)?
        };
        writeln!(io::stdout(), "{text}")?;
        Ok(())
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

/// What was done, then one row per figure.
fn table(report: &Value) -> Result<String> {
    let figures = report.as_object().context("a report is an object")?;
    let mut texts = String::new();
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["figure", "value"]);
    if let Some(values) = table.column_mut(1) {
        values.set_cell_alignment(CellAlignment::Right);
    }
    for (name, value) in figures {
        let figure = match value {
            Value::String(text) => {
                write!(texts, "{name}: {text}\n\n")?;
                continue;
            }
            Value::Number(number) if number.is_f64() => format!("{:.2}", number.as_f64().unwrap_or_default()),
            Value::Number(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                value.to_string()
            }
        };
        table.add_row([name.clone(), figure]);
    }
    Ok(format!("{texts}{}", table.trim_fmt()))
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
}
