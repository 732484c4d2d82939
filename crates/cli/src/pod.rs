//! Explains a pod: decisions of the webhook's replicas, or the result of the webhook's rules for objects in files.

pub mod decided;
pub mod objects;
pub mod offline;

use std::{fmt, path::PathBuf, str::FromStr};

use headroom_rules::switch::SwitchError;

use crate::error::Error;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodName {
    pub namespace: String,
    pub name: String,
}

/// The text is not `NAMESPACE/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not NAMESPACE/NAME, such as shop/web-0")]
pub struct PodNameError;

/// Error of a command about pods.
#[derive(Debug, thiserror::Error)]
pub enum PodError {
    #[error("{} is not YAML or JSON: {reason}", file.display())]
    Syntax { file: PathBuf, reason: String },
    /// A field of an object in a file has an invalid value.
    #[error("{}: {object}: {field}: invalid value {value}: {reason}", file.display())]
    Field {
        file: PathBuf,
        object: String,
        field: &'static str,
        value: String,
        reason: String,
    },
    #[error("{}: {object} is defined twice", file.display())]
    Repeated {
        /// File with the second definition.
        file: PathBuf,
        object: String,
    },
    #[error("{} contains no Pod; it contains {found}", file.display())]
    NoPod { file: PathBuf, found: String },
    #[error(
        "no file contains a ClusterColocationProfile; pass those of the cluster with --profiles (`kubectl get \
         clustercolocationprofiles,priorityclasses,namespaces -o yaml > cluster.yaml`)"
    )]
    NoProfiles,
    #[error("standard input (-) is given twice; pass one of the files by name")]
    StandardInputTwice,
    #[error("the webhook keeps no review of pod {pod}: {kept}")]
    NotKept {
        pod: PodName,
        /// Number of reviews that each replica keeps.
        kept: String,
    },
    /// A list of switches is invalid.
    #[error(transparent)]
    Switch(#[from] SwitchError),
}

impl From<PodError> for Error {
    fn from(error: PodError) -> Self {
        Self::Area(Box::new(error))
    }
}

impl FromStr for PodName {
    type Err = PodNameError;

    fn from_str(text: &str) -> Result<Self, PodNameError> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err(PodNameError),
        }
    }
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name } = self;
        write!(f, "{namespace}/{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_a_namespace_and_a_name() {
        assert_eq!("shop/web-0".parse::<PodName>().unwrap().to_string(), "shop/web-0");
        for bad in ["", "web", "/web", "shop/", "a/b/c"] {
            assert_eq!(bad.parse::<PodName>(), Err(PodNameError), "{bad}");
        }
    }
}
