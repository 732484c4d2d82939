//! `config`: checks a version of Koordinator's ConfigMap, explains its values for a node, and compares two versions.

mod check;
mod diff;
mod explain;
mod source;

use std::io::Write;

use clap::Subcommand;
use headroom_domain::installation::{ConfigMapName, Namespace, ObjectName};

use super::Session;
use crate::error::Error;

/// Check and explain a version of Koordinator's ConfigMap before it is stored.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Files are YAML or JSON as kubectl prints them; `-` is standard input. If a file has several objects, the ConfigMap with the given
name is used. The rules are those of the webhook's endpoint /validate-configmap.

Examples:
  # Before it is applied: offline, and against the cluster
  kubectl headroom config check slo-controller-config.yaml
  kubectl headroom config check slo-controller-config.yaml --online

  # Values of this node, each with its source
  kubectl headroom config explain worker-1 --key colocation-config

  # Nodes whose values would change
  kubectl headroom config diff slo-controller-config.yaml")]
pub(crate) struct ConfigArgs {
    /// Name of the ConfigMap.
    #[command(flatten)]
    config_map: ConfigMapArgs,
    /// Question about the ConfigMap.
    #[command(subcommand)]
    question: ConfigQuestion,
}

/// Question about the ConfigMap.
#[derive(Debug, Clone, Subcommand)]
enum ConfigQuestion {
    Check(check::CheckArgs),
    Explain(explain::ExplainConfigArgs),
    Diff(diff::DiffArgs),
}

/// Namespace and name of Koordinator's ConfigMap.
#[derive(Debug, Clone, clap::Args)]
struct ConfigMapArgs {
    /// Namespace of Koordinator's ConfigMap.
    #[arg(
        long,
        global = true,
        env = "HEADROOM_CONFIG_NAMESPACE",
        value_name = "NAME",
        default_value_t = ConfigMapName::default().namespace
    )]
    config_namespace: Namespace,
    /// Name of Koordinator's ConfigMap.
    #[arg(
        long,
        global = true,
        env = "HEADROOM_SLO_CONFIG_NAME",
        value_name = "NAME",
        default_value_t = ConfigMapName::default().name
    )]
    slo_config_name: ObjectName,
}

impl ConfigArgs {
    pub(super) async fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        let Self {
            config_map:
                ConfigMapArgs {
                    config_namespace,
                    slo_config_name,
                },
            question,
        } = self;
        let config_map = ConfigMapName {
            namespace: config_namespace,
            name: slo_config_name,
        };
        match question {
            ConfigQuestion::Check(args) => args.run(&config_map, session).await,
            ConfigQuestion::Explain(args) => args.run(&config_map, session).await,
            ConfigQuestion::Diff(args) => args.run(&config_map, session).await,
        }
    }
}
