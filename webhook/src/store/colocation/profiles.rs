//! Kept part of Koordinator's `ClusterColocationProfile` objects: the compiled profile, or the reason why it does not
//! compile.

use std::time::Instant;

use headroom_domain::names;
pub use headroom_rules::profile::KnownProfile;
use k8s_openapi::{ClusterResourceScope, Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Deserialize;
use serde_json::value::RawValue;
use tracing::warn;

use crate::store::{
    by_name::{ByName, Keep, Listing},
    metrics::PROFILES,
};

/// API group of colocation profiles.
pub const GROUP: &str = "config.koordinator.sh";
/// API version of colocation profiles.
pub const VERSION: &str = "v1alpha1";
pub const PLURAL: &str = "clustercolocationprofiles";

pub type Profiles = ByName<WatchedProfile>;

/// A `ClusterColocationProfile` as the API server sends it.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct WatchedProfile {
    /// Its name and annotations, and whether it is being deleted.
    #[serde(deserialize_with = "crate::store::object_meta::deserialize")]
    pub metadata: ObjectMeta,
    /// Selector and changes of the profile. The text is not parsed deeper here, whatever its nesting.
    #[serde(default)]
    pub spec: Option<Box<RawValue>>,
}

impl Keep for WatchedProfile {
    type Kept = KnownProfile;

    /// A profile that is being deleted is for no pod any more.
    fn keep(&self) -> Option<KnownProfile> {
        let Self { metadata, spec } = self;
        if metadata.deletion_timestamp.is_some() {
            return None;
        }
        let annotations = metadata.annotations.as_ref();
        let skip = annotations.and_then(|annotations| annotations.get(names::SKIP_UPDATE_RESOURCES).cloned());
        let mut known = KnownProfile::read(spec.as_deref().map_or("{}", RawValue::get), skip);
        known.since = Some(Instant::now());
        known.uid = metadata.uid.clone().unwrap_or_default();
        if let Some(fault) = known.fault() {
            let name = metadata.name.as_deref().unwrap_or_default();
            warn!(
                profile = name,
                fault, "the colocation profile is invalid and is applied to no pod"
            );
        }
        Some(known)
    }

    fn changed(all: &Listing<KnownProfile>) {
        let (mut valid, mut invalid) = (0_u32, 0_u32);
        for profile in all.values() {
            let count = if profile.fault().is_none() {
                &mut valid
            } else {
                &mut invalid
            };
            *count = count.saturating_add(1);
        }
        PROFILES.with(["valid"]).set(f64::from(valid));
        PROFILES.with(["invalid"]).set(f64::from(invalid));
    }
}

impl k8s_openapi::Resource for WatchedProfile {
    const API_VERSION: &'static str = "config.koordinator.sh/v1alpha1";
    const GROUP: &'static str = GROUP;
    const KIND: &'static str = "ClusterColocationProfile";
    const VERSION: &'static str = VERSION;
    const URL_PATH_SEGMENT: &'static str = PLURAL;
    type Scope = ClusterResourceScope;
}

impl Metadata for WatchedProfile {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use headroom_rules::profile::LONGEST_SPEC;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn keep(spec: &Value) -> KnownProfile {
        let object = json!({"metadata": {"name": "p", "resourceVersion": "7"}, "spec": spec});
        let object: WatchedProfile = serde_json::from_str(&object.to_string()).unwrap();
        object.keep().unwrap()
    }

    #[rstest]
    #[case::empty(json!({}))]
    #[case::unknown_members(json!({"selector": {"matchLabels": {"a": "b"}}, "unknown": {"x": [1]}}))]
    #[case::of_namespaces(json!({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}}))]
    fn a_profile_without_fault_has_none(#[case] spec: Value) {
        assert_eq!(keep(&spec).fault(), None);
    }

    #[rstest]
    #[case::operator(json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Unequal", "values": ["b"]}]}}), "spec.selector is invalid: ")]
    #[case::labels(json!({"selector": {"matchLabels": ["a"]}}), "spec cannot be read: ")]
    #[case::text(json!("text"), "spec cannot be read: ")]
    #[case::probability(json!({"probability": "30"}), "spec.probability: ")]
    #[case::priority(json!({"koordinatorPriority": -5}), "spec.koordinatorPriority: -5 ")]
    #[case::patch(json!({"patch": "text"}), "spec.patch: ")]
    #[case::long(json!({"labels": {"a": "x".repeat(LONGEST_SPEC)}}), "spec is longer than 65536 bytes")]
    fn what_is_wrong_with_a_profile_is_told(#[case] spec: Value, #[case] told: &str) {
        let known = keep(&spec);
        let fault = known.fault().unwrap();
        assert!(fault.starts_with(told), "{fault}");
    }

    #[test]
    fn a_specification_that_is_too_deep_spoils_nothing() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let text = format!(r#"{{"metadata": {{"name": "p"}}, "spec": {{"patch": {deep}}}}}"#);
        let object: WatchedProfile = serde_json::from_str(&text).unwrap();
        assert!(object.keep().unwrap().fault().is_some());
    }

    #[test]
    fn a_profile_that_is_being_deleted_counts_as_absent() {
        let metadata = json!({"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let object: WatchedProfile =
            serde_json::from_str(&json!({"metadata": metadata, "spec": {}}).to_string()).unwrap();
        assert!(object.keep().is_none());
    }
}
