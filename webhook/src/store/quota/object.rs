//! ElasticQuota from a watch, reduced to the fields that are read.

use headroom_domain::names;
use headroom_rules::quota::{QuotaKey, QuotaParts, object::QuotaSpec};
use k8s_openapi::{Metadata, NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Deserialize;

pub const GROUP: &str = "scheduling.sigs.k8s.io";
pub const VERSION: &str = "v1alpha1";
pub const PLURAL: &str = "elasticquotas";

/// An ElasticQuota with its metadata.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct WatchedQuota {
    #[serde(deserialize_with = "crate::store::object_meta::deserialize")]
    pub metadata: ObjectMeta,
    /// Guaranteed and maximum amounts of its pods.
    #[serde(default)]
    pub spec: Option<QuotaSpec>,
}

impl WatchedQuota {
    pub(super) fn key(&self) -> QuotaKey {
        let text = |name: &Option<String>| name.as_deref().unwrap_or_default().into();
        (text(&self.metadata.namespace), text(&self.metadata.name))
    }

    /// Use of its pods that the scheduler recorded, as written.
    pub(super) fn noted_use(&self) -> Option<Box<str>> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations
            .get(names::QUOTA_CHILD_REQUEST)
            .map(|text| text.as_str().into())
    }

    /// Fields that the rules read.
    pub fn parts(&self) -> QuotaParts {
        let Self { metadata, spec } = self;
        QuotaParts {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            annotations: metadata.annotations.clone().unwrap_or_default(),
            spec: spec.clone().unwrap_or_default(),
            is_going: metadata.deletion_timestamp.is_some(),
            ..QuotaParts::default()
        }
    }
}

impl k8s_openapi::Resource for WatchedQuota {
    const API_VERSION: &'static str = "scheduling.sigs.k8s.io/v1alpha1";
    const GROUP: &'static str = GROUP;
    const KIND: &'static str = "ElasticQuota";
    const VERSION: &'static str = VERSION;
    const URL_PATH_SEGMENT: &'static str = PLURAL;
    type Scope = NamespaceResourceScope;
}

impl Metadata for WatchedQuota {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
