//! [`FrameUse`]: the use of a node's pods in one frame, as an agent reports it for the profiles of workloads.

use crate::resource::PerResource;

/// Use of the pods in the last valid frame.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FrameUse {
    /// Number of the frame: boot time divided by the frame's length.
    pub frame: u64,
    /// Pods with a cgroup.
    pub pods: Vec<PodFrameUse>,
}

/// Use of one pod in one frame, in milli-cores and bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodFrameUse {
    /// UID of the pod object.
    pub uid: String,
    /// Low estimate.
    pub low: PerResource<u64>,
    /// High estimate.
    pub high: PerResource<u64>,
}
