//! Runs test programs, prints their output line by line, counts their tests and records the time of each test.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    ops::AddAssign,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result};

use super::tally::Tally;
use crate::{cpu_time, terminal::print, workspace::UNSTABLE};

/// Unstable options of the test harness that print the time of each test; [`UNSTABLE`] enables them on stable Rust.
const TIMES: [&str; 2] = ["-Zunstable-options", "--report-time"];

/// Result of one run of tests.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RunResult {
    pub(super) tally: Tally,
    /// Time of each test that the harness reported.
    pub(super) times: Vec<(String, Duration)>,
    /// CPU time of all tests and of their child processes.
    pub(super) cpu: Duration,
    /// Names of the failed tests.
    pub(super) failures: Vec<String>,
}

impl AddAssign for RunResult {
    fn add_assign(
        &mut self,
        Self {
            tally,
            times,
            cpu,
            failures,
        }: Self,
    ) {
        self.cpu += cpu;
        self.tally += tally;
        self.times.extend(times);
        self.failures.extend(failures);
    }
}

/// Runs a program with the standard test harness, and records the time of each test.
pub(super) fn timed(mut program: Command, filter: Option<&str>, threads: Option<&str>) -> Result<RunResult> {
    program.env(UNSTABLE, "1").args(TIMES).args(filter);
    if let Some(threads) = threads {
        program.arg(format!("--test-threads={threads}"));
    }
    counted(&mut program)
}

/// Runs a command that prints test results like the standard harness.
pub(super) fn counted(command: &mut Command) -> Result<RunResult> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {name}"))?;
    let output = child.stdout.take().context("read the output of tests")?;
    let mut outcome = RunResult::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("read the output of tests")?;
        let line = String::from_utf8_lossy(&line);
        writeln!(io::stdout(), "{line}").context("pass on the output of tests")?;
        outcome.tally += Tally::parse(&line).unwrap_or_default();
        outcome.times.extend(time(&line));
        outcome.failures.extend(failure(&line));
    }
    let (status, took) = cpu_time::wait(&mut child).with_context(|| format!("await {name}"))?;
    outcome.cpu = took;
    if !status.success() && outcome.tally.failed == 0 {
        // A test program that dies reports no failed test.
        print(format!(
            "{name} ended with {status} and no failed test: counted as one failure"
        ));
        outcome.tally.failed = 1;
        outcome.failures.push(name);
    }
    Ok(outcome)
}

/// Parses name and time of `test a::b ... ok <0.123s>`.
fn time(line: &str) -> Option<(String, Duration)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let (_, time) = rest.rsplit_once('<')?;
    let seconds: f64 = time.trim_end().strip_suffix("s>")?.parse().ok()?;
    Some((name.to_owned(), Duration::try_from_secs_f64(seconds).ok()?))
}

/// Parses the name of `test a::b ... FAILED`.
fn failure(line: &str) -> Option<String> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    rest.starts_with("FAILED").then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_failed_tests_are_parsed() {
        assert_eq!(failure("test c ... FAILED <61.000s>"), Some("c".to_owned()));
        assert_eq!(failure("test c ... FAILED"), Some("c".to_owned()));
        assert_eq!(failure("test c ... ok <0.250s>"), None);
        assert_eq!(failure("test result: FAILED. 2 passed; 1 failed"), None);
    }

    #[test]
    fn crash_without_failed_tests_counts_as_one_failure() {
        let run = |script: &str| counted(Command::new("sh").args(["-c", script])).expect("run");
        let good = "echo 'test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out'";
        assert_eq!(
            run(good).tally,
            Tally {
                passed: 2,
                failed: 0,
                skipped: 1
            }
        );
        assert_eq!(
            run("exit 101").tally,
            Tally {
                passed: 0,
                failed: 1,
                skipped: 0
            }
        );
    }

    #[test]
    fn test_times_are_parsed() {
        assert_eq!(
            time("test a::b ... ok <0.250s>"),
            Some(("a::b".to_owned(), Duration::from_millis(250)))
        );
        let failed = time("test c ... FAILED <61.000s>");
        assert_eq!(failed, Some(("c".to_owned(), Duration::from_secs(61))));
        assert_eq!(time("test d ... ignored"), None);
        assert_eq!(time("running 3 tests"), None);
    }

    #[test]
    fn harness_of_this_toolchain_reports_times() {
        let mut own = Command::new(std::env::current_exe().expect("this program"));
        own.arg("--exact");
        let name = "suite::run::tests::test_times_are_parsed";
        let outcome = timed(own, Some(name), Some("1")).expect("run");
        assert_eq!((outcome.tally.passed, outcome.times.len()), (1, 1));
    }
}
