//! `config diff FILE`: prints the nodes whose values a version would change.

use std::{io::Write, path::PathBuf};

use headroom_domain::installation::ConfigMapName;
use headroom_rules::slo::{difference::difference, documents::SloDocuments};

use super::{super::Session, source::SloSource};
use crate::{args::Format, error::Error, output::slo::ConfigDifference};

/// Compare two versions: values that change, and the nodes of each change.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
This does not check if the version is valid; `config check` does.

Examples:
  kubectl headroom config diff new.yaml
  kubectl headroom config diff new.yaml --old stored.yaml --nodes nodes.json
  kubectl headroom config diff new.yaml -o json | jq '.keys[].groups[] | {count, changes}'")]
pub(super) struct DiffArgs {
    /// File with the version; - is standard input.
    file: PathBuf,
    /// File with the version to compare with [default: the stored one, from the webhook].
    #[arg(long, env = "HEADROOM_OLD", value_name = "FILE")]
    old: Option<PathBuf>,
    /// File with the cluster's nodes [default: the webhook's nodes].
    #[arg(long, env = "HEADROOM_NODES", value_name = "FILE")]
    nodes: Option<PathBuf>,
}

impl DiffArgs {
    pub(super) async fn run<W: Write>(
        self,
        config_map: &ConfigMapName,
        session: Session<'_, W>,
    ) -> Result<(), Error> {
        let Self { file, old, nodes } = self;
        let mut source = SloSource::new(&session.connect, config_map);
        let new = SloDocuments::read(&source.version(Some(&file)).await?);
        let old = SloDocuments::read(&source.version(old.as_deref()).await?);
        let nodes = source.nodes(nodes.as_deref()).await?;
        let found = ConfigDifference {
            keys: difference(&old, &new, &nodes),
            nodes: nodes.len(),
        };
        session.screen.print(&match session.format {
            Format::Table => found.to_string(),
            Format::Json => format!("{:#}\n", found.json()),
        })
    }
}
