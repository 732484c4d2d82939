//! [`StoredConfig`]: the stored version of the ConfigMap, and how others are checked.

use headroom_rules::{slo::Data, switch::Switches};

/// What is known from the webhook besides nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredConfig {
    /// The stored version; `None` if there is none.
    pub data: Option<Data>,
    /// Its resource version; empty if there is none.
    pub version: String,
    /// Whether each entry needs a name.
    pub needs_names: bool,
    /// The switches in force, as far as this program knows them.
    pub switches: Switches,
}
