//! A Pod as the API server sends it to a watch, without the fields that the store does not read.

use headroom_domain::pod::{CpuAndMemory, PodSpec, PodStatus};
use k8s_openapi::{Metadata, NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::{Deserialize, de::IgnoredAny};

use super::{controller::Controller, template::PodTemplate};

/// A Pod with its metadata, amounts of CPU and memory alone, and its controller.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "PodObject")]
pub struct WatchedPod {
    pub metadata: ObjectMeta,
    pub spec: PodSpec<CpuAndMemory, IgnoredAny>,
    pub status: PodStatus<CpuAndMemory>,
    /// Its controller; `None` for a bare pod.
    pub controller: Option<Controller>,
}

/// The members of a Pod that are read. What a pod runs is hashed and not kept.
#[derive(Deserialize)]
struct PodObject {
    #[serde(deserialize_with = "crate::store::object_meta::deserialize")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: PodTemplate,
    #[serde(default)]
    status: PodStatus<CpuAndMemory>,
}

impl From<PodObject> for WatchedPod {
    fn from(object: PodObject) -> Self {
        let PodObject {
            metadata,
            spec,
            status,
        } = object;
        Self {
            controller: Controller::from_pod(&metadata, &spec),
            metadata,
            spec: spec.into_spec(),
            status,
        }
    }
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
