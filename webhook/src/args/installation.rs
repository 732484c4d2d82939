//! Flags of where the webhook lives and what the objects of its installation are called.

use std::env;

use headroom_domain::installation::{Installation, NameSuffix, Namespace};

/// Where the webhook lives.
#[derive(Debug, Clone, clap::Args)]
pub struct InstallationArgs {
    /// Namespace of the webhook, with its lease and Services; that of its pod by POD_NAMESPACE, unless given
    #[arg(long, env = "HEADROOM_NAMESPACE", value_name = "NAME", default_value_t = own_namespace())]
    pub namespace: Namespace,
    /// Namespace of the agents, which report with tokens of their account there
    #[arg(long, env = "HEADROOM_AGENT_NAMESPACE", value_name = "NAME", default_value_t = Installation::default().agent_namespace)]
    pub agent_namespace: Namespace,
    /// What the names of all objects of this installation end in, as in -b for headroom-webhook-b; a second installation in
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
}

impl InstallationArgs {
    /// The installation that the flags describe.
    pub fn get(&self) -> Installation {
        Installation {
            namespace: self.namespace.clone(),
            agent_namespace: self.agent_namespace.clone(),
            suffix: self.name_suffix.clone(),
        }
    }
}

/// What the downward API says; it says nothing that is no name.
fn own_namespace() -> Namespace {
    let said = env::var("POD_NAMESPACE").ok();
    let said = said.and_then(|text| text.parse().ok());
    said.unwrap_or_else(|| Installation::default().namespace)
}
