//! Store of the cluster's Nodes: a slim copy that follows the API server.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use headroom_domain::{capacity::recorded_places, selector::Labels};
use headroom_rules::slo;

use crate::store::{
    changes::{Changes, Urgency},
    clock::Clock,
    hint_table::HintTable,
    informer::Store,
    node::{Node, object::WatchedNode},
    pods::Pods,
    ratio_owner_conflict::RatioOwnerConflicts,
};

/// All Nodes by name. The hints of a Node are removed when it is deleted or created again.
#[derive(Debug)]
pub struct Nodes {
    changes: Arc<Changes>,
    hints: Arc<HintTable>,
    /// Receives the places on record of a Node that is seen for the first time.
    pods: Arc<Pods>,
    clock: Arc<Clock>,
    ratio_conflicts: RatioOwnerConflicts,
    state: RwLock<NodesState>,
}

pub type NodeListing = HashMap<String, Arc<Node>>;

#[derive(Debug, Default)]
struct NodesState {
    has_synced: bool,
    nodes: NodeListing,
}

impl Nodes {
    /// Empty store; changes are announced to the followers of the node.
    pub fn new(changes: Arc<Changes>, hints: Arc<HintTable>, pods: Arc<Pods>, clock: Arc<Clock>) -> Self {
        Self {
            changes,
            hints,
            pods,
            clock,
            ratio_conflicts: RatioOwnerConflicts::default(),
            state: RwLock::default(),
        }
    }

    /// True while all Nodes are known: they were listed, and the watch is healthy.
    pub fn has_synced(&self) -> bool {
        self.read().has_synced
    }

    /// The Node of that name.
    pub fn get(&self, name: &str) -> Option<Arc<Node>> {
        self.read().nodes.get(name).map(Arc::clone)
    }

    pub fn all(&self) -> Vec<Arc<Node>> {
        let mut all: Vec<_> = self.read().nodes.values().map(Arc::clone).collect();
        all.sort_by(|left, right| left.name.cmp(&right.name));
        all
    }

    /// Name of any Node.
    pub fn any_name(&self) -> Option<String> {
        self.read().nodes.keys().next().cloned()
    }

    pub fn len(&self) -> usize {
        self.read().nodes.len()
    }

    /// True if there are none, or none are known.
    pub fn is_empty(&self) -> bool {
        self.read().nodes.is_empty()
    }

    /// True while another controller keeps writing the ratio of that node; `None` if that is not known.
    pub fn is_contested(&self, name: &str) -> Option<bool> {
        self.has_synced()
            .then(|| self.ratio_conflicts.is_contested(name, self.clock.now()))?
    }

    fn read(&self) -> RwLockReadGuard<'_, NodesState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, NodesState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the time since which the Node has its current hint annotation.
    fn observe(&self, node: &Node) {
        self.hints.observe_node(&node.asked(), self.clock.now());
    }

    /// Takes over the places on record of a Node that this replica has not seen. Before the Node counts as known: a
    /// decision without them would lower it.
    fn inherit_places(&self, node: &Node) {
        if self.get(&node.name).is_none() {
            let recorded = recorded_places(&node.state.annotations, &node.uid);
            self.pods.inherit_places(&node.name, &recorded);
        }
    }

    /// Removes the hints of a Node object that `now` is not, records its annotations, and notifies followers.
    fn notify(&self, name: &str, before: Option<&Node>, now: Option<&Node>) {
        if let Some(before) = before
            && now.is_none_or(|now| now.uid != before.uid)
        {
            self.hints.forget(name);
            self.ratio_conflicts.forget(name);
        }
        if let Some(now) = now {
            if let Some(before) = before {
                self.ratio_conflicts.observe(before, now, self.clock.now());
            }
            self.observe(now);
        }
        if before != now {
            self.changes.notify(name, Urgency::Usual);
        }
    }
}

impl slo::Nodes for Nodes {
    fn visit(&self, visitor: &mut dyn FnMut(&str, &Labels)) {
        let nodes: Vec<_> = self.read().nodes.values().map(Arc::clone).collect();
        // The lock is released while the visitor runs, so it delays no one.
        for node in nodes {
            visitor(&node.name, &node.labels);
        }
    }
}

impl Store for Nodes {
    type Object = WatchedNode;
    type Listing = NodeListing;

    fn list(listing: &mut NodeListing, object: WatchedNode) {
        let node = Arc::new(Node::from(object));
        listing.insert(node.name.clone(), node);
    }

    fn list_unreadable(&self, listing: &mut NodeListing, object: WatchedNode) {
        let name = object.metadata.name.unwrap_or_default();
        if let Some(node) = self.get(&name) {
            listing.insert(name, node);
        }
    }

    fn replace(&self, listing: NodeListing) {
        for node in listing.values() {
            self.inherit_places(node);
        }
        let before = {
            let mut state = self.write();
            state.has_synced = true;
            std::mem::replace(&mut state.nodes, listing)
        };
        for (name, node) in &before {
            self.notify(name, Some(node), self.get(name).as_deref());
        }
        for node in self.all() {
            if !before.contains_key(&node.name) {
                self.notify(&node.name, None, Some(&node));
            }
        }
    }

    fn apply(&self, object: WatchedNode) {
        let node = Arc::new(Node::from(object));
        self.inherit_places(&node);
        let before = self.write().nodes.insert(node.name.clone(), Arc::clone(&node));
        self.notify(&node.name, before.as_deref(), Some(&node));
    }

    fn delete(&self, object: WatchedNode) {
        let name = object.metadata.name.unwrap_or_default();
        let before = self.write().nodes.remove(&name);
        self.notify(&name, before.as_deref(), None);
    }

    fn set_known(&self, is_known: bool) {
        self.write().has_synced = is_known;
        self.changes.ring_all(Urgency::Usual);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use headroom_domain::hint::ReportVerdict;
    use serde_json::json;

    use super::*;
    use crate::store::hint_table::tests::hint;

    struct NodeEvents {
        changes: Arc<Changes>,
        hints: Arc<HintTable>,
        nodes: Nodes,
    }

    fn world() -> NodeEvents {
        let (changes, hints) = (Arc::new(Changes::default()), Arc::new(HintTable::default()));
        let pods = Arc::new(Pods::new(Arc::clone(&changes), Arc::default()));
        let nodes = Nodes::new(Arc::clone(&changes), Arc::clone(&hints), pods, Arc::default());
        NodeEvents {
            changes,
            hints,
            nodes,
        }
    }

    fn object(uid: &str, version: u64) -> WatchedNode {
        let metadata = json!({"name": "n1", "uid": uid, "resourceVersion": version.to_string()});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn list(nodes: &Nodes, objects: impl IntoIterator<Item = WatchedNode>) {
        let mut listing = NodeListing::default();
        for object in objects {
            Nodes::list(&mut listing, object);
        }
        nodes.replace(listing);
    }

    #[test]
    fn a_node_is_there_from_its_first_event_to_its_last() {
        let NodeEvents { nodes, .. } = world();
        assert!(!nodes.has_synced() && nodes.get("n1").is_none());
        list(&nodes, [object("u1", 1)]);
        assert!(nodes.has_synced() && nodes.len() == 1);
        nodes.apply(object("u1", 2));
        assert_eq!(nodes.get("n1").unwrap().version, 2);
        nodes.delete(object("u1", 3));
        assert!(nodes.is_empty());
    }

    #[test]
    fn hints_go_with_the_node_object_they_are_for() {
        let ways: [fn(&Nodes); 4] = [
            |nodes| nodes.delete(object("u1", 2)),
            |nodes| nodes.apply(object("u2", 2)),
            |nodes| list(nodes, []),
            |nodes| list(nodes, [object("u2", 2)]),
        ];
        for way in ways {
            let NodeEvents { hints, nodes, .. } = world();
            nodes.apply(object("u1", 1));
            assert_eq!(
                hints.offer(hint("n1", 1), Duration::ZERO),
                ReportVerdict::Accepted
            );
            nodes.apply(object("u1", 2));
            list(&nodes, [object("u1", 2)]);
            assert!(hints.get("n1", Duration::ZERO).is_some());
            way(&nodes);
            assert!(hints.get("n1", Duration::ZERO).is_none());
        }
    }

    #[test]
    fn places_on_record_are_taken_over_from_a_node_that_is_seen_for_the_first_time() {
        let marker = json!({
            "cpu": "2",
            "from": {"cpu": {"raw": "1", "places": {"daemonSets": 400}}},
            "uid": "u1",
        });
        let annotations = json!({"headroom.sh/amplified-allocatable": marker.to_string()});
        let object = |uid: &str| -> WatchedNode {
            let metadata =
                json!({"name": "n1", "uid": uid, "resourceVersion": "1", "annotations": annotations});
            serde_json::from_value(json!({"metadata": metadata})).unwrap()
        };
        let open = |nodes: &Nodes| {
            nodes
                .pods
                .with_node("n1", |bound| bound.places.sums(nodes.clock.now()).cpu.total())
        };
        let NodeEvents { nodes, .. } = world();
        list(&nodes, [object("u1")]);
        assert_eq!(open(&nodes), 400);
        list(&nodes, [object("u1")]);
        nodes.apply(object("u1"));
        assert_eq!(open(&nodes), 400, "once");
        let NodeEvents { nodes, .. } = world();
        nodes.apply(object("u2"));
        assert_eq!(open(&nodes), 0, "the record of another Node of this name");
    }

    #[test]
    fn every_change_is_told() {
        let NodeEvents { changes, nodes, .. } = world();
        let mut followed = changes.follow("n1");
        let mut is_told = || {
            let is_told = followed.has_changed().unwrap();
            followed.mark_unchanged();
            is_told
        };
        list(&nodes, [object("u1", 1)]);
        assert!(is_told());
        list(&nodes, [object("u1", 1)]);
        assert!(!is_told());
        nodes.apply(object("u1", 2));
        assert!(is_told());
        nodes.delete(object("u1", 3));
        assert!(is_told());
    }
}
