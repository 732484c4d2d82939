//! A Pod as the API server sends it to a watch, without the fields that the store does not read.

use headroom_domain::pod::{CpuAndMemory, PodSpec, PodStatus};
use k8s_openapi::{Metadata, NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::{Deserialize, de::IgnoredAny};

/// A Pod with its metadata, and amounts of CPU and memory alone.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct WatchedPod {
    #[serde(deserialize_with = "crate::store::object_meta::deserialize")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: PodSpec<CpuAndMemory, IgnoredAny>,
    #[serde(default)]
    pub status: PodStatus<CpuAndMemory>,
}

impl k8s_openapi::Resource for WatchedPod {
    const API_VERSION: &'static str = "v1";
    const GROUP: &'static str = "";
    const KIND: &'static str = "Pod";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "pods";
    type Scope = NamespaceResourceScope;
}

impl Metadata for WatchedPod {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
