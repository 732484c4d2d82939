//! `Row`: the declaration of one bench, with its name, description, flags and run function.

use anyhow::Result;
use clap::{ArgMatches, Command};
use serde::Serialize;
use serde_json::Value;

use crate::criterion::Criterion;

/// One bench.
#[derive(Debug)]
pub struct Row {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it measures, in a sentence or two.
    pub about: &'static str,
    /// Adds its flags to its command.
    pub flags: fn(Command) -> Command,
    /// Measures as the flags say.
    pub run: fn(&ArgMatches) -> Result<BenchResult>,
}

/// What a bench found.
#[derive(Debug)]
pub struct BenchResult {
    /// The figures.
    pub report: Value,
    /// What they must be.
    pub criteria: Vec<Criterion>,
}

impl Row {
    /// Its command.
    pub fn command(&self) -> Command {
        (self.flags)(Command::new(self.name).about(self.about))
    }
}

impl BenchResult {
    /// Figures, and what must hold of them.
    ///
    /// # Errors
    /// If the figures cannot be told as JSON.
    pub fn new(report: &impl Serialize, criteria: Vec<Criterion>) -> Result<Self> {
        Ok(Self {
            report: serde_json::to_value(report)?,
            criteria,
        })
    }
}

/// The flags of a bench that has none.
pub(crate) fn no_flags(command: Command) -> Command {
    command
}
