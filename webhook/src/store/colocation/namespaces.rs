//! Kept part of Namespaces: their labels, by which colocation profiles select.

use headroom_domain::selector::Labels;
use k8s_openapi::{ClusterResourceScope, Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Deserialize;

use crate::store::by_name::{ByName, Keep};

/// The labels of all namespaces.
pub type NamespacesByName = ByName<WatchedNamespace>;

/// Namespace from the API server, reduced to the fields that are read.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct WatchedNamespace {
    #[serde(deserialize_with = "crate::store::object_meta::deserialize")]
    pub metadata: ObjectMeta,
}

impl Keep for WatchedNamespace {
    type Kept = Labels;

    fn keep(&self) -> Option<Labels> {
        Some(self.metadata.labels.clone().unwrap_or_default())
    }
}

impl k8s_openapi::Resource for WatchedNamespace {
    const API_VERSION: &'static str = "v1";
    const GROUP: &'static str = "";
    const KIND: &'static str = "Namespace";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "namespaces";
    type Scope = ClusterResourceScope;
}

impl Metadata for WatchedNamespace {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
