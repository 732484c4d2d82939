//! [`ByName`]: a store of objects by name, or by namespace and name, which keeps a part of each object.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, PoisonError, RwLock},
};

use kube::Resource;
use serde::de::DeserializeOwned;

use crate::store::{arrivals::Arrivals, informer::Store};

/// A kind of objects of which a part is kept.
pub trait Keep: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static {
    type Kept: Debug + Send + Sync + 'static;

    /// The part of an object; `None` for an object that counts as absent.
    fn keep(&self) -> Option<Self::Kept>;

    /// Key of an object in the listing: its name, or for a namespaced kind [`namespaced`].
    fn key(&self) -> Option<Cow<'_, str>> {
        self.meta().name.as_deref().map(Cow::Borrowed)
    }

    /// Called with everything that is there after each change.
    fn changed(_all: &Listing<Self::Kept>) {}
}

/// Kept parts, by the keys of the objects.
pub type Listing<V> = BTreeMap<Box<str>, Arc<V>>;

/// The kept parts of all objects of a kind.
#[derive(Debug)]
pub struct ByName<K: Keep> {
    arrivals: Arrivals,
    all: RwLock<Arc<Listing<K::Kept>>>,
}

impl<K: Keep> ByName<K> {
    /// Empty store. Each list, addition and update notifies `arrivals`.
    pub fn new(arrivals: Arrivals) -> Self {
        Self {
            arrivals,
            all: RwLock::default(),
        }
    }

    /// Everything that is there now.
    pub fn all(&self) -> Arc<Listing<K::Kept>> {
        Arc::clone(&self.all.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Kept part of an object; `None` if no object has the key.
    pub fn get(&self, key: &str) -> Option<Arc<K::Kept>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.get(key).map(Arc::clone)
    }

    pub fn clear(&self) {
        self.change(Listing::clear);
    }

    /// Changes the map; copies it first if a reader still holds a snapshot.
    fn change(&self, change: impl FnOnce(&mut Listing<K::Kept>)) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut all));
        K::changed(&all);
    }
}

impl<K: Keep> Store for ByName<K> {
    type Object = K;
    type Listing = Listing<K::Kept>;

    fn list(listing: &mut Self::Listing, object: K) {
        insert(listing, &object);
    }

    fn list_unreadable(&self, listing: &mut Self::Listing, object: K) {
        let key = object.key().unwrap_or_default();
        if let Some(kept) = self.get(&key) {
            listing.insert(key.into(), kept);
        }
    }

    fn replace(&self, listing: Self::Listing) {
        self.change(|all| *all = listing);
        self.arrivals.notify();
    }

    fn apply(&self, object: K) {
        self.change(|all| insert(all, &object));
        self.arrivals.notify();
    }

    fn delete(&self, object: K) {
        let key = object.key().unwrap_or_default();
        self.change(|all| {
            all.remove(&*key);
        });
    }

    /// Does nothing: the informer's known state decides if readers use the content, so the content is kept.
    fn set_known(&self, _is_known: bool) {}
}

fn insert<K: Keep>(all: &mut Listing<K::Kept>, object: &K) {
    let Some(key) = object.key() else {
        return;
    };
    match object.keep() {
        Some(kept) => {
            all.insert(key.into(), Arc::new(kept));
        }
        None => {
            all.remove(&*key);
        }
    }
}

/// Key of a namespaced object: `namespace/name`.
pub fn namespaced(object: &impl Resource) -> Option<Cow<'_, str>> {
    let meta = object.meta();
    let (namespace, name) = (meta.namespace.as_deref()?, meta.name.as_deref()?);
    Some(Cow::Owned(namespaced_key(namespace, name)))
}

/// Key of the object of this name in a namespace.
pub fn namespaced_key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use serde_json::{Value, json};

    use super::*;

    /// The labels, unless the namespace is being deleted.
    impl Keep for Namespace {
        type Kept = usize;

        fn keep(&self) -> Option<usize> {
            let is_there = self.metadata.deletion_timestamp.is_none();
            is_there.then(|| self.metadata.labels.as_ref().map_or(0, BTreeMap::len))
        }
    }

    fn object(name: &str, metadata: &Value) -> Namespace {
        let mut object = json!({"metadata": metadata});
        object["metadata"]["name"] = name.into();
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn an_object_is_there_from_its_first_event_to_its_last() {
        let store = ByName::<Namespace>::new(Arrivals::default());
        let mut arrivals = store.arrivals.subscribe();
        store.apply(object("a", &json!({})));
        assert!(arrivals.has_changed().unwrap());
        let before = store.all();
        store.apply(object("a", &json!({"labels": {"x": "1"}})));
        assert_eq!(store.get("a").as_deref(), Some(&1));
        assert_eq!(
            before.get("a").map(|kept| **kept),
            Some(0),
            "a snapshot stays as it is"
        );
        arrivals.mark_unchanged();
        store.delete(object("a", &json!({})));
        assert!(store.get("a").is_none() && !arrivals.has_changed().unwrap());

        let mut listing = Listing::default();
        ByName::<Namespace>::list(&mut listing, object("b", &json!({})));
        ByName::<Namespace>::list(&mut listing, object("c", &json!({})));
        store.replace(listing);
        assert_eq!(store.all().len(), 2);
        store.apply(object("b", &json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})));
        assert!(store.get("b").is_none(), "it counts as absent");
        store.clear();
        assert!(store.all().is_empty());
    }
}
