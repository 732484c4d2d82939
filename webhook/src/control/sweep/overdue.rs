//! Tracks lowerings that a primary has not written within five seconds, for Nodes whose agent has a stream to this
//! replica. The leader's sweep then writes them.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use headroom_domain::resource::{PerResource, Resource};
use tokio::time::Instant;

use crate::store::node::Node;

/// Time for which a lowering must have been due before the leader writes it. A primary writes within milliseconds,
/// except when a whole fleet is lowered at once.
const LATE: Duration = Duration::from_secs(5);

/// Start of a due lowering, and the stored value at that time.
#[derive(Debug)]
struct OverdueLowering {
    since: Instant,
    stored: PerResource<Option<u64>>,
}

/// Nodes with a lowering that is due, by name.
#[derive(Debug, Default)]
pub(super) struct Overdue {
    nodes: HashMap<String, OverdueLowering>,
}

impl Overdue {
    /// Records that a lowering is due; true if it has been due for long enough and nothing was lowered meanwhile. A report that
    /// asks for still less does not restart the wait.
    pub(super) fn is_late(&mut self, node: &Node, now: Instant) -> bool {
        let stored = node.state.amounts();
        let has_fallen = |before: &PerResource<Option<u64>>| {
            Resource::ALL
                .into_iter()
                .any(|resource| stored.get(resource) < before.get(resource))
        };
        match self.nodes.get(&node.name) {
            Some(due) if !has_fallen(&due.stored) => now.saturating_duration_since(due.since) >= LATE,
            Some(_) | None => {
                self.restart(node, now);
                false
            }
        }
    }

    /// Starts the wait of a Node, or restarts it after a write.
    pub(super) fn restart(&mut self, node: &Node, since: Instant) {
        let stored = node.state.amounts();
        self.nodes
            .insert(node.name.clone(), OverdueLowering { since, stored });
    }

    /// True if a lowering was due at the last check of the Node.
    pub(super) fn contains(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// Forgets the Nodes that are not to be lowered.
    pub(super) fn keep(&mut self, due: &HashSet<String>) {
        self.nodes.retain(|name, _| due.contains(name));
    }

    pub(super) fn clear(&mut self) {
        self.nodes.clear();
    }
}
