//! Pictures of the README, from what the journal has recorded.

use std::fs;

use anyhow::{Context as _, Result};
use xtask::workspace;

/// The entry that has the demo's last screen.
const DEMO: &str = "docs/journal/demo-and-set-up.md";
/// What the block with the screen begins with.
const BLOCK: &str = "```text\n";

/// The demo's last screen.
pub(super) fn demo() -> Result<String> {
    let entry = fs::read_to_string(workspace::root().join(DEMO)).with_context(|| format!("read {DEMO}"))?;
    let screen = entry
        .split_once(BLOCK)
        .and_then(|(_, rest)| rest.split_once("```"))
        .map(|(screen, _)| screen)
        .with_context(|| format!("{DEMO} has no block of text"))?;
    Ok(headroom_plot::terminal(screen))
}
