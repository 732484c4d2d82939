//! The latency probe: runs a short task that is due every 5 ms, and measures the time from due to done.

use std::{
    hint::black_box,
    io::{self, Write as _},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use clap::Args;
use headroom_testbed::workload::wait_for_start;

/// How often the task is due.
const EVERY: Duration = Duration::from_millis(5);
/// Steps of the task, each waiting for the one before: about a tenth of a millisecond.
const STEPS: u32 = 50_000;

/// A process of a pod that measures its own delays, and writes them as a JSON list of microseconds when it is done.
#[derive(Debug, Clone, Args)]
pub struct Probe {
    /// How long it measures, in milliseconds.
    #[arg(long)]
    milliseconds: u64,
}

impl Probe {
    /// The arguments of the process.
    pub(super) fn arguments(length: Duration) -> Vec<String> {
        vec![
            "probe".to_owned(),
            format!("--milliseconds={}", length.as_millis()),
        ]
    }

    /// Measures.
    ///
    /// # Errors
    /// If nobody says when to begin, or nobody reads what was measured.
    pub fn run(&self) -> Result<()> {
        wait_for_start()?;
        let late = late(Duration::from_millis(self.milliseconds));
        let text = serde_json::to_string(&late)?;
        writeln!(io::stdout(), "{text}").context("tell what was measured")
    }
}

/// What a probe has written.
///
/// # Errors
/// If it is no list of numbers.
pub(super) fn read(text: &str) -> Result<Vec<f64>> {
    serde_json::from_str(text).context("read what the probe measured")
}

/// How long after it was due each task was done, in microseconds. Tasks stay due when they were, so that one that comes
/// late delays those behind it, as it does the requests of a server.
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
