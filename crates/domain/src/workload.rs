//! [`Workload`]: the controller and the version that a pod belongs to, as hashes.

use serde::{Deserialize, Serialize};

/// Controller and version of a pod. Pods of one controller succeed each other on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Workload {
    /// Hash of the controller's namespace, group, kind and name, without the suffix of a revision.
    pub controller: u64,
    /// Hash of what the pod runs: container names, images, commands, arguments, environment, names of mounted
    /// ConfigMaps and Secrets, and requests.
    pub version: u64,
}
