//! [`mounted`]: the Datasets behind the claims of a Pod, with their runtimes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use headroom_domain::names::{
    FLUID_FUSE_PREFIX, FLUID_GROUP, FLUID_MANAGED_BY, FLUID_WORKER_PREFIX, FLUID_WRAPPED_BY,
};
use serde::Deserialize;

use super::{
    go_list,
    runtime::{Runtime, RuntimeKind},
};

/// Most names of claims in a message.
const MOST_NAMES: usize = 16;
/// Most characters of a condition's message in a refusal.
const LONGEST_MESSAGE: usize = 256;
/// Shortest label key for which the UID replaces the name. Kubernetes allows 63 characters after the slash; Fluid
/// counts the whole key.
const LONG_KEY: usize = 63;

/// Part of a PersistentVolumeClaim that rules read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claim {
    /// Dataset that it belongs to, in its own namespace; `None` for a claim of other storage.
    pub dataset: Option<Box<str>>,
}

/// Parts of a Dataset that rules read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dataset {
    /// UID of the object.
    pub uid: Box<str>,
    /// Phase in its status; empty before Fluid has seen it.
    pub phase: Box<str>,
    /// Message of its condition `NotReady`.
    pub not_ready: Option<Box<str>>,
    /// Type of its first runtime; empty without any.
    pub runtime: Box<str>,
}

/// A Dataset that a Pod mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedDataset {
    /// PersistentVolumeClaim in the Pod.
    pub claim: Box<str>,
    /// Name of the Dataset.
    pub name: Box<str>,
    /// Label of the nodes with a worker.
    pub worker_label: String,
    /// Label of the nodes with a client.
    pub fuse_label: String,
    /// Runtime of the same name.
    pub runtime: Arc<Runtime>,
}

/// Objects of a kind are not known to this replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownObjects(
    /// Plural name of the kind.
    pub &'static str,
);

/// Known objects of Fluid, all in memory.
pub trait Catalog {
    /// A PersistentVolumeClaim; `None` if it does not exist.
    ///
    /// # Errors
    /// PersistentVolumeClaims are not known.
    fn claim(&self, namespace: &str, name: &str) -> Result<Option<Arc<Claim>>, UnknownObjects>;

    /// A Dataset; `None` if it does not exist.
    ///
    /// # Errors
    /// Datasets are not known.
    fn dataset(&self, namespace: &str, name: &str) -> Result<Option<Arc<Dataset>>, UnknownObjects>;

    /// A runtime; `None` if it does not exist.
    ///
    /// # Errors
    /// Runtimes of this kind are not known.
    fn runtime(
        &self,
        kind: RuntimeKind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<Runtime>>, UnknownObjects>;
}

/// Reasons why a Pod cannot be placed yet. The texts are Fluid's, except for the faults of a runtime.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatasetError {
    /// Objects that the Pod needs are not known to this replica.
    #[error("{0} are not known to this replica")]
    Unknown(&'static str),
    /// Claims do not exist.
    #[error("failed to collect runtime infos from PVCs {claims}: failed to get the following PVCs {missing}")]
    MissingClaims {
        /// All claims of the Pod.
        claims: String,
        /// Claims that do not exist.
        missing: String,
    },
    /// The Dataset of a claim cannot be used.
    #[error(
        "failed to collect runtime infos from PVCs {claims}: failed to build runtime info for PVC {claim:?}: {reason}"
    )]
    Unusable {
        /// All claims of the Pod.
        claims: String,
        /// Namespace and name of the claim.
        claim: String,
        /// State of the Dataset.
        reason: Unusable,
    },
}

/// Reasons why a Dataset cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// An object does not exist.
    #[error("{plural}.{FLUID_GROUP} {name:?} not found")]
    Missing {
        /// Plural name of its kind.
        plural: &'static str,
        /// Name of the object.
        name: Box<str>,
    },
    /// Fluid has not bound the Dataset.
    #[error("dataset {dataset:?} not bound")]
    NotBound {
        /// Namespace and name of the Dataset.
        dataset: String,
    },
    /// Fluid has not bound the Dataset, and states the reason.
    #[error("dataset {dataset:?} not ready because {message}")]
    NotReady {
        /// Namespace and name of the Dataset.
        dataset: String,
        /// Message of the condition.
        message: String,
    },
    /// The Dataset has no runtime, or one of an unknown type.
    #[error("fail to get runtimeInfo for runtime type: {0}")]
    RuntimeType(String),
    /// The runtime has an invalid or too large part.
    #[error("runtime {runtime:?} cannot be used: {fault}")]
    Faulty {
        /// Namespace and name of the runtime.
        runtime: String,
        /// Fault of the runtime.
        fault: String,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DatasetStatus {
    phase: Box<str>,
    conditions: Vec<DatasetCondition>,
    runtimes: Vec<NamedRuntime>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DatasetCondition {
    #[serde(rename = "type")]
    kind: Box<str>,
    message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NamedRuntime {
    #[serde(rename = "type")]
    kind: Box<str>,
}

impl Claim {
    /// Reads the labels of a PersistentVolumeClaim.
    pub fn read(name: &str, labels: &BTreeMap<String, String>) -> Self {
        let is_of_dataset = labels.keys().any(|key| key.starts_with(FLUID_WORKER_PREFIX));
        let named = labels
            .get(FLUID_MANAGED_BY)
            .or_else(|| labels.get(FLUID_WRAPPED_BY));
        Self {
            dataset: is_of_dataset.then(|| named.map_or(name, String::as_str).into()),
        }
    }
}

impl Dataset {
    /// Reads the JSON of a Dataset's status. One that cannot be read counts as unbound.
    pub fn read(uid: &str, status: &str) -> Self {
        let DatasetStatus {
            phase,
            conditions,
            runtimes,
        } = serde_json::from_str(status).unwrap_or_default();
        let not_ready = conditions
            .into_iter()
            .find(|condition| &*condition.kind == "NotReady");
        Self {
            uid: uid.into(),
            phase,
            not_ready: not_ready.map(|condition| shortened(&condition.message).into()),
            runtime: runtimes.into_iter().next().unwrap_or_default().kind,
        }
    }

    /// True once Fluid has bound it, whatever happened afterwards.
    fn is_bound(&self) -> bool {
        !matches!(&*self.phase, "" | "NotBound")
    }
}

impl DatasetError {
    /// True if an object is missing that may be on its way.
    pub const fn is_missing(&self) -> bool {
        match self {
            Self::MissingClaims { .. } => true,
            Self::Unusable { reason, .. } => matches!(reason, Unusable::Missing { .. }),
            Self::Unknown(_) => false,
        }
    }
}

impl From<UnknownObjects> for DatasetError {
    fn from(UnknownObjects(plural): UnknownObjects) -> Self {
        Self::Unknown(plural)
    }
}

/// Datasets of the claims of a Pod, sorted by claim. Claims are in the Pod's namespace, and so are their Datasets and
/// runtimes. `skips_check` accepts Datasets that are not bound.
///
/// # Errors
/// A claim is missing, or its Dataset cannot be used.
pub fn mounted(
    catalog: &dyn Catalog,
    namespace: &str,
    claims: &BTreeSet<Box<str>>,
    skips_check: bool,
) -> Result<Vec<MountedDataset>, DatasetError> {
    let list = |names: &mut dyn ExactSizeIterator<Item = &str>| go_list(names, MOST_NAMES);
    let all = || list(&mut claims.iter().map(AsRef::as_ref));
    let (mut mounted, mut missing) = (Vec::new(), Vec::new());
    for name in claims {
        let Some(claim) = catalog.claim(namespace, name)? else {
            missing.push(&**name);
            continue;
        };
        let Some(dataset) = &claim.dataset else {
            continue;
        };
        let found = find(catalog, namespace, dataset, skips_check)?;
        let found = found.map_err(|reason| DatasetError::Unusable {
            claims: all(),
            claim: format!("{namespace}/{name}"),
            reason,
        });
        let (found, runtime) = found?;
        let label = |prefix| label(prefix, namespace, dataset, &found.uid);
        mounted.push(MountedDataset {
            claim: name.clone(),
            name: dataset.clone(),
            worker_label: label(FLUID_WORKER_PREFIX),
            fuse_label: label(FLUID_FUSE_PREFIX),
            runtime,
        });
    }
    if missing.is_empty() {
        Ok(mounted)
    } else {
        Err(DatasetError::MissingClaims {
            claims: all(),
            missing: list(&mut missing.into_iter()),
        })
    }
}

/// A Dataset and its runtime.
type Found = (Arc<Dataset>, Arc<Runtime>);

fn find(
    catalog: &dyn Catalog,
    namespace: &str,
    name: &str,
    skips_check: bool,
) -> Result<Result<Found, Unusable>, UnknownObjects> {
    let missing = |plural| Unusable::Missing {
        plural,
        name: name.into(),
    };
    let full_name = || format!("{namespace}/{name}");
    let Some(dataset) = catalog.dataset(namespace, name)? else {
        return Ok(Err(missing("datasets")));
    };
    if !skips_check && !dataset.is_bound() {
        let dataset_name = full_name();
        return Ok(Err(match &dataset.not_ready {
            Some(message) => Unusable::NotReady {
                dataset: dataset_name,
                message: message.to_string(),
            },
            None => Unusable::NotBound {
                dataset: dataset_name,
            },
        }));
    }
    let Some(kind) = RuntimeKind::of_dataset(&dataset.runtime) else {
        return Ok(Err(Unusable::RuntimeType(shortened(&dataset.runtime))));
    };
    let Some(runtime) = catalog.runtime(kind, namespace, name)? else {
        return Ok(Err(missing(kind.plural())));
    };
    Ok(match &runtime.fault {
        None => Ok((dataset, runtime)),
        Some(fault) => Err(Unusable::Faulty {
            runtime: full_name(),
            fault: fault.clone(),
        }),
    })
}

/// Label of nodes: the prefix with namespace and name, or with the UID where that is too long.
fn label(prefix: &str, namespace: &str, name: &str, uid: &str) -> String {
    let named = format!("{prefix}{namespace}-{name}");
    if named.len() < LONG_KEY || uid.is_empty() {
        named
    } else {
        format!("{prefix}{uid}")
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_MESSAGE).collect()
}
