//! Koordinator's ConfigMap: versions and nodes from files or from the webhook, and their checks. The rules are those
//! of the webhook.

pub mod check;
pub mod manifest;
pub mod node_list;
pub mod stored_config;

use std::path::PathBuf;

use headroom_domain::installation::ConfigMapName;
use headroom_rules::switch::SwitchError;

use crate::error::Error;

/// Error of a command about the ConfigMap.
#[derive(Debug, thiserror::Error)]
pub enum SloError {
    #[error("{} is not YAML or JSON of Kubernetes objects: {reason}", file.display())]
    Syntax { file: PathBuf, reason: String },
    #[error("{} does not contain ConfigMap {wanted}; it contains {found}", file.display())]
    NoConfigMap {
        file: PathBuf,
        wanted: ConfigMapName,
        found: String,
    },
    #[error("{} contains ConfigMap {wanted} {count} times", file.display())]
    SeveralConfigMaps {
        file: PathBuf,
        wanted: ConfigMapName,
        count: usize,
    },
    #[error("{}: data[{key}] is not a string; quote the value, or put `|` before it", file.display())]
    NotText { file: PathBuf, key: String },
    #[error("{} contains no Node; it contains {found}", file.display())]
    NoNodes { file: PathBuf, found: String },
    #[error("node {name:?} is not among the {count} nodes of {}", file.display())]
    UnknownNode {
        name: String,
        count: usize,
        file: PathBuf,
    },
    #[error("the webhook checks ConfigMap {theirs}, not {asked}")]
    OtherConfigMap { theirs: String, asked: ConfigMapName },
    #[error("the webhook does not know the stored ConfigMap yet; try again")]
    ConfigMapNotKnown,
    #[error("the webhook does not know all nodes yet; try again")]
    NodesNotKnown,
    /// A list of switches is invalid.
    #[error(transparent)]
    Switch(#[from] SwitchError),
}

impl From<SloError> for Error {
    fn from(error: SloError) -> Self {
        Self::Area(Box::new(error))
    }
}
