//! Pictures of the README, rendered from the journal.

use std::fs;

use anyhow::{Context as _, Result, bail};
use headroom_plot::{Bars, Row};
use xtask::workspace;

/// Journal page with the demo's last screen.
const DEMO: &str = "docs/journal/demo-and-set-up.md";
/// Start of the code block with the screen.
const BLOCK: &str = "```text\n";
/// Journal page with a simulated fleet before and after.
const FLEET: &str = "docs/journal/margin-calibration.md";
/// Head of the table of the fleet.
const FLEET_HEAD: &str = "| of the fleet | raw | auto |\n|---|---|---|\n";

/// Renders the demo's last screen as SVG.
pub(super) fn demo() -> Result<String> {
    let entry = read(DEMO)?;
    let screen = entry
        .split_once(BLOCK)
        .and_then(|(_, rest)| rest.split_once("```"))
        .map(|(screen, _)| screen)
        .with_context(|| format!("{DEMO} has no `text` code block"))?;
    Ok(headroom_plot::terminal(screen))
}

/// Renders the table of the fleet as a bar chart.
pub(super) fn fleet() -> Result<String> {
    let entry = read(FLEET)?;
    let (_, rest) = entry
        .split_once(FLEET_HEAD)
        .with_context(|| format!("{FLEET} has no table {FLEET_HEAD:?}"))?;
    let rows = rest.lines().take_while(|line| line.starts_with('|'));
    let bars = Bars {
        x: "per cent, or nodes of 100",
        series: vec!["raw Kubernetes", "Headroom, mode auto"],
        rows: rows.map(fleet_row).collect::<Result<_>>()?,
    };
    Ok(headroom_plot::picture(&bars.svg()))
}

/// Converts a row of the table: a name, and an amount with its unit for each series.
fn fleet_row(line: &str) -> Result<Row> {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [name, amounts @ ..] = cells.as_slice() else {
        bail!("{FLEET}: no cells in {line:?}");
    };
    let bar = |text: &&str| -> Result<(f64, String)> {
        let number = text.split(' ').next().unwrap_or_default();
        let value = number
            .parse()
            .with_context(|| format!("{FLEET}: {text:?} does not begin with a number"))?;
        Ok((value, (*text).to_owned()))
    };
    Ok(Row {
        name: (*name).to_owned(),
        bars: amounts.iter().map(bar).collect::<Result<_>>()?,
    })
}

fn read(page: &str) -> Result<String> {
    fs::read_to_string(workspace::root().join(page)).with_context(|| format!("read {page}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_of_the_fleet_needs_a_number_in_each_cell() {
        let row = fleet_row("| nodes | 100 nodes | 79.8 nodes |").unwrap();
        assert_eq!(row.name, "nodes");
        assert_eq!(
            row.bars,
            [(100.0, "100 nodes".to_owned()), (79.8, "79.8 nodes".to_owned())]
        );
        let refused = fleet_row("| nodes | 100 nodes | fewer |")
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("\"fewer\" does not begin with a number"),
            "{refused}"
        );
    }
}
