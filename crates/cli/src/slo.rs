//! Koordinator's ConfigMap for people: versions and nodes from files or from the webhook, and what is to be said of them.
//! Rules and checks are those of the webhook.

pub mod check;
pub mod manifest;
pub mod node_list;
pub mod stored_config;

use std::path::PathBuf;

use headroom_domain::installation::ConfigMapName;
use headroom_rules::switch::SwitchError;

use crate::error::Error;

/// Why a question about the ConfigMap has no answer.
#[derive(Debug, thiserror::Error)]
pub enum SloError {
    /// A file is neither YAML nor JSON, or its objects are none of Kubernetes.
    #[error("{} is neither YAML nor JSON of Kubernetes objects: {reason}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// What the parser found.
        reason: String,
    },
    /// The ConfigMap is not in the file.
    #[error("{} does not hold ConfigMap {wanted}; it holds {found}", file.display())]
    NoConfigMap {
        /// The file.
        file: PathBuf,
        /// The ConfigMap that was looked for.
        wanted: ConfigMapName,
        /// The objects in the file.
        found: String,
    },
    /// The ConfigMap is in the file more than once.
    #[error("{} holds ConfigMap {wanted} {count} times", file.display())]
    SeveralConfigMaps {
        /// The file.
        file: PathBuf,
        /// The ConfigMap.
        wanted: ConfigMapName,
        /// How often it is there.
        count: usize,
    },
    /// A value of the ConfigMap is no text.
    #[error("{}: data[{key}] is not a text; put `|` or quotes before it", file.display())]
    NotText {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
    },
    /// A file that should hold nodes holds none.
    #[error("{} holds no Node; it holds {found}", file.display())]
    NoNodes {
        /// The file.
        file: PathBuf,
        /// The objects in the file.
        found: String,
    },
    /// The node is not among those that are known.
    #[error("node {name:?} is not among the {count} nodes of {}", file.display())]
    UnknownNode {
        /// The name as given.
        name: String,
        /// How many there are.
        count: usize,
        /// Where they are.
        file: PathBuf,
    },
    /// The webhook follows another ConfigMap.
    #[error("the webhook checks ConfigMap {theirs}, not {asked}")]
    OtherConfigMap {
        /// The one that it checks.
        theirs: String,
        /// The one that was asked for.
        asked: ConfigMapName,
    },
    /// The webhook cannot tell what is stored.
    #[error("the webhook does not know the stored ConfigMap yet; ask again")]
    ConfigMapNotKnown,
    /// The webhook cannot tell what nodes there are.
    #[error("the webhook does not know all nodes yet; ask again")]
    NodesNotKnown,
    /// A list of switches is wrong.
    #[error(transparent)]
    Switch(#[from] SwitchError),
}

impl From<SloError> for Error {
    fn from(error: SloError) -> Self {
        Self::Area(Box::new(error))
    }
}
