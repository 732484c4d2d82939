//! What a Pod asks of its quota, and the pods that count together there.

use headroom_domain::amounts::Amounts;
use headroom_rules::pod_quota::Transformation;

/// Pods that belong to one quota, whatever quotas there are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PodGroup {
    /// Those of all namespaces with a label that names the quota.
    Labelled(Box<str>),
    /// Those of a namespace without one.
    Unlabelled(Box<str>),
}

/// The namespace and the name of a Pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodName {
    /// The namespace.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
}

/// A Pod that asks for room in a quota.
#[derive(Debug, Clone)]
pub struct RoomRequest {
    /// Its namespace and name.
    pub pod: PodName,
    /// Its UID, which it has before it is stored.
    pub uid: Box<str>,
    /// Where it counts.
    pub group: PodGroup,
    /// All that it asks for.
    pub requested: Amounts,
    /// The resource version, as a number, of the stored Pod that it replaces; 0 for a new one.
    pub replaced: u64,
    /// All groups of pods that the quota has.
    pub groups: Vec<PodGroup>,
    /// Whether resources are renamed by annotation.
    pub transformation: Transformation,
}

impl PodGroup {
    /// The group of a Pod with this label in this namespace; an empty label is none.
    pub fn new(label: Option<&str>, namespace: &str) -> Self {
        match label.filter(|label| !label.is_empty()) {
            Some(label) => Self::Labelled(label.into()),
            None => Self::Unlabelled(namespace.into()),
        }
    }
}
