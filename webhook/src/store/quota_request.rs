//! Request of a Pod against its quota, the pods that count together there, and the limit on a Pod's resources.

use std::collections::BTreeSet;

use headroom_domain::amounts::Amounts;
use headroom_rules::{
    pod_quota::{Transformation, Usage, namespaces_of},
    quota::{Quota, QuotaTree},
};

use crate::store::caller::ReviewCaller;

/// Maximum number of resources that are counted for a Pod in addition to the usual ones.
pub const MOST_RESOURCES: usize = 32;
/// Maximum length of their names together, in bytes. Every user who may create pods chooses them.
const MOST_NAME_BYTES: usize = 4_096;

/// A Pod requests more resources than a quota can count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the pod requests {count} resources; its ElasticQuota counts at most {MOST_RESOURCES} in addition to CPU, memory, \
     ephemeral storage and Koordinator's, with names of {MOST_NAME_BYTES} bytes together"
)]
pub struct TooManyResources {
    count: usize,
}

/// Checks that a quota can count all resources of a Pod.
///
/// # Errors
/// They are too many.
pub fn check_resources(requested: &Amounts) -> Result<(), TooManyResources> {
    if counted_resources(requested).count() == requested.iter().count() {
        return Ok(());
    }
    Err(TooManyResources {
        count: requested.iter().count(),
    })
}

/// Names of the resources of a Pod that are counted.
pub fn counted_resources(requested: &Amounts) -> impl Iterator<Item = &str> {
    let (mut count, mut bytes) = (0_usize, 0_usize);
    requested.iter().map(|(name, _)| name).filter(move |name| {
        if Amounts::is_usual(name) {
            return true;
        }
        count = count.saturating_add(1);
        bytes = bytes.saturating_add(name.len());
        count <= MOST_RESOURCES && bytes <= MOST_NAME_BYTES
    })
}

/// Pods that belong to one quota, whether or not the quota exists.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PodGroup {
    /// Pods of all namespaces with a label that names the quota.
    Labelled(Box<str>),
    /// Pods of a namespace without such a label.
    Unlabelled(Box<str>),
}

/// The namespace and the name of a Pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodName {
    pub namespace: Box<str>,
    pub name: Box<str>,
}

/// A Pod that asks for room in a quota.
#[derive(Debug, Clone)]
pub struct QuotaRequest {
    pub pod: PodName,
    /// Its UID, which it has before it is stored.
    pub uid: Box<str>,
    pub group: PodGroup,
    /// All that it asks for.
    pub requested: Amounts,
    /// The resource version, as a number, of the stored Pod that it replaces; 0 for a new one.
    pub replaced: u64,
    /// All groups of pods of each quota that must have room: of its own first, and of each one above the groups that those before
    /// do not have.
    pub levels: Vec<Vec<PodGroup>>,
    /// The resources that some level limits. No other one is counted or kept.
    pub resources: BTreeSet<Box<str>>,
    /// Renaming of resources by annotation.
    pub transformation: Transformation,
    /// UID of the Pod's controller; empty if it has none.
    pub controller: Box<str>,
    /// Client that posted the review.
    pub caller: ReviewCaller,
}

/// Use of a quota by groups of pods, with all pods of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupUsage {
    pub usage: Usage,
    /// Stored pods that have not ended.
    pub pods: usize,
    /// Pods that were admitted and that this replica has not seen stored as they were admitted yet.
    pub pending: usize,
}

/// A stored Pod, as its quota counts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedPod {
    pub uid: Box<str>,
    pub group: PodGroup,
    /// Requests; empty once the pod has ended.
    pub requested: Amounts,
}

impl PodGroup {
    /// Group of a Pod with this label in this namespace; an empty label counts as missing.
    pub fn new(label: Option<&str>, namespace: &str) -> Self {
        match label.filter(|label| !label.is_empty()) {
            Some(label) => Self::Labelled(label.into()),
            None => Self::Unlabelled(namespace.into()),
        }
    }

    /// All groups of a quota: the pods with its name in a label, and those without a label in its namespaces.
    pub fn of_quota(quota: &Quota, has_default: bool, tree: &dyn QuotaTree) -> Vec<Self> {
        let namespaces = namespaces_of(quota, has_default, tree);
        let unlabelled = namespaces.into_iter().map(Self::Unlabelled);
        unlabelled.chain([Self::Labelled(quota.name.clone())]).collect()
    }
}
