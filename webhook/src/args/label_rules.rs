//! [`LabelRuleArgs`]: flags of the ConfigMap with the labels that pods must have, with Koordinator's names.

use clap::Args;
use headroom_domain::installation::{ConfigMapName, Namespace, ObjectName};

/// Which ConfigMap has the rules. It is followed, so how often it is read is no question.
#[derive(Debug, Clone, Args)]
pub struct LabelRuleArgs {
    /// Namespace of the ConfigMap with the labels that pods must have
    #[arg(long, env = "HEADROOM_POD_ENHANCED_VALIDATOR_CONFIG_NAMESPACE", value_name = "NAME", default_value_t = ConfigMapName::label_rules().namespace)]
    pub pod_enhanced_validator_config_namespace: Namespace,
    /// Name of that ConfigMap
    #[arg(long, env = "HEADROOM_POD_ENHANCED_VALIDATOR_CONFIG_NAME", value_name = "NAME", default_value_t = ConfigMapName::label_rules().name)]
    pub pod_enhanced_validator_config_name: ObjectName,
}

impl LabelRuleArgs {
    /// The ConfigMap that the flags name.
    pub fn config_map(&self) -> ConfigMapName {
        ConfigMapName {
            namespace: self.pod_enhanced_validator_config_namespace.clone(),
            name: self.pod_enhanced_validator_config_name.clone(),
        }
    }
}
