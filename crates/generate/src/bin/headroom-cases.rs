//! `cargo xtask cases`: counts the cases in tests/fixtures/cases that have a row, and fails if a served step has a case without
//! one.
#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use headroom_kit::config;
use headroom_webhook::admission::endpoints::ENDPOINTS;
use serde::Deserialize;
use xtask::{terminal::print, workspace};

/// Folder of the tables, relative to the workspace root.
const FOLDER: &str = "tests/fixtures/cases";
/// Maximum length of a range of case numbers.
const MOST: usize = 10_000;

/// Counts the test cases of each endpoint in tests/fixtures/cases, and lists cases without a row.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask cases", bin_name = "cargo xtask cases")]
struct Args {}

/// One file, without the fields that are not counted.
#[derive(Debug, Deserialize)]
struct CaseTable {
    sections: Vec<Section>,
}

#[derive(Debug, Deserialize)]
struct Section {
    about: String,
    endpoint: String,
    /// Step of the endpoint; `None` for behaviour outside the steps.
    step: Option<String>,
    /// Case numbers, such as `1-6, 160`.
    cases: String,
    #[serde(default)]
    rows: Vec<CaseRow>,
}

#[derive(Debug, Deserialize)]
struct CaseRow {
    /// Case number, with a letter if the case has several rows.
    id: String,
}

/// Number of a case, such as `12` or `M12`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct CaseNumber {
    prefix: String,
    number: usize,
}

#[derive(Debug, PartialEq, Eq)]
struct Coverage {
    about: String,
    owner: String,
    is_served: bool,
    covered: usize,
    total: usize,
}

fn main() -> ExitCode {
    let Args {} = Args::parse();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints the coverage of all tables.
///
/// # Errors
/// If a table cannot be read, or has faults.
fn run() -> Result<()> {
    let mut faults = Vec::new();
    for (file, table) in tables()? {
        let (coverages, found) = table.coverage(&is_served);
        let sum = |count: fn(&Coverage) -> usize| coverages.iter().map(count).sum::<usize>();
        print(format!(
            "{file}: {} of {}",
            sum(|coverage| coverage.covered),
            sum(|coverage| coverage.total)
        ));
        coverages.iter().for_each(print);
        faults.extend(found.into_iter().map(|fault| format!("{file}: {fault}")));
    }
    ensure!(faults.is_empty(), "\n  {}", faults.join("\n  "));
    Ok(())
}

/// All tables by file name.
fn tables() -> Result<BTreeMap<String, CaseTable>> {
    let folder = workspace::root().join(FOLDER);
    let entries = fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
    let files = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<PathBuf>>>()?;
    let tables = files.iter().map(|file| {
        let name = file.file_name().and_then(|name| name.to_str());
        Ok((name.unwrap_or_default().to_owned(), config::load(file)?))
    });
    tables.collect()
}

/// True if the step is declared or, without a step, the endpoint.
fn is_served(endpoint: &str, step: Option<&str>) -> bool {
    let mut endpoints = ENDPOINTS.iter().filter(|declared| declared.label() == endpoint);
    endpoints.any(|declared| {
        let mut steps = declared.steps().into_iter();
        step.is_none_or(|name| steps.any(|step| step.name == name))
    })
}

impl CaseTable {
    /// Coverage of each section, and all faults.
    fn coverage(&self, is_served: &dyn Fn(&str, Option<&str>) -> bool) -> (Vec<Coverage>, Vec<String>) {
        let (mut coverages, mut faults) = (Vec::new(), Vec::new());
        let (mut listed, mut ids) = (BTreeSet::new(), BTreeSet::new());
        for section in &self.sections {
            let numbers = numbers(&section.cases).unwrap_or_else(|error| {
                faults.push(format!("{}: {error:#}", section.about));
                Vec::new()
            });
            for number in &numbers {
                if !listed.insert(number.clone()) {
                    faults.push(format!("{number} is listed twice"));
                }
            }
            let rows = section.rows.iter().map(|row| row.id.as_str());
            let twice = rows.filter(|id| !ids.insert(*id));
            faults.extend(twice.map(|id| format!("row {id} exists twice")));
            let is_served = is_served(&section.endpoint, section.step.as_deref());
            coverages.push(section.coverage(&numbers, is_served, &mut faults));
        }
        // If a case has several rows, each has a letter.
        let twice = ids.iter().filter(|id| ids.contains(format!("{id}a").as_str()));
        faults.extend(twice.map(|id| format!("row {id} and row {id}a exist: add a letter to {id}")));
        (coverages, faults)
    }
}

impl Section {
    /// Coverage of the section, whose case numbers are `numbers`.
    fn coverage(&self, numbers: &[CaseNumber], is_served: bool, faults: &mut Vec<String>) -> Coverage {
        let (about, owner) = (&self.about, self.owner());
        let mut covered = BTreeSet::new();
        for CaseRow { id } in &self.rows {
            match CaseNumber::of_row(id) {
                Ok(number) if numbers.contains(&number) => {
                    covered.insert(number);
                }
                Ok(number) => faults.push(format!("row {id}: {number} is not a case of {about}")),
                Err(error) => faults.push(format!("row {id}: {error:#}")),
            }
        }
        let missing = numbers.iter().filter(|number| !covered.contains(number));
        if is_served {
            faults.extend(missing.map(|number| format!("{number} has no row, and {owner} is served")));
        }
        Coverage {
            about: about.clone(),
            owner,
            is_served,
            covered: covered.len(),
            total: numbers.len(),
        }
    }

    /// Endpoint and step, such as `mutate-pod/device`.
    fn owner(&self) -> String {
        match &self.step {
            Some(step) => format!("{}/{step}", self.endpoint),
            None => self.endpoint.clone(),
        }
    }
}

impl CaseNumber {
    fn parse(text: &str) -> Result<Self> {
        let digits = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
        let (prefix, number) = text.split_at(digits);
        if !prefix.chars().all(|c| c.is_ascii_uppercase()) {
            bail!("{text:?} is not a case number");
        }
        let number = number.parse();
        Ok(Self {
            prefix: prefix.to_owned(),
            number: number.with_context(|| format!("{text:?} is not a case number"))?,
        })
    }

    /// Parses the case number of a row's ID, which may end in a letter.
    fn of_row(id: &str) -> Result<Self> {
        Self::parse(id.strip_suffix(|c: char| c.is_ascii_lowercase()).unwrap_or(id))
    }
}

impl fmt::Display for CaseNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.prefix, self.number)
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            about,
            owner,
            is_served,
            covered,
            total,
        } = self;
        let note = if *is_served { "" } else { ", not served yet" };
        write!(f, "  {covered:>3} of {total:<3} {about} ({owner}{note})")
    }
}

/// Parses a list of case numbers, such as `1-6, 160`.
fn numbers(list: &str) -> Result<Vec<CaseNumber>> {
    let mut numbers = Vec::new();
    for entry in list.split(',').map(str::trim) {
        let (first, last) = entry.split_once('-').unwrap_or((entry, entry));
        let (first, last) = (CaseNumber::parse(first)?, CaseNumber::parse(last)?);
        let is_range = first <= last && first.prefix == last.prefix;
        ensure!(
            is_range && last.number - first.number < MOST,
            "{entry:?} is not a range of cases"
        );
        numbers.extend((first.number..=last.number).map(|number| CaseNumber {
            prefix: first.prefix.clone(),
            number,
        }));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Coverage and faults of a table if only `e/s` is served.
    fn coverage(sections: &str) -> (Vec<Coverage>, Vec<String>) {
        let text = format!("sections: [{sections}]");
        let table: CaseTable = config::parse(&text, Path::new("t.yaml")).unwrap();
        table.coverage(&|endpoint, step| (endpoint, step) == ("e", Some("s")))
    }

    #[test]
    fn every_case_of_a_served_step_has_a_row() {
        let mut all = 0;
        for (file, table) in tables().unwrap() {
            let (coverages, faults) = table.coverage(&is_served);
            assert_eq!(faults, Vec::<String>::new(), "{file}");
            all += coverages.iter().map(|coverage| coverage.total).sum::<usize>();
        }
        assert!(all > 600, "the tables have only {all} cases");
    }

    #[test]
    fn rows_of_one_case_count_once() {
        let (coverages, faults) = coverage(
            "{about: x, endpoint: e, step: s, cases: '1-2, 7', rows: [{id: 1}, {id: 2a}, {id: 2b}, {id: 7}]},\
             {about: y, endpoint: e, step: t, cases: M1-M9}",
        );
        assert_eq!(faults, Vec::<String>::new());
        let lines: Vec<String> = coverages.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            ["    3 of 3   x (e/s)", "    0 of 9   y (e/t, not served yet)"]
        );
    }

    #[test]
    fn every_fault_is_reported() {
        let served =
            |cases, rows| format!("{{about: x, endpoint: e, step: s, cases: '{cases}', rows: [{rows}]}}");
        for (sections, fault) in [
            (served("1-2", "{id: 1}"), "2 has no row, and e/s is served"),
            (served("1", "{id: 1}, {id: 1}"), "row 1 exists twice"),
            (served("1", "{id: 1}, {id: 1a}"), "row 1 and row 1a exist"),
            (served("1", "{id: 1}, {id: 2}"), "row 2: 2 is not a case of x"),
            (
                served("1", "{id: 1}, {id: one}"),
                "row one: \"on\" is not a case number",
            ),
            (served("1, 1", "{id: 1}"), "1 is listed twice"),
            (served("3-1", ""), "x: \"3-1\" is not a range of cases"),
            (served("M1-A2", ""), "x: \"M1-A2\" is not a range of cases"),
            (
                served("1-99999999", ""),
                "x: \"1-99999999\" is not a range of cases",
            ),
            (served("", ""), "x: \"\" is not a case number"),
        ] {
            let (_, faults) = coverage(&sections);
            assert!(
                faults.len() == 1 && faults[0].starts_with(fault),
                "{sections}: {faults:?}"
            );
        }
    }
}
