//! Kept part of Datasets: UID, phase and the type of the runtime.

use std::borrow::Cow;

use headroom_domain::names::{FLUID_GROUP, FLUID_VERSION};
use headroom_rules::fluid::dataset::Dataset;
use k8s_openapi::{Metadata, NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::store::by_name::{ByName, Keep, namespaced};

pub const PLURAL: &str = "datasets";

pub type Datasets = ByName<WatchedDataset>;

/// A Dataset as the API server sends it.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct WatchedDataset {
    #[serde(deserialize_with = "crate::store::object_meta::deserialize")]
    pub metadata: ObjectMeta,
    /// Text of its status, which is not parsed deeper here.
    #[serde(default)]
    pub status: Option<Box<RawValue>>,
}

impl Keep for WatchedDataset {
    type Kept = Dataset;

    fn keep(&self) -> Option<Dataset> {
        let uid = self.metadata.uid.as_deref().unwrap_or_default();
        let status = self.status.as_deref().map_or("{}", RawValue::get);
        Some(Dataset::read(uid, status))
    }

    fn key(&self) -> Option<Cow<'_, str>> {
        namespaced(self)
    }
}

impl k8s_openapi::Resource for WatchedDataset {
    const API_VERSION: &'static str = "data.fluid.io/v1alpha1";
    const GROUP: &'static str = FLUID_GROUP;
    const KIND: &'static str = "Dataset";
    const VERSION: &'static str = FLUID_VERSION;
    const URL_PATH_SEGMENT: &'static str = PLURAL;
    type Scope = NamespaceResourceScope;
}

impl Metadata for WatchedDataset {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
