//! Runs test programs, prints their output line by line, counts their tests and records the time of each test.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    ops::AddAssign,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result};

use super::tally::Tally;
use crate::{cpu_time, terminal::print};

/// The standard test harness tells times only where unstable options are on: this variable turns them on in it, as on a
/// nightly. Cargo and compilers that tests start must not see it; [`crate::workspace::cargo`] takes it away.
pub(crate) const UNSTABLE: &str = "RUSTC_BOOTSTRAP";
/// The options themselves.
const TIMES: [&str; 2] = ["-Zunstable-options", "--report-time"];

/// How one run of tests ended.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RunResult {
    pub(super) tally: Tally,
    /// Each test that took any time.
    pub(super) times: Vec<(String, Duration)>,
    /// CPU time of all tests and of what they started.
    pub(super) cpu: Duration,
}

impl AddAssign for RunResult {
    fn add_assign(&mut self, Self { tally, times, cpu }: Self) {
        self.cpu += cpu;
        self.tally += tally;
        self.times.extend(times);
    }
}

/// Runs a program that has the standard test harness.
pub(super) fn timed(mut program: Command, filter: Option<&str>, threads: Option<&str>) -> Result<RunResult> {
    program.env(UNSTABLE, "1").args(TIMES).args(filter);
    if let Some(threads) = threads {
        program.arg(format!("--test-threads={threads}"));
    }
    counted(&mut program)
}

/// Runs a command in whose output tests are told as the standard harness does it.
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
    }
    let (status, took) = cpu_time::wait(&mut child).with_context(|| format!("await {name}"))?;
    outcome.cpu = took;
    if !status.success() && outcome.tally.failed == 0 {
        // A test program that dies reports no failed test.
        print(format!(
            "{name} ended with {status} and no failed test: counted as one failure"
        ));
        outcome.tally.failed = 1;
    }
    Ok(outcome)
}

/// Name and time in `test a::b ... ok <0.123s>`.
fn time(line: &str) -> Option<(String, Duration)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let (_, time) = rest.rsplit_once('<')?;
    let seconds: f64 = time.trim_end().strip_suffix("s>")?.parse().ok()?;
    Some((name.to_owned(), Duration::try_from_secs_f64(seconds).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_counted_and_a_silent_death_is_a_failure() {
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
    fn times_are_read_where_the_harness_tells_them() {
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
    fn the_harness_of_this_toolchain_tells_times() {
        let mut own = Command::new(std::env::current_exe().expect("this program"));
        own.arg("--exact");
        let name = "suite::run::tests::times_are_read_where_the_harness_tells_them";
        let outcome = timed(own, Some(name), Some("1")).expect("run");
        assert_eq!((outcome.tally.passed, outcome.times.len()), (1, 1));
    }
}
