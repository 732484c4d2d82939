//! Renders what is said of Koordinator's ConfigMap: verdicts, what a node gets, and differences. Pages are 80 columns wide
//! as long as words are shorter.

mod difference;
pub(super) mod lines;
mod node_config;
mod verdict;

use headroom_rules::slo::effective::EffectiveValue;
use serde_json::{Value, json};

pub(crate) use self::{difference::ConfigDifference, node_config::NodeConfig, verdict::Verdict};

/// A value for machines: as in the document, with its unit and its origin.
fn value_json(value: &EffectiveValue) -> Value {
    json!({"value": value.json(), "unit": value.unit(), "from": value.origin.to_string()})
}

#[cfg(test)]
mod tests;
