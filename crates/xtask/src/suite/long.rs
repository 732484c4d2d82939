//! `cargo xtask test --long`: runs the long tests part by part, and skips each part that has passed on this commit.
//!
//! The next run after an interruption continues with the remaining parts. The journal has the last result of each part.

mod journal;
mod mutants;
mod part;

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

pub(super) use self::part::names;
use self::part::{PARTS, Part};
use super::tally::{Row, Tally};
use crate::{terminal::print, workspace};

/// The last result of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PartResult {
    /// Result of [`workspace::commit`] for the folders of the part.
    commit: String,
    /// Date of its end, in UTC.
    day: String,
    took: Duration,
    tally: Tally,
}

/// Runs the named parts, or all if `names` is empty, and counts their tests.
///
/// # Errors
/// If git cannot name the commit, or a result cannot be written.
pub(super) fn run(names: &[String], again: bool) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for part in PARTS
        .iter()
        .filter(|part| names.is_empty() || names.iter().any(|name| name == part.name))
    {
        let commit = workspace::commit(part.folders, journal::PAGE)?;
        let last = PartResult::read(part).filter(|last| last.has_passed_on(&commit) && !again);
        let last = if let Some(last) = last {
            print(format!("\n== {}: skipped, has passed on {commit}", part.name));
            last
        } else {
            print(format!("\n== {}: {}; {}", part.name, part.about, part.lasts));
            let start = Instant::now();
            let last = PartResult {
                tally: result(part),
                took: start.elapsed(),
                commit: commit.clone(),
                day: workspace::day()?,
            };
            last.write(part)?;
            journal::write(&results())?;
            last
        };
        rows.push(Row::new(part.name, last.took, last.tally));
    }
    Ok(rows)
}

/// Runs a part. A part that cannot run, or runs no test, counts as one failure.
fn result(part: &Part) -> Tally {
    let failed = Tally {
        failed: 1,
        ..Tally::default()
    };
    match part.run() {
        Ok(tally) if tally.passed == 0 && tally.failed == 0 => {
            print(format!("{}: no test ran: counted as one failure", part.name));
            failed
        }
        Ok(tally) => tally,
        Err(error) => {
            print(format!("{} could not run: {error:#}", part.name));
            failed
        }
    }
}

/// The last result of each part that has one.
fn results() -> Vec<(&'static Part, PartResult)> {
    let parts = PARTS.iter();
    parts
        .filter_map(|part| Some((part, PartResult::read(part)?)))
        .collect()
}

impl PartResult {
    /// Returns true if all tests passed on this commit. A tree with uncommitted changes never counts.
    fn has_passed_on(&self, commit: &str) -> bool {
        self.commit == commit
            && self.tally.passed > 0
            && self.tally.failed == 0
            && !commit.ends_with(workspace::DIRTY)
    }

    fn file(part: &Part) -> PathBuf {
        workspace::target()
            .join("long")
            .join(format!("{}.json", part.name))
    }

    fn read(part: &Part) -> Option<Self> {
        let text = fs::read_to_string(Self::file(part)).ok()?;
        Self::parse(&serde_json::from_str(&text).ok()?)
    }

    fn parse(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name)?.as_str().map(str::to_owned);
        let number = |name: &str| value.get(name)?.as_u64();
        let count = |name: &str| u32::try_from(number(name)?).ok();
        Some(Self {
            commit: text("commit")?,
            day: text("day")?,
            took: Duration::from_secs(number("seconds")?),
            tally: Tally {
                passed: count("passed")?,
                failed: count("failed")?,
                skipped: count("skipped")?,
            },
        })
    }

    fn write(&self, part: &Part) -> Result<()> {
        let file = Self::file(part);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        }
        fs::write(&file, self.json().to_string()).with_context(|| format!("write {}", file.display()))
    }

    fn json(&self) -> Value {
        let Self {
            commit,
            day,
            took,
            tally:
                Tally {
                    passed,
                    failed,
                    skipped,
                },
        } = self;
        json!({
            "commit": commit, "day": day, "seconds": took.as_secs(),
            "passed": passed, "failed": failed, "skipped": skipped,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> PartResult {
        PartResult {
            commit: "abc1234".to_owned(),
            day: "2026-11-22".to_owned(),
            took: Duration::from_secs(61),
            tally: Tally {
                passed: 3,
                failed: 0,
                skipped: 1,
            },
        }
    }

    #[test]
    fn stored_result_is_read_back() {
        assert_eq!(PartResult::parse(&last().json()), Some(last()));
        assert_eq!(PartResult::parse(&json!({"commit": "abc1234"})), None);
    }

    #[test]
    fn only_a_passed_run_of_the_same_clean_commit_counts() {
        assert!(last().has_passed_on("abc1234"));
        assert!(!last().has_passed_on("abc1235"));
        let mut failed = last();
        failed.tally.failed = 1;
        assert!(!failed.has_passed_on("abc1234"));
        let dirty = format!("abc1234{}", workspace::DIRTY);
        let changed = PartResult {
            commit: dirty.clone(),
            ..last()
        };
        assert!(!changed.has_passed_on(&dirty));
    }
}
