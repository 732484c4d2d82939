//! Output that several commands share: tables for people and JSON for programs, as pure functions of the data.

pub mod agent;

mod advice;
mod findings;
mod json;
mod nodes;
mod numbers;
pub(crate) mod page;
pub(crate) mod pod;
pub(crate) mod quota;
mod reports;
pub(crate) mod slo;
mod table;
mod verdict;

pub use self::{
    findings::{leading_lines, with_findings},
    json::{report as report_json, row as row_json},
    nodes::{line as top_line, top as top_table},
    reports::{hint_line, hints as hints_table},
    table::Layout,
};
pub(crate) use self::{
    json::{measured as measured_json, members as row_members, policy as policy_json},
    numbers::{derivation_json, words},
    table::{Cell, Column, Table},
    verdict::NodeVerdict,
};

#[cfg(test)]
pub(crate) mod tests;
