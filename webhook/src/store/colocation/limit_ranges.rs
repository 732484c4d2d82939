//! [`LimitRanges`]: the LimitRanges that give cpu or memory to containers without them, by namespace.

use std::{
    collections::BTreeMap,
    sync::{PoisonError, RwLock},
};

use headroom_rules::mixed_resources::DefaultResources;
use k8s_openapi::{Metadata, NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use crate::store::{informer::Store, lookup::LimitRangeLookup};

/// Most LimitRanges that are kept. Pods in namespaces of further ones get no warning of them.
const MOST: usize = 16_384;

/// Most LimitRanges that are kept of one namespace, whose users may create any number.
const MOST_OF_NAMESPACE: usize = 16;

/// A LimitRange as the API server sends it. One whose specification cannot be read gives nothing, and spoils no list.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct WatchedLimits {
    #[serde(deserialize_with = "crate::store::object_meta::deserialize")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: Option<Box<RawValue>>,
}

/// The part of the specification that is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LimitSpec {
    limits: Vec<Limit>,
}

/// One entry of a LimitRange. The API server completes the defaults when it stores the object.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Limit {
    #[serde(rename = "type")]
    of: String,
    default: Option<DefaultAmounts>,
    default_request: Option<DefaultAmounts>,
}

/// Resources with a default, and the amounts, which no rule reads.
type DefaultAmounts = Map<String, Value>;

/// Namespace and name.
type LimitKey = (Box<str>, Box<str>);

/// LimitRanges with defaults, sorted by namespace.
#[derive(Debug, Default)]
pub struct LimitListing(BTreeMap<LimitKey, DefaultResources>);

/// The LimitRanges with defaults of all namespaces.
#[derive(Debug, Default)]
pub struct LimitRanges {
    all: RwLock<LimitListing>,
}

impl WatchedLimits {
    fn key(&self) -> LimitKey {
        let text = |name: &Option<String>| name.as_deref().unwrap_or_default().into();
        (text(&self.metadata.namespace), text(&self.metadata.name))
    }

    fn defaults(&self) -> DefaultResources {
        let text = self.spec.as_deref().map_or("{}", RawValue::get);
        let LimitSpec { limits } = serde_json::from_str(text).unwrap_or_default();
        let of_containers = || limits.iter().filter(|limit| limit.of == "Container");
        let gives = |name: &str| {
            let has =
                |given: &Option<DefaultAmounts>| given.as_ref().is_some_and(|given| given.contains_key(name));
            of_containers().any(|limit| has(&limit.default) || has(&limit.default_request))
        };
        DefaultResources {
            cpu: gives("cpu"),
            memory: gives("memory"),
        }
    }
}

impl LimitListing {
    fn set(&mut self, object: &WatchedLimits) {
        let Self(all) = self;
        let (key, defaults) = (object.key(), object.defaults());
        all.remove(&key);
        let is_full = all.len() >= MOST || self.of_namespace(&key.0).count() >= MOST_OF_NAMESPACE;
        if !defaults.is_empty() && !is_full {
            self.0.insert(key, defaults);
        }
    }

    fn of_namespace<'l>(&'l self, namespace: &'l str) -> impl Iterator<Item = (&'l str, DefaultResources)> {
        let first: LimitKey = (namespace.into(), Box::default());
        let from = self.0.range(first..);
        from.take_while(move |((of, _), _)| &**of == namespace)
            .map(|((_, name), defaults)| (&**name, *defaults))
    }
}

impl LimitRanges {
    pub fn clear(&self) {
        self.change(|all| *all = LimitListing::default());
    }

    fn change(&self, change: impl FnOnce(&mut LimitListing)) {
        change(&mut self.all.write().unwrap_or_else(PoisonError::into_inner));
    }
}

impl LimitRangeLookup for LimitRanges {
    fn limit_ranges(&self, namespace: &str) -> Vec<(String, DefaultResources)> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let found = all.of_namespace(namespace);
        found
            .map(|(name, defaults)| (name.to_owned(), defaults))
            .collect()
    }
}

impl Store for LimitRanges {
    type Object = WatchedLimits;
    type Listing = LimitListing;

    fn list(listing: &mut LimitListing, object: WatchedLimits) {
        listing.set(&object);
    }

    fn list_unreadable(&self, listing: &mut LimitListing, object: WatchedLimits) {
        let LimitListing(all) = &*self.all.read().unwrap_or_else(PoisonError::into_inner);
        let key = object.key();
        if let Some(defaults) = all.get(&key) {
            listing.0.insert(key, *defaults);
        }
    }

    fn replace(&self, listing: LimitListing) {
        self.change(|all| *all = listing);
    }

    fn apply(&self, object: WatchedLimits) {
        self.change(|all| all.set(&object));
    }

    fn delete(&self, object: WatchedLimits) {
        self.change(|LimitListing(all)| {
            all.remove(&object.key());
        });
    }

    /// The content stays: a warning from an older state does no harm.
    fn set_known(&self, _is_known: bool) {}
}

impl k8s_openapi::Resource for WatchedLimits {
    const API_VERSION: &'static str = "v1";
    const GROUP: &'static str = "";
    const KIND: &'static str = "LimitRange";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "limitranges";
    type Scope = NamespaceResourceScope;
}

impl Metadata for WatchedLimits {
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

    fn limits(namespace: &str, name: &str, spec: &Value) -> WatchedLimits {
        let object = json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec});
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn of_cpu() -> Value {
        json!({"limits": [{"type": "Container", "default": {"cpu": "1"}}]})
    }

    fn names(store: &LimitRanges, namespace: &str) -> Vec<String> {
        let found = store.limit_ranges(namespace).into_iter();
        found.map(|(name, _)| name).collect()
    }

    #[test]
    fn a_limit_range_counts_in_its_namespace_until_it_is_deleted() {
        let store = LimitRanges::default();
        for (namespace, name) in [("a", "z"), ("a", "b"), ("aa", "c"), ("b", "d")] {
            store.apply(limits(namespace, name, &of_cpu()));
        }
        assert_eq!(names(&store, "a"), ["b", "z"]);
        store.delete(limits("a", "b", &Value::Null));
        assert_eq!(names(&store, "a"), ["z"]);
        store.replace(LimitListing::default());
        assert!(names(&store, "aa").is_empty());
    }

    #[test]
    fn only_defaults_of_containers_for_cpu_and_memory_count() {
        let store = LimitRanges::default();
        for (spec, expected) in [
            (of_cpu(), Some((true, false))),
            (
                json!({"limits": [{"type": "Container", "defaultRequest": {"memory": 1}}]}),
                Some((false, true)),
            ),
            (json!({"limits": [{"type": "Pod", "default": {"cpu": 1}}]}), None),
            (
                json!({"limits": [{"type": "Container", "max": {"cpu": 1}, "default": {"foo/bar": 1}}]}),
                None,
            ),
            (json!({"limits": 1}), None),
            (Value::Null, None),
        ] {
            store.apply(limits("a", "l", &of_cpu()));
            store.apply(limits("a", "l", &spec));
            let found = store.limit_ranges("a");
            let found = found.first().map(|(_, given)| (given.cpu, given.memory));
            assert_eq!(found, expected, "{spec}");
        }
    }

    #[test]
    fn the_number_of_kept_limit_ranges_is_bounded() {
        let mut listing = LimitListing::default();
        for number in 0..=MOST {
            listing.set(&limits(&number.to_string(), "l", &of_cpu()));
        }
        assert_eq!(listing.0.len(), MOST);
        let mut listing = LimitListing::default();
        for number in 0..100 {
            listing.set(&limits("a", &number.to_string(), &of_cpu()));
        }
        listing.set(&limits("b", "l", &of_cpu()));
        assert_eq!(listing.0.len(), MOST_OF_NAMESPACE + 1);
    }
}
