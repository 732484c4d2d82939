//! `hints`: the newest report of each agent.

use std::io::Write;

use serde_json::Value;

use crate::{args::Format, connect::Connection, error::Error, output, screen::Screen};

pub(crate) async fn hints<W: Write>(
    webhook: &mut Connection,
    node: Option<String>,
    format: Format,
    screen: &mut Screen<W>,
) -> Result<(), Error> {
    let nodes = webhook.list(node.as_deref()).await?;
    match format {
        Format::Table => screen.print(&output::hints_table(&nodes)),
        Format::Json => {
            let hints = nodes.iter().filter_map(|node| node.hint.as_ref());
            let reports: Value = hints.map(output::report_json).collect();
            screen.print(&format!("{reports:#}\n"))
        }
    }
}
