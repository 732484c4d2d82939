//! Koordinator's configuration of all nodes, the ConfigMap `slo-controller-config`: its members, its parser, and the
//! checks of a version.
//!
//! ```text
//! text under a key --json--> tree --decode, by the rows of the table--> Document --+--> check: errors, warnings
//!                                                                                 '--> users of the configuration
//! ```
//!
//! Users of a key read it with the same function that decides whether the key may be stored.

mod advice;
pub mod amplification;
mod bandwidth;
mod check;
mod conflict;
mod cpu_product;
pub mod decode;
pub mod difference;
pub mod document;
pub mod documents;
pub mod effective;
mod entries;
pub mod envelope;
pub mod expected;
mod findings;
pub mod json;
mod key_check;
pub mod nearest;
mod overlap;
mod ranges;
pub mod report;
mod samples;
pub mod schema;
pub mod strategies;
pub mod switches;
pub mod table;
pub mod version;

pub use self::{
    check::check,
    report::{CheckSettings as Settings, Nodes, Report, Target},
};

/// `data` of a ConfigMap: text by key.
pub type Data = std::collections::BTreeMap<String, String>;

#[cfg(test)]
mod tests;
