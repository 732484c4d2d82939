//! [`StoredConfig`]: stored version of the ConfigMap, and the webhook's settings for its checks.

use headroom_rules::{slo::Data, switch::Switches};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredConfig {
    /// Stored version; `None` if the ConfigMap does not exist.
    pub data: Option<Data>,
    /// `resourceVersion`; empty if the ConfigMap does not exist.
    pub version: String,
    /// True if each entry must have a name.
    pub needs_names: bool,
    /// Switches in force, as far as this program knows them.
    pub switches: Switches,
}
