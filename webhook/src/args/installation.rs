//! Flags for the namespace of the webhook and the names of its installation's objects.

use std::env;

use headroom_domain::installation::{ConfigMapName, Installation, NameSuffix, Namespace, ObjectName};

#[derive(Debug, Clone, clap::Args)]
pub struct InstallationArgs {
    /// Namespace of the webhook, with its lease and Services; that of its pod by POD_NAMESPACE, unless given
    #[arg(long, env = "HEADROOM_NAMESPACE", value_name = "NAME", default_value_t = own_namespace())]
    pub namespace: Namespace,
    /// Namespace of the agents, which report with tokens of their account there
    #[arg(long, env = "HEADROOM_AGENT_NAMESPACE", value_name = "NAME", default_value_t = Installation::default().agent_namespace)]
    pub agent_namespace: Namespace,
    /// Suffix of the names of all objects of this installation, as -b in headroom-webhook-b; a second installation in
    /// a cluster needs one
    #[arg(
        long,
        env = "HEADROOM_NAME_SUFFIX",
        value_name = "SUFFIX",
        default_value_t,
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub name_suffix: NameSuffix,
    /// Namespace of Koordinator's ConfigMap
    #[arg(long, env = "HEADROOM_CONFIG_NAMESPACE", value_name = "NAME", default_value_t = ConfigMapName::default().namespace)]
    pub config_namespace: Namespace,
    /// Name of Koordinator's ConfigMap. Its key resource-amplification-config overrides the configuration file
    #[arg(long, env = "HEADROOM_SLO_CONFIG_NAME", value_name = "NAME", default_value_t = ConfigMapName::default().name)]
    pub slo_config_name: ObjectName,
}

impl InstallationArgs {
    /// The installation that the flags describe.
    pub fn get(&self) -> Installation {
        Installation {
            namespace: self.namespace.clone(),
            agent_namespace: self.agent_namespace.clone(),
            suffix: self.name_suffix.clone(),
            slo_config: ConfigMapName {
                namespace: self.config_namespace.clone(),
                name: self.slo_config_name.clone(),
            },
        }
    }
}

/// Namespace from the downward API; an invalid name is ignored.
fn own_namespace() -> Namespace {
    let said = env::var("POD_NAMESPACE").ok();
    let said = said.and_then(|text| text.parse().ok());
    said.unwrap_or_else(|| Installation::default().namespace)
}
