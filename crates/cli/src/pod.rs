//! Why a pod got what it got: what webhooks decided about it, or what they would decide by the objects in files. The rules
//! are the webhook's.

pub mod decided;
pub mod objects;
pub mod offline;

use std::{fmt, path::PathBuf, str::FromStr};

use headroom_rules::switch::SwitchError;

use crate::error::Error;

/// A pod by its namespace and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The text is no name of a pod with its namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not NAMESPACE/NAME, as in shop/web-0")]
pub struct PodNameError;

/// Why a question about a pod has no answer.
#[derive(Debug, thiserror::Error)]
pub enum PodError {
    /// A file is neither YAML nor JSON.
    #[error("{} is neither YAML nor JSON: {reason}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// What the parser found.
        reason: String,
    },
    /// A field of an object in a file has a value that it cannot have.
    #[error("{}: {object}: {field}: invalid value {value}: {reason}", file.display())]
    Field {
        /// The file.
        file: PathBuf,
        /// The object.
        object: String,
        /// The field.
        field: &'static str,
        /// The value, cut.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An object is in the files twice.
    #[error("{}: {object} is there twice", file.display())]
    Repeated {
        /// The file with the second one.
        file: PathBuf,
        /// The object.
        object: String,
    },
    /// A file holds no pod.
    #[error("{} holds no Pod; it holds {found}", file.display())]
    NoPod {
        /// The file.
        file: PathBuf,
        /// The kinds of objects in it.
        found: String,
    },
    /// No file has a profile.
    #[error(
        "no ClusterColocationProfile in any file; give those of the cluster with --profiles (`kubectl get \
         clustercolocationprofiles,priorityclasses,namespaces -o yaml > cluster.yaml`)"
    )]
    NoProfiles,
    /// Standard input is named twice.
    #[error("standard input can be read once; give one of the files by its name")]
    StandardInputTwice,
    /// No replica keeps a decision about the pod.
    #[error("no review of pod {pod} is kept by the webhook: {kept}")]
    NotKept {
        /// The pod.
        pod: PodName,
        /// What the replicas keep.
        kept: String,
    },
    /// A list of switches is wrong.
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
