//! [`PodFan`]: the one watch of pods and the two stores that it fills, by node and by name.

use std::sync::Arc;

use tokio::sync::Notify;

use super::pods::{ByNameListing, PodsByName};
use crate::store::{
    informer::Store,
    pods::{PodListing, Pods, object::WatchedPod},
};

/// Passes each pod on to both stores.
#[derive(Debug)]
pub struct PodFan {
    /// The pods bound to each node.
    pub by_node: Arc<Pods>,
    /// All pods by name, filled once that is wanted.
    pub by_name: Arc<PodsByName>,
}

/// A list that is being received, for each store that wants it.
#[derive(Debug, Default)]
pub struct FanListing {
    by_node: PodListing,
    by_name: Option<ByNameListing>,
}

impl Store for PodFan {
    type Object = WatchedPod;
    type Listing = FanListing;

    fn relist(&self) -> Option<&Notify> {
        Some(self.by_name.wanted())
    }

    fn listing(&self) -> FanListing {
        FanListing {
            by_node: PodListing::default(),
            by_name: self.by_name.listing(),
        }
    }

    fn list(listing: &mut FanListing, object: WatchedPod) {
        if let Some(by_name) = &mut listing.by_name {
            by_name.insert(&object);
        }
        Pods::list(&mut listing.by_node, object);
    }

    fn list_unreadable(&self, listing: &mut FanListing, object: WatchedPod) {
        if let Some(by_name) = &mut listing.by_name {
            by_name.insert(&object);
        }
        self.by_node.list_unreadable(&mut listing.by_node, object);
    }

    fn replace(&self, listing: FanListing) {
        self.by_node.replace(listing.by_node);
        self.by_name.replace(listing.by_name);
    }

    fn apply(&self, object: WatchedPod) {
        self.by_name.apply(&object);
        self.by_node.apply(object);
    }

    /// By name it counts with the labels and annotations that could be read.
    fn apply_unreadable(&self, object: WatchedPod) {
        self.by_name.apply(&object);
        self.by_node.apply_unreadable(object);
    }

    fn delete(&self, object: WatchedPod) {
        self.by_name.delete(&object);
        self.by_node.delete(object);
    }

    fn set_known(&self, is_known: bool) {
        self.by_node.set_known(is_known);
        self.by_name.set_known(is_known);
    }
}
