//! `explain NODE`: the rules that decide a node's allocatable, in order.

use std::io::Write;

use crate::{
    args::Format,
    connect::Connection,
    error::Error,
    output::{self, Explanation},
    screen::Screen,
};

pub(crate) async fn explain<W: Write>(
    webhook: &mut Connection,
    name: String,
    format: Format,
    screen: &mut Screen<W>,
) -> Result<(), Error> {
    let node = webhook.one(name).await?;
    match format {
        Format::Table => screen.print(&Explanation(&node).to_string()),
        Format::Json => screen.print(&format!("{:#}\n", output::explanation_json(&node))),
    }
}
