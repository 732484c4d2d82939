//! Renders checks, values and differences of Koordinator's ConfigMap. Pages are 80 columns wide, except for longer
//! words.

mod difference;
pub(super) mod lines;
mod node_config;
mod verdict;

use headroom_rules::slo::effective::EffectiveValue;
use serde_json::{Value, json};

pub(crate) use self::{difference::ConfigDifference, node_config::NodeConfig, verdict::Verdict};

/// A value for programs: as in the document, with its unit and source.
fn value_json(value: &EffectiveValue) -> Value {
    json!({"value": value.json(), "unit": value.unit(), "from": value.origin.to_string()})
}

#[cfg(test)]
mod tests;
