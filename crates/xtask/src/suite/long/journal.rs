//! Writes the journal's page of long runs: the last result of each part.

use std::fs;

use anyhow::{Context as _, Result};

use super::{Part, PartResult};
use crate::{suite::tally::Tally, terminal::span, workspace};

/// Path of the page, relative to the workspace root.
pub(super) const PAGE: &str = "docs/journal/long-runs.md";

/// Rewrites the page. A part without a result on this machine keeps its row.
pub(super) fn write(results: &[(&Part, PartResult)]) -> Result<()> {
    let path = workspace::root().join(PAGE);
    let before = fs::read_to_string(&path).unwrap_or_default();
    fs::write(&path, page(&before, results)).with_context(|| format!("write {}", path.display()))
}

fn page(before: &str, results: &[(&Part, PartResult)]) -> String {
    let mut page = "# Long runs\n\nThe last result of each part of `cargo xtask test --long`, which writes this page. A part that \
                    was interrupted or has failed\nruns again next time. A part that has passed on the same commit is skipped.\n\n\
                    | part | what | commit | day | took | passed | failed | skipped |\n|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    let is_new = |row: &str| results.iter().any(|(part, _)| row.starts_with(&start(part)));
    let kept = before
        .lines()
        .skip_while(|line| !line.starts_with("|---"))
        .skip(1);
    let kept = kept
        .filter(|row| row.starts_with("| ") && !is_new(row))
        .map(str::to_owned);
    let mut rows: Vec<String> = results
        .iter()
        .map(|(part, last)| row(part, last))
        .chain(kept)
        .collect();
    rows.sort();
    page += &rows.join("\n");
    page + "\n"
}

fn start(part: &Part) -> String {
    format!("| {} |", part.name)
}

fn row(part: &Part, last: &PartResult) -> String {
    let PartResult {
        commit,
        day,
        took,
        tally: Tally {
            passed,
            failed,
            skipped,
        },
    } = last;
    let took = span(*took);
    format!(
        "{} {} | {commit} | {day} | {took} | {passed} | {failed} | {skipped} |",
        start(part),
        part.about
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::suite::long::PARTS;

    #[test]
    fn new_result_replaces_only_its_own_row() {
        let [first, second, ..] = &PARTS;
        let last = |commit: &str| PartResult {
            commit: commit.to_owned(),
            day: "2026-11-22".to_owned(),
            took: Duration::from_secs(61),
            tally: Tally::default(),
        };
        let before = page("", &[(first, last("one")), (second, last("one"))]);
        let after = page(&before, &[(first, last("two"))]);
        assert!(after.contains(&row(first, &last("two"))) && !after.contains(&row(first, &last("one"))));
        assert!(after.contains(&row(second, &last("one"))), "{after}");
        assert_eq!(page(&after, &[]), after);
    }
}
