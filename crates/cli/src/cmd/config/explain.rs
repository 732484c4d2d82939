//! `config explain NODE`: prints the ConfigMap's values for a node, each with its source.

use std::{io::Write, path::PathBuf};

use headroom_domain::installation::ConfigMapName;
use headroom_rules::slo::{
    documents::SloDocuments,
    table::{KEYS, Key},
};

use super::{super::Session, source::SloSource};
use crate::{
    args::{Format, NodeName},
    error::Error,
    output::slo::NodeConfig,
};

/// Values of the ConfigMap for a node, each with its source: a default, the whole cluster, or an entry.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Values are merged as in Koordinator: the first entry that selects the node overrides the values of the whole cluster, which
override defaults. Annotations of the node, which Koordinator also reads, are ignored. Values with source `agent` are filled in by
the node's agent for a QoS class that is enabled.

Examples:
  kubectl headroom config explain worker-1
  kubectl headroom config explain worker-1 --key colocation-config -f new.yaml
  kubectl headroom config explain worker-1 -f new.yaml --nodes nodes.json -o json")]
pub(super) struct ExplainConfigArgs {
    /// Node, as NAME or node/NAME.
    node: NodeName,
    /// Only this key, such as colocation-config.
    #[arg(long, env = "HEADROOM_KEY", value_name = "KEY", value_parser = known_key)]
    key: Option<&'static Key>,
    /// File with a version [default: the stored one, from the webhook].
    #[arg(short, long, env = "HEADROOM_FILE", value_name = "FILE")]
    file: Option<PathBuf>,
    /// File with the cluster's nodes [default: the webhook's nodes].
    #[arg(long, env = "HEADROOM_NODES", value_name = "FILE")]
    nodes: Option<PathBuf>,
}

impl ExplainConfigArgs {
    pub(super) async fn run<W: Write>(
        self,
        config_map: &ConfigMapName,
        session: Session<'_, W>,
    ) -> Result<(), Error> {
        let Self {
            node,
            key,
            file,
            nodes,
        } = self;
        let name = node.into_string();
        let mut source = SloSource::new(&session.connect, config_map);
        let documents = SloDocuments::read(&source.version(file.as_deref()).await?);
        let labels = source.node(&name, nodes.as_deref()).await?;
        let is_wanted = |document: &&_| key.is_none_or(|key| is_document_of(key, document));
        let documents = documents.iter().filter(is_wanted);
        let keys = documents.map(|document| document.effective(&labels)).collect();
        let explained = NodeConfig { node: name, keys };
        session.screen.print(&match session.format {
            Format::Table => explained.to_string(),
            Format::Json => format!("{:#}\n", explained.json()),
        })
    }
}

fn is_document_of(key: &Key, document: &headroom_rules::slo::documents::KeyDocument) -> bool {
    document.key().name == key.name
}

fn known_key(name: &str) -> Result<&'static Key, String> {
    Key::named(name).ok_or_else(|| {
        let known: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        format!("no key of the ConfigMap; known are {}", known.join(", "))
    })
}
