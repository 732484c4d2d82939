//! The latency probe: runs a short task that is due every 5 ms, and measures the time from its due time to its end.

use std::{
    hint::black_box,
    io::{self, Write as _},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use clap::Args;
use headroom_testbed::workload::wait_for_start;

const EVERY: Duration = Duration::from_millis(5);
/// Dependent steps of the task: about 0.1 ms.
const STEPS: u32 = 50_000;

/// Measures delays in a pod's cgroup and prints them as a JSON list of microseconds.
#[derive(Debug, Clone, Args)]
pub struct Probe {
    /// Length of the measurement in milliseconds.
    #[arg(long)]
    milliseconds: u64,
}

impl Probe {
    pub(super) fn arguments(length: Duration) -> Vec<String> {
        vec![
            "probe".to_owned(),
            format!("--milliseconds={}", length.as_millis()),
        ]
    }

    /// # Errors
    /// If the parent process does not start the measurement or does not read the result.
    pub fn run(&self) -> Result<()> {
        wait_for_start()?;
        let late = late(Duration::from_millis(self.milliseconds));
        let text = serde_json::to_string(&late)?;
        writeln!(io::stdout(), "{text}").context("cannot print the result")
    }
}

/// Parses the output of a probe.
///
/// # Errors
/// If it is no list of numbers.
pub(super) fn read(text: &str) -> Result<Vec<f64>> {
    serde_json::from_str(text).context("cannot parse the output of the probe")
}

/// Time from due time to end of each task, in microseconds. Due times are fixed, so a late task delays those after
/// it, like requests of a server.
fn late(length: Duration) -> Vec<f64> {
    let began = Instant::now();
    let mut late = Vec::new();
    let mut due = began + EVERY;
    while due <= began + length {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        task();
        late.push(due.elapsed().as_secs_f64() * 1e6);
        due += EVERY;
    }
    late
}

fn task() {
    let mut state: u64 = 1;
    for _ in 0..STEPS {
        state = black_box(state.rotate_left(5) ^ 0x9e37_79b9);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_task_that_is_due_is_measured() {
        let late = late(EVERY * 4);
        assert!(late.len() == 4 && late.iter().all(|late| *late > 0.0), "{late:?}");
    }

    #[test]
    fn what_a_probe_writes_reads_back() {
        let text = serde_json::to_string(&[1.5, 20.0]).unwrap();
        assert_eq!(read(&format!("{text}\n")).unwrap(), [1.5, 20.0]);
        assert!(read("[1, null]").is_err());
    }
}
