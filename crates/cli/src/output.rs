//! Answers as text: tables for people, JSON for machines. Pure functions of what the webhook said.

pub mod agent;

mod advice;
mod explanation;
mod json;
mod numbers;
mod page;
mod restored;
mod table;

use std::borrow::Borrow;

pub use self::{
    explanation::{Explanation, json as explanation_json},
    json::{node as node_json, report as report_json, row as row_json},
    page::Page,
    restored::{Remains, Restored, traces},
    table::{hints as hints_table, lines as top_lines, top as top_table},
};

/// Reason codes on one line; `-` for none.
pub(crate) fn reasons<S: Borrow<str>>(codes: &[S]) -> String {
    if codes.is_empty() {
        "-".to_owned()
    } else {
        codes.join(",")
    }
}

#[cfg(test)]
pub(crate) mod tests;
