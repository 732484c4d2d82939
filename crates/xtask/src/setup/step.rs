//! Runs one long step of set-up: prints its progress, and writes its output to a log.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::{cpu_time, process::tail, terminal, workspace};

/// Interval of progress messages of a running step.
const REPORT: Duration = Duration::from_secs(10);
/// Interval of checks for the end of a step.
const POLL: Duration = Duration::from_millis(100);
/// Characters of the last output line in a progress message.
const WIDTH: usize = 90;

/// Runs the command to its end. Prints the elapsed time and the last line of output every 10 s; the complete output is in
/// `target/setup/NAME.log`.
///
/// # Errors
/// If the command cannot be started or fails; the message has the last 20 lines.
pub fn run(name: &str, command: &mut Command) -> Result<()> {
    let folder = workspace::target().join("setup");
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let log = folder.join(format!("{}.log", name.replace(' ', "-")));
    let output = File::create(&log).with_context(|| format!("write {}", log.display()))?;
    let errors = output.try_clone().context("share the log")?;
    let program = command.get_program().to_string_lossy().into_owned();
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .with_context(|| format!("start {program} for {name}"))?;
    let mut reported = start;
    let (status, took) = loop {
        if let Some(status) = cpu_time::try_wait(&mut child).with_context(|| format!("await {name}"))? {
            break status;
        }
        if reported.elapsed() >= REPORT {
            reported = Instant::now();
            terminal::print(format!(
                "  {:>12}  {name}: {}",
                terminal::span(start.elapsed()),
                last_line(&log)
            ));
        }
        thread::sleep(POLL);
    };
    if !status.success() {
        bail!("{name} failed ({status}); {}", tail(&log, 20));
    }
    terminal::print(format!(
        "  {:>12}  {name}: done, {} s of CPU time",
        terminal::span(start.elapsed()),
        took.as_secs()
    ));
    Ok(())
}

fn last_line(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    // Progress bars rewrite a line with carriage returns.
    let last = text
        .split(['\n', '\r'])
        .map(str::trim)
        .rfind(|line| !line.is_empty());
    last.unwrap_or("no output yet").chars().take(WIDTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_line_skips_empty_lines() {
        let folder = tempfile::tempdir().expect("folder");
        let log = folder.path().join("log");
        assert_eq!(last_line(&log), "no output yet");
        fs::write(&log, "one\n 10%\r 20%\r\n\n").expect("write");
        assert_eq!(last_line(&log), "20%");
    }

    #[test]
    fn error_names_the_log_and_has_its_end() {
        let mut command = Command::new("sh");
        let error = run("test-failure", command.args(["-c", "echo the cause; exit 3"]))
            .expect_err("fails")
            .to_string();
        assert!(
            error.contains("the cause") && error.contains("test-failure.log"),
            "{error}"
        );
    }
}
