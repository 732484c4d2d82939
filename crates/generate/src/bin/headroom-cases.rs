//! `cargo xtask cases`: counts the cases of the tables in tests/fixtures/cases that have a row, and fails if one is missing
//! whose step is served.
#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail, ensure};
use headroom_kit::config;
use headroom_webhook::admission::endpoints::ENDPOINTS;
use serde::Deserialize;
use xtask::{terminal::print, workspace};

/// Where the tables are, from the root of the workspace.
const FOLDER: &str = "tests/fixtures/cases";
/// The most numbers in one list.
const MOST: usize = 10_000;

/// One file, as far as it is counted.
#[derive(Debug, Deserialize)]
struct CaseTable {
    sections: Vec<Section>,
}

/// Cases that one step answers.
#[derive(Debug, Deserialize)]
struct Section {
    about: String,
    /// The label of an endpoint.
    endpoint: String,
    /// A step of it; none for what happens around the steps.
    step: Option<String>,
    /// Its numbers, as in `1-6, 160`.
    cases: String,
    #[serde(default)]
    rows: Vec<CaseRow>,
}

/// One row.
#[derive(Debug, Deserialize)]
struct CaseRow {
    /// Its number, and a letter where a number has several rows.
    id: String,
}

/// Number of a case, as in `12` or `M12`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct CaseNumber {
    prefix: String,
    number: usize,
}

/// What a section came to.
#[derive(Debug, PartialEq, Eq)]
struct Coverage {
    about: String,
    owner: String,
    is_served: bool,
    covered: usize,
    total: usize,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints what is covered.
///
/// # Errors
/// A table cannot be read, or has faults.
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

/// Every table by the name of its file.
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

/// True if a step is declared, or if the endpoint is where no step is named.
fn is_served(endpoint: &str, step: Option<&str>) -> bool {
    let mut endpoints = ENDPOINTS.iter().filter(|declared| declared.label() == endpoint);
    endpoints.any(|declared| {
        let mut steps = declared.steps().into_iter();
        step.is_none_or(|name| steps.any(|step| step.name == name))
    })
}

impl CaseTable {
    /// What is covered of each section, and what is wrong.
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
            faults.extend(twice.map(|id| format!("row {id} stands twice")));
            let is_served = is_served(&section.endpoint, section.step.as_deref());
            coverages.push(section.coverage(&numbers, is_served, &mut faults));
        }
        // Where a number has several rows, each has a letter.
        let twice = ids.iter().filter(|id| ids.contains(format!("{id}a").as_str()));
        faults.extend(twice.map(|id| format!("row {id} stands beside {id}a")));
        (coverages, faults)
    }
}

impl Section {
    /// What is covered of these numbers, which are those of the section.
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

    /// Whose cases they are, as in `mutate-pod/device`.
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
            bail!("{text:?} is not a number of a case");
        }
        let number = number.parse();
        Ok(Self {
            prefix: prefix.to_owned(),
            number: number.with_context(|| format!("{text:?} is not a number of a case"))?,
        })
    }

    /// The number of a row, whose id may have a letter behind it.
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

/// The numbers of a list, as in `1-6, 160`.
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

    /// The coverage and the faults of a table of which nothing but `e/s` is served.
    fn coverage(sections: &str) -> (Vec<Coverage>, Vec<String>) {
        let text = format!("sections: [{sections}]");
        let table: CaseTable = config::parse(&text, Path::new("t.yaml")).unwrap();
        table.coverage(&|endpoint, step| (endpoint, step) == ("e", Some("s")))
    }

    #[test]
    fn each_case_of_a_served_step_has_a_row() {
        let mut all = 0;
        for (file, table) in tables().unwrap() {
            let (coverages, faults) = table.coverage(&is_served);
            assert_eq!(faults, Vec::<String>::new(), "{file}");
            all += coverages.iter().map(|coverage| coverage.total).sum::<usize>();
        }
        assert!(all > 600, "the tables are read: {all}");
    }

    #[test]
    fn rows_are_counted_by_their_numbers() {
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
    fn each_fault_is_noticed() {
        let served =
            |cases, rows| format!("{{about: x, endpoint: e, step: s, cases: '{cases}', rows: [{rows}]}}");
        for (sections, fault) in [
            (served("1-2", "{id: 1}"), "2 has no row, and e/s is served"),
            (served("1", "{id: 1}, {id: 1}"), "row 1 stands twice"),
            (served("1", "{id: 1}, {id: 1a}"), "row 1 stands beside 1a"),
            (served("1", "{id: 1}, {id: 2}"), "row 2: 2 is not a case of x"),
            (
                served("1", "{id: 1}, {id: one}"),
                "row one: \"on\" is not a number of a case",
            ),
            (served("1, 1", "{id: 1}"), "1 is listed twice"),
            (served("3-1", ""), "x: \"3-1\" is not a range of cases"),
            (served("M1-A2", ""), "x: \"M1-A2\" is not a range of cases"),
            (
                served("1-99999999", ""),
                "x: \"1-99999999\" is not a range of cases",
            ),
            (served("", ""), "x: \"\" is not a number of a case"),
        ] {
            let (_, faults) = coverage(&sections);
            assert!(
                faults.len() == 1 && faults[0].starts_with(fault),
                "{sections}: {faults:?}"
            );
        }
    }
}
