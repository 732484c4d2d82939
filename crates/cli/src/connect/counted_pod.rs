//! [`CountedPod`]: a Pod with only what its requests of CPU and memory depend on.

use headroom_domain::pod::{CpuAndMemory, PodSpec, PodStatus};
use k8s_openapi::{Metadata, NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::{Deserialize, de::IgnoredAny};

/// A Pod without the fields that its requests do not depend on.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct CountedPod {
    /// Never read: annotations and managed fields of all pods of a large cluster need gigabytes.
    #[serde(skip)]
    metadata: ObjectMeta,
    #[serde(default)]
    pub(super) spec: PodSpec<CpuAndMemory, IgnoredAny>,
    #[serde(default)]
    pub(super) status: PodStatus<CpuAndMemory>,
}

impl CountedPod {
    /// True if the scheduler no longer counts it.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    }
}

impl k8s_openapi::Resource for CountedPod {
    const API_VERSION: &'static str = "v1";
    const GROUP: &'static str = "";
    const KIND: &'static str = "Pod";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "pods";
    type Scope = NamespaceResourceScope;
}

impl Metadata for CountedPod {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
