//! Answers as text: tables for people, JSON for machines. Pure functions of what the webhook said.

mod json;
mod page;
mod table;

pub use self::{
    json::{node as node_json, report as report_json, row as row_json},
    page::Page,
    table::{hints as hints_table, lines as top_lines, top as top_table},
};

/// Reason codes on one line; `-` for none.
pub(crate) fn reasons(codes: &[String]) -> String {
    if codes.is_empty() {
        "-".to_owned()
    } else {
        codes.join(",")
    }
}

#[cfg(test)]
pub(crate) mod tests;
