//! A Pod as the API server sends it to a watch, with all that it asks for and nothing of how it runs but its phase.

use headroom_domain::{
    amounts::Amounts,
    names,
    pod::{Pod, PodMetadata, PodSpec, PodStatus},
};
use headroom_rules::pod_quota::{REPLACE_RESOURCES, Transformation, has_ended, requested};
use k8s_openapi::{Metadata, NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Deserialize;

use crate::store::quota_request::{PodGroup, PodName};

/// A Pod with its metadata.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct WatchedQuotaPod {
    #[serde(deserialize_with = "crate::store::object_meta::deserialize")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: PodSpec,
    /// Phase and end of the pod.
    #[serde(default)]
    pub status: PhaseStatus,
}

/// Observed state of a Pod: the fields that show its end.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct PhaseStatus {
    pub phase: Option<String>,
}

impl WatchedQuotaPod {
    /// Namespace and name, and the UID; `None` for an object without them.
    pub(super) fn key(&self) -> Option<(PodName, Box<str>)> {
        let metadata = &self.metadata;
        let pod = PodName {
            namespace: metadata.namespace.as_deref()?.into(),
            name: metadata.name.as_deref()?.into(),
        };
        Some((pod, metadata.uid.as_deref().unwrap_or_default().into()))
    }

    pub(super) fn group(&self) -> PodGroup {
        let labels = self.metadata.labels.as_ref();
        let label = labels.and_then(|labels| labels.get(names::QUOTA_NAME));
        PodGroup::new(
            label.map(String::as_str),
            self.metadata.namespace.as_deref().unwrap_or_default(),
        )
    }

    /// True once it runs nothing any more.
    pub(super) fn has_ended(&self) -> bool {
        has_ended(self.status.phase.as_deref())
    }

    /// UID of its controller.
    pub(super) fn controller(&self) -> Option<&str> {
        let owners = self.metadata.owner_references.as_ref()?;
        let controller = owners.iter().find(|owner| owner.controller == Some(true))?;
        Some(&controller.uid)
    }

    /// Requests, and the same with resources renamed by its annotation if that differs.
    pub(super) fn requested(mut self, ignores_overhead: bool) -> (Amounts, Option<Amounts>) {
        if ignores_overhead {
            self.spec.overhead = Amounts::default();
        }
        let annotation = self
            .metadata
            .annotations
            .and_then(|mut annotations| annotations.remove(REPLACE_RESOURCES));
        let pod = |annotation: Option<String>| Pod {
            metadata: PodMetadata {
                annotations: annotation
                    .map(|text| (REPLACE_RESOURCES.to_owned(), text))
                    .into_iter()
                    .collect(),
                ..PodMetadata::default()
            },
            spec: self.spec.clone(),
            status: PodStatus {
                phase: self.status.phase.clone(),
                ..PodStatus::default()
            },
        };
        let renamed =
            annotation.map(|annotation| requested(pod(Some(annotation)), Transformation::ByAnnotation));
        (requested(pod(None), Transformation::None), renamed)
    }
}

impl k8s_openapi::Resource for WatchedQuotaPod {
    const API_VERSION: &'static str = "v1";
    const GROUP: &'static str = "";
    const KIND: &'static str = "Pod";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "pods";
    type Scope = NamespaceResourceScope;
}

impl Metadata for WatchedQuotaPod {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
