//! Store of Koordinator's `ClusterColocationProfile` objects: names, versions and specifications as they are written.
//! Whether their selectors can be read is counted.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use headroom_domain::selector::LabelSelector;
use k8s_openapi::{ClusterResourceScope, Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::store::{arrivals::Arrivals, informer::Store, metrics::PROFILES};

/// API group of colocation profiles.
pub const GROUP: &str = "config.koordinator.sh";
/// API version of colocation profiles.
pub const VERSION: &str = "v1alpha1";
/// Colocation profiles in plural.
pub const PLURAL: &str = "clustercolocationprofiles";

/// Longest specification that is kept, in bytes.
const LONGEST_SPEC: usize = 64 << 10;

/// A `ClusterColocationProfile` as the API server sends it.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct WatchedProfile {
    /// Name and version.
    pub metadata: ObjectMeta,
    /// What it does to which pods. Its text is not read any deeper, however deep it is.
    #[serde(default)]
    pub spec: Option<Box<RawValue>>,
}

/// A colocation profile.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Its resource version, as written.
    pub version: Box<str>,
    /// Its specification as JSON, at most 64 KiB; `None` for one that is longer or not there.
    pub spec: Option<Box<RawValue>>,
    /// True if its specification is there and its selectors can be read.
    pub is_valid: bool,
}

/// All profiles by name.
pub type ProfileListing = BTreeMap<Box<str>, Arc<Profile>>;

/// All colocation profiles.
#[derive(Debug)]
pub struct Profiles {
    arrivals: Arrivals,
    profiles: RwLock<ProfileListing>,
}

/// The selectors of a specification.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenSelectors {
    namespace_selector: Option<LabelSelector>,
    selector: Option<LabelSelector>,
}

impl Profiles {
    /// No profiles; those that come are told to who waits for one.
    pub fn new(arrivals: Arrivals) -> Self {
        Self {
            arrivals,
            profiles: RwLock::default(),
        }
    }

    /// All profiles, by name.
    pub fn all(&self) -> ProfileListing {
        self.read().clone()
    }

    /// Counts what is there now.
    fn count(&self) {
        let (mut valid, mut invalid) = (0_u32, 0_u32);
        for profile in self.read().values() {
            let count = if profile.is_valid {
                &mut valid
            } else {
                &mut invalid
            };
            *count = count.saturating_add(1);
        }
        PROFILES.with(["valid"]).set(f64::from(valid));
        PROFILES.with(["invalid"]).set(f64::from(invalid));
    }

    fn read(&self) -> RwLockReadGuard<'_, ProfileListing> {
        self.profiles.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, ProfileListing> {
        self.profiles.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Profiles {
    type Object = WatchedProfile;
    type Listing = ProfileListing;

    fn list(listing: &mut ProfileListing, object: WatchedProfile) {
        if let Some((name, profile)) = read(object) {
            listing.insert(name, profile);
        }
    }

    fn replace(&self, listing: ProfileListing) {
        *self.write() = listing;
        self.count();
        self.arrivals.notify();
    }

    fn apply(&self, object: WatchedProfile) {
        if let Some((name, profile)) = read(object) {
            self.write().insert(name, profile);
        }
        self.count();
        self.arrivals.notify();
    }

    fn delete(&self, object: WatchedProfile) {
        let name = object.metadata.name.unwrap_or_default();
        self.write().remove(name.as_str());
        self.count();
    }

    fn set_known(&self, _is_known: bool) {}
}

/// The profile under its name; `None` if it has no name.
fn read(object: WatchedProfile) -> Option<(Box<str>, Arc<Profile>)> {
    let WatchedProfile { metadata, spec } = object;
    let spec = spec.filter(|spec| spec.get().len() <= LONGEST_SPEC);
    let profile = Profile {
        version: metadata.resource_version.unwrap_or_default().into(),
        is_valid: spec.as_deref().is_some_and(has_readable_selectors),
        spec,
    };
    Some((metadata.name?.into(), Arc::new(profile)))
}

fn has_readable_selectors(spec: &RawValue) -> bool {
    let Ok(WrittenSelectors {
        namespace_selector,
        selector,
    }) = serde_json::from_str(spec.get())
    else {
        return false;
    };
    let mut selectors = [namespace_selector, selector].into_iter().flatten();
    selectors.all(|selector| selector.to_koordinator_selector().is_ok())
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
    use serde_json::{Value, json};

    use super::*;

    fn object(name: &str, spec: &Value) -> WatchedProfile {
        let metadata = json!({"name": name, "resourceVersion": "7"});
        serde_json::from_str(&json!({"metadata": metadata, "spec": spec}).to_string()).unwrap()
    }

    fn is_valid(spec: &Value) -> bool {
        let (_, profile) = read(object("p", spec)).unwrap();
        profile.is_valid
    }

    #[test]
    fn a_profile_is_there_from_its_first_event_to_its_last() {
        let profiles = Profiles::new(Arrivals::default());
        let mut arrivals = profiles.arrivals.subscribe();
        profiles.apply(object("p", &json!({"priorityClassName": "koord-batch"})));
        assert!(arrivals.has_changed().unwrap());
        arrivals.mark_unchanged();
        let all = profiles.all();
        let spec = all.get("p").unwrap().spec.as_ref().unwrap();
        assert_eq!(spec.get(), r#"{"priorityClassName":"koord-batch"}"#);
        assert_eq!(all.get("p").unwrap().version.as_ref(), "7");
        profiles.delete(object("p", &json!({})));
        assert!(profiles.all().is_empty() && !arrivals.has_changed().unwrap());
        let mut listing = ProfileListing::default();
        Profiles::list(&mut listing, object("q", &json!({})));
        profiles.replace(listing);
        assert!(profiles.all().contains_key("q"));
    }

    #[test]
    fn a_profile_is_valid_if_its_selectors_can_be_read() {
        assert!(is_valid(&json!({})));
        assert!(is_valid(
            &json!({"selector": {"matchLabels": {"a": "b"}}, "unknown": {"x": [1]}})
        ));
        let unequal = |operator: &str| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": ["b"]}]});
        assert!(is_valid(&json!({"namespaceSelector": unequal("NotIn")})));
        assert!(!is_valid(&json!({"namespaceSelector": unequal("Unequal")})));
        assert!(!is_valid(&json!({"selector": {"matchLabels": ["a"]}})));
        assert!(!is_valid(&json!("text")));
        assert!(!is_valid(&Value::Null));
    }

    #[test]
    fn a_specification_that_is_too_long_or_too_deep_spoils_nothing() {
        let long = json!({"labels": {"a": "x".repeat(LONGEST_SPEC)}});
        let (_, profile) = read(object("p", &long)).unwrap();
        assert!(!profile.is_valid && profile.spec.is_none());

        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let text = format!(r#"{{"metadata": {{"name": "p"}}, "spec": {{"patch": {deep}}}}}"#);
        let (_, profile) = read(serde_json::from_str(&text).unwrap()).unwrap();
        assert!(profile.spec.is_some());
    }
}
