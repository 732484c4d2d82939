//! `node NAME`: everything about one node.

use std::io::Write;

use crate::{
    args::Format,
    connect::Connection,
    error::Error,
    output::{self, Page},
    screen::Screen,
};

pub(crate) async fn node<W: Write>(
    webhook: &mut Connection,
    name: String,
    format: Format,
    screen: &mut Screen<W>,
) -> Result<(), Error> {
    let node = webhook.one(name).await?;
    match format {
        Format::Table => screen.print(&Page(&node).to_string()),
        Format::Json => screen.print(&format!("{:#}\n", output::node_json(&node))),
    }
}
