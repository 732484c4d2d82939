//! Kept part of PersistentVolumeClaims: the Dataset that a claim belongs to.

use std::borrow::Cow;

use headroom_rules::fluid::dataset::Claim;
use k8s_openapi::{Metadata, NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Deserialize;

use crate::store::by_name::{ByName, Keep, namespaced};

pub type DatasetClaims = ByName<WatchedClaim>;

/// A PersistentVolumeClaim from the API server, reduced to the fields that are read.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct WatchedClaim {
    #[serde(deserialize_with = "crate::store::object_meta::deserialize")]
    pub metadata: ObjectMeta,
}

impl Keep for WatchedClaim {
    type Kept = Claim;

    fn keep(&self) -> Option<Claim> {
        let name = self.metadata.name.as_deref()?;
        let labels = self.metadata.labels.as_ref();
        Some(labels.map_or_else(Claim::default, |labels| Claim::read(name, labels)))
    }

    fn key(&self) -> Option<Cow<'_, str>> {
        namespaced(self)
    }
}

impl k8s_openapi::Resource for WatchedClaim {
    const API_VERSION: &'static str = "v1";
    const GROUP: &'static str = "";
    const KIND: &'static str = "PersistentVolumeClaim";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "persistentvolumeclaims";
    type Scope = NamespaceResourceScope;
}

impl Metadata for WatchedClaim {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
