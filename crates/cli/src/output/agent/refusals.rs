//! Renders the programs that the kernel's verifier refused, each with the end of the verifier's log.

use headroom_proto::status::ProgramStatus;

use crate::output::{Layout, slo::lines::wrapped_at};

/// Limit of log lines in text output; the cause is among the last lines.
const LINES: usize = 8;

/// One part for each refused program; programs with the same log share a part. Empty if none was refused.
pub(super) fn render(programs: &[ProgramStatus], layout: Layout) -> String {
    let mut parts: Vec<(&str, Vec<&str>)> = Vec::new();
    for program in programs {
        let Some(log) = program.verifier_log.as_deref() else {
            continue;
        };
        let hook = program.hook.as_str();
        match parts.iter_mut().find(|(known, _)| *known == log) {
            Some((_, hooks)) => hooks.push(hook),
            None => parts.push((log, vec![hook])),
        }
    }
    parts
        .into_iter()
        .map(|(log, hooks)| part(log, &hooks, layout))
        .collect()
}

fn part(log: &str, hooks: &[&str], layout: Layout) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
    let sentence = format!(
        "the kernel's verifier refused the program for {}; end of its log (-o json has all of it):",
        hooks.join(", ")
    );
    let sentence = wrapped_at(layout.text_width(), 0, &sentence);
    format!("\n{sentence}  {}\n", last.join("\n  "))
}
