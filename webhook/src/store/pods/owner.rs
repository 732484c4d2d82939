//! [`PodOwner`]: controller, version and namespace of a pod, without the eight bytes that an `Option` would add.

use headroom_domain::workload::Workload;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::controller::{Controller, namespace_hash};

/// Controller, version and namespace of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodOwner {
    Bare,
    Controlled {
        controller: u64,
        version: u64,
        /// Hash of the namespace, whose share of the table of workloads the pod counts against.
        namespace: u32,
    },
}

impl PodOwner {
    pub(super) fn new(controller: Option<&Controller>, metadata: &ObjectMeta) -> Self {
        controller.map_or(Self::Bare, |found| Self::Controlled {
            controller: found.workload.controller,
            version: found.workload.version,
            namespace: namespace_hash(metadata),
        })
    }

    /// Controller and version; `None` for a bare pod.
    pub fn workload(&self) -> Option<Workload> {
        match *self {
            Self::Bare => None,
            Self::Controlled {
                controller, version, ..
            } => Some(Workload { controller, version }),
        }
    }

    /// Hash of the namespace of a pod with a controller; 0 for a bare pod.
    pub fn namespace_hash(&self) -> u32 {
        match *self {
            Self::Bare => 0,
            Self::Controlled { namespace, .. } => namespace,
        }
    }
}
