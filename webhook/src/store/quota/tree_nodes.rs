//! [`TreeNodes`]: the nodes of each quota tree, from Koordinator's ElasticQuotaProfiles.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use headroom_domain::{names, selector::LabelSelector};
use headroom_rules::quota::QuotaKey;
use k8s_openapi::{Metadata, NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::store::{informer::Store, lookup::TreeNodesLookup};

pub const GROUP: &str = "quota.koordinator.sh";
pub const VERSION: &str = "v1alpha1";
pub const PLURAL: &str = "elasticquotaprofiles";

/// An ElasticQuotaProfile as the API server sends it. One whose specification cannot be read selects no nodes, and spoils no
/// list.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct WatchedTree {
    #[serde(deserialize_with = "crate::store::object_meta::deserialize")]
    pub metadata: ObjectMeta,
    /// Selector of its nodes, and other fields.
    #[serde(default)]
    pub spec: Option<Box<RawValue>>,
}

/// The part of the specification that is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TreeSpec {
    node_selector: Option<LabelSelector>,
}

/// The nodes of all trees.
#[derive(Debug, Default)]
pub struct TreeNodes {
    trees: RwLock<TreeListing>,
}

/// Profiles by the tree that they name.
#[derive(Debug, Default)]
pub struct TreeListing {
    by_tree: HashMap<Box<str>, BTreeMap<QuotaKey, Option<Arc<LabelSelector>>>>,
    tree_of: HashMap<QuotaKey, Box<str>>,
}

impl WatchedTree {
    fn key(&self) -> QuotaKey {
        let metadata = &self.metadata;
        let text = |name: &Option<String>| name.as_deref().unwrap_or_default().into();
        (text(&metadata.namespace), text(&metadata.name))
    }

    /// The tree; empty for none.
    fn tree(&self) -> &str {
        let labels = self.metadata.labels.as_ref();
        let label = labels.and_then(|labels| labels.get(names::QUOTA_TREE_ID));
        label.map(String::as_str).unwrap_or_default()
    }

    /// Node selector, if Kubernetes accepts it: a pod with an unreadable condition would be refused.
    fn nodes(&self) -> Option<Arc<LabelSelector>> {
        let text = self.spec.as_deref().map(RawValue::get)?;
        let TreeSpec { node_selector } = serde_json::from_str(text).ok()?;
        let nodes = node_selector.filter(|selector| selector.to_selector().is_ok());
        nodes.map(Arc::new)
    }
}

impl TreeListing {
    fn set(&mut self, profile: &WatchedTree) {
        let key = profile.key();
        self.remove(&key);
        if profile.tree().is_empty() {
            return;
        }
        let profiles = self.by_tree.entry(profile.tree().into()).or_default();
        profiles.insert(key.clone(), profile.nodes());
        self.tree_of.insert(key, profile.tree().into());
    }

    fn remove(&mut self, key: &QuotaKey) {
        let Some(tree) = self.tree_of.remove(key) else {
            return;
        };
        if let Some(profiles) = self.by_tree.get_mut(&tree) {
            profiles.remove(key);
            if profiles.is_empty() {
                self.by_tree.remove(&tree);
            }
        }
    }
}

impl TreeNodes {
    pub fn clear(&self) {
        *self.write() = TreeListing::default();
    }

    fn read(&self) -> RwLockReadGuard<'_, TreeListing> {
        self.trees.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, TreeListing> {
        self.trees.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TreeNodesLookup for TreeNodes {
    fn nodes(&self, tree: &str, namespace: Option<&str>) -> Option<Arc<LabelSelector>> {
        let trees = self.read();
        let first: QuotaKey = (namespace.unwrap_or_default().into(), "".into());
        let ((own, _), nodes) = trees.by_tree.get(tree)?.range(first..).next()?;
        let is_meant = namespace.is_none_or(|namespace| namespace == &**own);
        nodes.clone().filter(|_| is_meant)
    }
}

impl Store for TreeNodes {
    type Object = WatchedTree;
    type Listing = TreeListing;

    fn list(listing: &mut TreeListing, object: WatchedTree) {
        listing.set(&object);
    }

    fn list_unreadable(&self, listing: &mut TreeListing, object: WatchedTree) {
        let (key, trees) = (object.key(), self.read());
        let Some(tree) = trees.tree_of.get(&key) else {
            return;
        };
        let known = trees.by_tree.get(tree).and_then(|profiles| profiles.get(&key));
        if let Some(nodes) = known {
            let profiles = listing.by_tree.entry(tree.clone()).or_default();
            profiles.insert(key.clone(), nodes.clone());
            listing.tree_of.insert(key, tree.clone());
        }
    }

    fn replace(&self, listing: TreeListing) {
        *self.write() = listing;
    }

    fn apply(&self, object: WatchedTree) {
        self.write().set(&object);
    }

    fn delete(&self, object: WatchedTree) {
        self.write().remove(&object.key());
    }

    /// The content stays: its source records whether it counts.
    fn set_known(&self, _is_known: bool) {}
}

impl k8s_openapi::Resource for WatchedTree {
    const API_VERSION: &'static str = "quota.koordinator.sh/v1alpha1";
    const GROUP: &'static str = GROUP;
    const KIND: &'static str = "ElasticQuotaProfile";
    const VERSION: &'static str = VERSION;
    const URL_PATH_SEGMENT: &'static str = PLURAL;
    type Scope = NamespaceResourceScope;
}

impl Metadata for WatchedTree {
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

    fn profile(namespace: &str, name: &str, tree: &str, spec: &Value) -> WatchedTree {
        let labels = json!({"quota.scheduling.koordinator.sh/tree-id": tree});
        let object =
            json!({"metadata": {"namespace": namespace, "name": name, "labels": labels}, "spec": spec});
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn pool(pool: &str) -> Value {
        json!({"nodeSelector": {"matchLabels": {"pool": pool}}, "quotaName": "q"})
    }

    fn pool_of(trees: &TreeNodes, tree: &str) -> Option<String> {
        let nodes = trees.nodes(tree, None)?;
        nodes.match_labels.get("pool").cloned()
    }

    #[test]
    fn the_first_profile_of_a_tree_counts() {
        let trees = TreeNodes::default();
        trees.apply(profile("b", "a", "t", &pool("later")));
        assert_eq!(pool_of(&trees, "t").as_deref(), Some("later"));
        trees.apply(profile("a", "z", "t", &pool("first")));
        assert_eq!(pool_of(&trees, "t").as_deref(), Some("first"));
        // It moves to another tree, and is deleted.
        trees.apply(profile("a", "z", "u", &pool("first")));
        assert_eq!(pool_of(&trees, "t").as_deref(), Some("later"));
        assert_eq!(pool_of(&trees, "u").as_deref(), Some("first"));
        trees.delete(profile("a", "z", "u", &Value::Null));
        assert_eq!(pool_of(&trees, "u"), None);
        trees.replace(TreeListing::default());
        assert_eq!(pool_of(&trees, "t"), None);
    }

    #[test]
    fn profiles_count_in_the_namespace_of_the_root() {
        let trees = TreeNodes::default();
        trees.apply(profile("attacker", "a", "t", &pool("theirs")));
        assert_eq!(trees.nodes("t", Some("owner")), None);
        trees.apply(profile("owner", "z", "t", &pool("own")));
        trees.apply(profile("owner2", "a", "t", &pool("other")));
        let nodes = trees.nodes("t", Some("owner")).unwrap();
        assert_eq!(nodes.match_labels.get("pool").map(String::as_str), Some("own"));
    }

    #[test]
    fn a_profile_without_a_selector_that_can_be_read_says_nothing() {
        let trees = TreeNodes::default();
        for spec in [
            Value::Null,
            json!({}),
            json!({"nodeSelector": 1}),
            json!({"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}),
        ] {
            trees.apply(profile("a", "a", "t", &spec));
            trees.apply(profile("b", "b", "t", &pool("other")));
            assert_eq!(trees.nodes("t", None), None, "{spec}");
        }
        trees.apply(profile("c", "c", "", &pool("none")));
        assert_eq!(trees.nodes("", None), None);
    }
}
