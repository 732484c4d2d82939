//! `config`: checks a version of Koordinator's ConfigMap, explains what a node gets of it, and compares two.

mod check;
mod diff;
mod explain;
mod source;

use std::io::Write;

use clap::Subcommand;
use headroom_domain::installation::{ConfigMapName, Namespace, ObjectName};

use super::Session;
use crate::error::Error;

/// What a version of Koordinator's ConfigMap means, before it is stored.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Files are YAML or JSON as kubectl prints and takes them, `-` is standard input; of several objects the ConfigMap of that name
is read. The rules are those of the webhook's /validate-configmap.

Examples:
  # Before it is written: offline, and against the cluster
  kubectl headroom config check slo-controller-config.yaml
  kubectl headroom config check slo-controller-config.yaml --online

  # What does this node get, and from where?
  kubectl headroom config explain worker-1 --key colocation-config

  # Which nodes would get what else?
  kubectl headroom config diff slo-controller-config.yaml")]
pub(crate) struct ConfigArgs {
    /// The ConfigMap.
    #[command(flatten)]
    config_map: ConfigMapArgs,
    /// What to ask.
    #[command(subcommand)]
    question: ConfigQuestion,
}

/// What to ask of the ConfigMap.
#[derive(Debug, Clone, Subcommand)]
enum ConfigQuestion {
    Check(check::CheckArgs),
    Explain(explain::ExplainConfigArgs),
    Diff(diff::DiffArgs),
}

/// Which ConfigMap is Koordinator's.
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
