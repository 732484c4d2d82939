//! Pictures of the README, rendered from the journal.

use std::fs;

use anyhow::{Context as _, Result};
use xtask::workspace;

/// Journal page with the demo's last screen.
const DEMO: &str = "docs/journal/demo-and-set-up.md";
/// Start of the code block with the screen.
const BLOCK: &str = "```text\n";

/// Renders the demo's last screen as SVG.
pub(super) fn demo() -> Result<String> {
    let entry = fs::read_to_string(workspace::root().join(DEMO)).with_context(|| format!("read {DEMO}"))?;
    let screen = entry
        .split_once(BLOCK)
        .and_then(|(_, rest)| rest.split_once("```"))
        .map(|(screen, _)| screen)
        .with_context(|| format!("{DEMO} has no `text` code block"))?;
    Ok(headroom_plot::terminal(screen))
}
