//! Counts passed, failed and skipped tests, and prints the summary, the slowest tests and the failed ones.

use std::{
    io::{self, Write as _},
    ops::AddAssign,
    time::Duration,
};

use crate::terminal::span;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) passed: u32,
    pub(super) failed: u32,
    /// Ignored tests, plus one for each kind that could not run.
    pub(super) skipped: u32,
}

/// One line of the summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    name: String,
    time: Duration,
    cpu: Option<Duration>,
    tally: Tally,
}

impl Tally {
    /// Parses a line like `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |word: &str| {
            let (number, _) = counts
                .split("; ")
                .find_map(|part| part.split_once(' ').filter(|(_, of)| *of == word))?;
            number.parse().ok()
        };
        Some(Self {
            passed: count("passed")?,
            failed: count("failed")?,
            skipped: count("ignored")?,
        })
    }
}

impl AddAssign for Tally {
    fn add_assign(
        &mut self,
        Self {
            passed,
            failed,
            skipped,
        }: Self,
    ) {
        self.passed += passed;
        self.failed += failed;
        self.skipped += skipped;
    }
}

impl Row {
    pub(super) fn new(name: &str, time: Duration, tally: Tally) -> Self {
        let name = name.to_owned();
        Self {
            name,
            time,
            cpu: None,
            tally,
        }
    }

    pub(super) fn with_cpu(self, cpu: Duration) -> Self {
        Self {
            cpu: Some(cpu),
            ..self
        }
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }
}

/// Number of slowest tests that are printed.
const SLOWEST: usize = 10;

/// Prints the slowest tests, slowest first.
pub(super) fn print_slowest(times: Vec<(String, Duration)>) -> io::Result<()> {
    write!(io::stdout(), "{}", slowest(times))
}

fn slowest(mut times: Vec<(String, Duration)>) -> String {
    times.sort_by(|(_, left), (_, right)| right.cmp(left));
    times.truncate(SLOWEST);
    let lines = times
        .iter()
        .map(|(name, time)| format!("{:>7.1} s  {name}\n", time.as_secs_f64()));
    let lines: String = lines.collect();
    if lines.is_empty() {
        lines
    } else {
        format!("\nslowest tests\n{lines}")
    }
}

/// Prints the names of the failed tests: their output may be thousands of lines above.
pub(super) fn print_failed(names: &[String]) -> io::Result<()> {
    write!(io::stdout(), "{}", failed(names))
}

fn failed(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    format!("\nfailed tests\n  {}\n", names.join("\n  "))
}

/// Prints the rows and, last, their sum.
pub(super) fn print(rows: &[Row]) -> io::Result<()> {
    write!(io::stdout(), "{}", summary(rows))
}

fn summary(rows: &[Row]) -> String {
    let mut sum = Tally::default();
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max(10);
    let line = |[name, passed, failed, skipped, time, cpu]: [&str; 6]| {
        let line = format!("{name:<width$} {passed:>7} {failed:>7} {skipped:>8} {time:>13} {cpu:>13}");
        line.trim_end().to_owned()
    };
    let mut lines = vec![
        String::new(),
        line(["kind", "passed", "failed", "skipped", "time", "CPU time"]),
    ];
    for Row {
        name,
        time,
        cpu,
        tally,
    } in rows
    {
        sum += *tally;
        let Tally {
            passed,
            failed,
            skipped,
        } = tally;
        lines.push(line([
            name,
            &passed.to_string(),
            &failed.to_string(),
            &skipped.to_string(),
            &span(*time),
            &cpu.map_or_else(String::new, span),
        ]));
    }
    let Tally {
        passed,
        failed,
        skipped,
    } = sum;
    let rest = if skipped > 0 {
        format!(", {skipped} skipped")
    } else {
        String::new()
    };
    lines.push(format!("{passed} passed, {failed} failed{rest}\n"));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_result_lines_are_parsed() {
        let line = "test result: FAILED. 7 passed; 2 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s";
        assert_eq!(
            Tally::parse(line),
            Some(Tally {
                passed: 7,
                failed: 2,
                skipped: 1
            })
        );
        assert_eq!(Tally::parse("test a_test ... ok"), None);
        assert_eq!(Tally::parse("test result: ok. nonsense"), None);
    }

    #[test]
    fn last_line_of_the_summary_is_the_sum() {
        let rows = [
            Row::new(
                "unit",
                Duration::from_secs(65),
                Tally {
                    passed: 300,
                    failed: 0,
                    skipped: 0,
                },
            ),
            Row::new(
                "kernel",
                Duration::from_secs(5),
                Tally {
                    passed: 4,
                    failed: 1,
                    skipped: 0,
                },
            )
            .with_cpu(Duration::from_secs(61)),
        ];
        let text = summary(&rows);
        assert!(
            text.contains("kernel           4       1        0           5 s    1 min 01 s\n"),
            "{text}"
        );
        assert!(
            text.contains("unit           300       0        0    1 min 05 s\n"),
            "{text}"
        );
        assert!(text.ends_with("\n304 passed, 1 failed\n"), "{text}");
    }

    #[test]
    fn ten_slowest_tests_are_listed_slowest_first() {
        let times = (1..=12).map(|n| (format!("t{n}"), Duration::from_secs(n)));
        let text = slowest(times.collect());
        assert!(
            text.starts_with("\nslowest tests\n   12.0 s  t12\n   11.0 s  t11\n"),
            "{text}"
        );
        assert!(text.ends_with("    3.0 s  t3\n"), "{text}");
        assert_eq!(slowest(Vec::new()), "");
        let names = ["a::b".to_owned(), "c".to_owned()];
        assert_eq!(failed(&names), "\nfailed tests\n  a::b\n  c\n");
        assert_eq!(failed(&[]), "");
    }

    #[test]
    fn sum_mentions_skipped_tests_only_if_there_are_any() {
        let rows = [Row::new(
            "unit",
            Duration::ZERO,
            Tally {
                passed: 1,
                failed: 0,
                skipped: 2,
            },
        )];
        assert!(summary(&rows).ends_with("\n1 passed, 0 failed, 2 skipped\n"));
    }
}
