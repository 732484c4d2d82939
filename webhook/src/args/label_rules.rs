//! [`LabelRuleArgs`]: flags of the ConfigMap with the labels that pods must have, with Koordinator's names.

use clap::Args;
use headroom_domain::installation::{ConfigMapName, Namespace, ObjectName};

/// Flags that name the ConfigMap with the label rules. A watch follows it, so there is no poll interval.
#[derive(Debug, Clone, Args)]
pub struct LabelRuleArgs {
    /// Namespace of the ConfigMap with the labels that pods must have
    #[arg(long, env = "HEADROOM_POD_ENHANCED_VALIDATOR_CONFIG_NAMESPACE", value_name = "NAME", default_value_t = ConfigMapName::label_rules().namespace)]
    pub pod_enhanced_validator_config_namespace: Namespace,
    /// Name of the ConfigMap with the label rules
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
