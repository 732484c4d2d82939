//! Prints the demo: a table that redraws itself on a terminal, lines or JSON elsewhere, and the checks at the end.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Result;
use comfy_table::{Table, presets};
use rustix::termios::tcgetwinsize;

use super::{
    snapshot::Snapshot,
    story::{
        Event, Phase,
        checks::{Check, Outcome},
    },
    wrap::{rows, wrap, wrap_hints},
};

/// Output format of the demo.
#[derive(Debug)]
pub(super) enum View {
    /// One JSON line per change.
    Json,
    /// A table that redraws itself, with all events below it.
    Live {
        /// Terminal rows of the last table, which the next one overwrites.
        drawn: usize,
        /// Lines of all events, newest last.
        log: Vec<String>,
    },
    /// A line per event and per second.
    Plain {
        /// True once the headings are printed.
        is_headed: bool,
    },
}

impl View {
    /// JSON if `is_json`, else a live table on a terminal, else lines.
    pub(super) fn new(is_json: bool) -> Self {
        if is_json {
            Self::Json
        } else if io::stdout().is_terminal() {
            Self::Live {
                drawn: 0,
                log: Vec::new(),
            }
        } else {
            Self::Plain { is_headed: false }
        }
    }

    /// Prints a message outside the table; with JSON output, to standard error.
    pub(super) fn print(&mut self, text: &str) -> Result<()> {
        match self {
            Self::Json => writeln!(io::stderr(), "{text}")?,
            Self::Live { drawn, .. } => {
                writeln!(io::stdout(), "{}", wrap_hints(text, columns()))?;
                // The message stays visible: the next table is drawn below it.
                *drawn = 0;
            }
            Self::Plain { .. } => writeln!(io::stdout(), "{text}")?,
        }
        Ok(())
    }

    /// Shows a snapshot and its events.
    pub(super) fn show(&mut self, now: &Snapshot, phase: Phase, events: &[Event]) -> Result<()> {
        let mut out = io::stdout().lock();
        match self {
            Self::Json => {
                let words = events.iter().map(|event| event.word());
                let words = if events.is_empty() {
                    vec!["change"]
                } else {
                    words.collect()
                };
                for word in words {
                    writeln!(out, "{}", serde_json::to_string(&now.line(word))?)?;
                }
            }
            Self::Live { drawn, log } => {
                log.extend(events.iter().map(|event| event_text(now, *event)));
                let columns = columns();
                let text = wrap(&screen(now, phase, log), columns);
                if *drawn > 0 {
                    write!(out, "\x1b[{drawn}A\x1b[J")?;
                }
                write!(out, "{text}")?;
                *drawn = rows(&text, columns);
            }
            Self::Plain { is_headed } => {
                if !*is_headed {
                    writeln!(out, "{}", HEADINGS.join("  "))?;
                    *is_headed = true;
                }
                for event in events {
                    writeln!(out, "{}", event_text(now, *event))?;
                }
                writeln!(out, "{}", row(now).join("  "))?;
            }
        }
        out.flush()?;
        Ok(())
    }

    /// Prints the outcome of each check.
    pub(super) fn conclude(&mut self, checks: &[Check]) -> Result<()> {
        for Check { claim, outcome } in checks {
            let line = match outcome {
                Outcome::Held(seen) => format!("ok    {claim}: {seen}"),
                Outcome::Failed(seen) => format!("FAIL  {claim}: {seen}"),
                Outcome::Skipped(seen) => format!("-     {claim}: skipped: {seen}"),
            };
            self.print(&line)?;
        }
        Ok(())
    }
}

/// Columns of a terminal of unknown size.
const DEFAULT_COLUMNS: u16 = 80;

/// Present columns of standard output.
fn columns() -> usize {
    let size = tcgetwinsize(io::stdout()).ok();
    let columns = size.map(|size| size.ws_col).filter(|columns| *columns > 0);
    usize::from(columns.unwrap_or(DEFAULT_COLUMNS))
}

/// Formats an event with its time.
fn event_text(now: &Snapshot, event: Event) -> String {
    let free = now.free_cpu();
    let what = match event {
        Event::NodeReady => format!(
            "node is Ready, raw allocatable {}",
            milli(now.raw.cpu.max(now.allocatable.cpu))
        ),
        Event::Refused => "scheduler rejects the pending pods: Insufficient cpu".to_owned(),
        Event::Risen => format!("CPU ratio is {}", ratio(now.ratio.cpu)),
        Event::Admitted => format!(
            "pending pods are scheduled: {} bound on {} raw",
            milli(now.bound_cpu),
            milli(now.raw.cpu)
        ),
        Event::LoadStart => format!("real load starts, {} free", milli(free)),
        Event::Saturated => "first second with saturated CPUs".to_owned(),
        Event::Taken => format!(
            "{} free, brake {}, no bound pod is affected",
            milli(free),
            now.brake
        ),
        Event::LoadEnd => "load ends".to_owned(),
        Event::Recovered => format!("{} free again", milli(free)),
    };
    format!(
        "{:>6.1} s  {what}",
        f64::from(u32::try_from(now.at_ms).unwrap_or(u32::MAX)) / 1000.0
    )
}

const HEADINGS: [&str; 13] = [
    "t",
    "node",
    "source",
    "cpu used",
    "truth",
    "peak",
    "memory",
    "ratio",
    "allocatable raw -> now",
    "bound",
    "free",
    "pending",
    "brake",
];

fn row(now: &Snapshot) -> Vec<String> {
    vec![
        format!(
            "{:.1} s",
            f64::from(u32::try_from(now.at_ms).unwrap_or(u32::MAX)) / 1000.0
        ),
        now.node.clone(),
        now.source.clone(),
        milli(now.cpu_used),
        milli(now.cpu_truth),
        milli(now.cpu_predicted),
        gib(now.memory_used),
        format!("{} / {}", ratio(now.ratio.cpu), ratio(now.ratio.memory)),
        format!("{} -> {}", milli(now.raw.cpu), milli(now.allocatable.cpu)),
        milli(now.bound_cpu),
        milli(now.free_cpu()),
        now.pending.to_string(),
        format!("{} {}", now.brake, now.reason),
    ]
}

/// Columns of each table: measurements, results, reasons. Each table fits into 80 characters.
const BLOCKS: [usize; 3] = [7, 5, 1];

/// The screen of the live view.
fn screen(now: &Snapshot, phase: Phase, log: &[String]) -> String {
    let (mut headings, mut cells) = (HEADINGS.iter(), row(now).into_iter());
    let mut text = format!(
        "\n{}\ntiming profile demo: 1 s counts as 5 min\n\n",
        phase.sentence()
    );
    for columns in BLOCKS {
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_header(headings.by_ref().take(columns))
            .add_row(cells.by_ref().take(columns));
        text += &table.trim_fmt();
        text += "\n\n";
    }
    for line in log {
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn milli(value: u64) -> String {
    format!("{value}m")
}

fn ratio(cents: u64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// Formats bytes as GiB with one decimal, rounded down.
fn gib(bytes: u64) -> String {
    let tenths = bytes / ((1 << 30) / 10);
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn screen_has_one_cell_per_heading_and_fits_80_columns() {
        let now = Snapshot {
            at_ms: 12_345,
            cpu_used: 310,
            ..Snapshot::default()
        };
        assert_eq!(row(&now).len(), HEADINGS.len());
        let text = screen(&now, Phase::Load, &["happened".to_owned()]);
        assert!(
            text.contains("12.3 s") && text.contains("310m") && text.ends_with("happened\n"),
            "{text}"
        );
        assert_eq!(BLOCKS.iter().sum::<usize>(), HEADINGS.len());
        assert!(text.lines().all(|line| line.chars().count() < 80), "{text}");
    }

    #[test]
    fn json_line_has_all_keys_with_units() {
        let now = Snapshot::default();
        let value: serde_json::Value = serde_json::to_value(now.line("change")).unwrap();
        for key in [
            "t_s",
            "event",
            "node",
            "mode",
            "source",
            "cpu_used_milli",
            "cpu_peak_milli",
            "mem_used_bytes",
            "ratio_cpu_cents",
            "ratio_mem_cents",
            "raw_cpu_milli",
            "allocatable_cpu_milli",
            "raw_mem_bytes",
            "allocatable_mem_bytes",
            "bound_cpu_milli",
            "pending_pods",
            "brake",
            "reason",
            "prog_runs",
            "cpu_truth_milli",
            "resource_version",
        ] {
            assert!(value.get(key).is_some(), "{key} is missing");
        }
        assert_eq!(value.as_object().unwrap().len(), 21);
    }
}
