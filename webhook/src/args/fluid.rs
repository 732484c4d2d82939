//! [`FluidArgs`]: flags of the ConfigMap with the plugins of Fluid's webhook.

use clap::Args;
use headroom_domain::installation::{ConfigMapName, Namespace, ObjectName};

/// Flags that name Fluid's ConfigMap. A watch follows it, so a change needs no restart.
#[derive(Debug, Clone, Args)]
pub struct FluidArgs {
    /// Namespace of Fluid's ConfigMap with the plugins for pods
    #[arg(long, env = "HEADROOM_FLUID_PLUGINS_NAMESPACE", value_name = "NAME", default_value_t = ConfigMapName::fluid_plugins().namespace)]
    pub fluid_plugins_namespace: Namespace,
    /// Name of Fluid's ConfigMap with the plugins for pods
    #[arg(long, env = "HEADROOM_FLUID_PLUGINS_NAME", value_name = "NAME", default_value_t = ConfigMapName::fluid_plugins().name)]
    pub fluid_plugins_name: ObjectName,
}

impl FluidArgs {
    /// The ConfigMap that the flags name.
    pub fn config_map(&self) -> ConfigMapName {
        ConfigMapName {
            namespace: self.fluid_plugins_namespace.clone(),
            name: self.fluid_plugins_name.clone(),
        }
    }
}
