//! `Row`: the declaration of one bench, with its name, description, flags and run function.

use anyhow::Result;
use clap::{ArgMatches, Command, FromArgMatches};
use serde::Serialize;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::criterion::Criterion;

#[derive(Debug)]
pub struct Row {
    /// Name on the command line.
    pub name: &'static str,
    /// One or two sentences on what is measured.
    pub about: &'static str,
    /// Adds the bench's flags to its command.
    pub flags: fn(Command) -> Command,
    pub run: fn(&ArgMatches) -> Result<BenchResult>,
}

#[derive(Debug)]
pub struct BenchResult {
    pub report: Value,
    pub criteria: Vec<Criterion>,
}

impl Row {
    pub fn command(&self) -> Command {
        (self.flags)(Command::new(self.name).about(self.about))
    }
}

/// The figures of one bench, serialised as its JSON report.
pub trait Report: Serialize {
    /// Empty for a bench that only measures.
    fn criteria(&self) -> Vec<Criterion> {
        Vec::new()
    }
}

impl BenchResult {
    /// # Errors
    /// If the figures cannot be serialised as JSON.
    pub fn new(report: &impl Report) -> Result<Self> {
        Ok(Self {
            report: serde_json::to_value(report)?,
            criteria: report.criteria(),
        })
    }
}

/// Runs a bench that has flags, on a runtime of its own.
///
/// # Errors
/// Errors of the bench.
pub(crate) fn run_async<F: FromArgMatches, R: Report>(
    flags: &ArgMatches,
    run: impl AsyncFnOnce(F) -> Result<R>,
) -> Result<BenchResult> {
    let report = Runtime::new()?.block_on(run(F::from_arg_matches(flags)?))?;
    BenchResult::new(&report)
}

/// Value of `Row::flags` for benches without flags.
pub(crate) fn no_flags(command: Command) -> Command {
    command
}
