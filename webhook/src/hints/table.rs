//! The hint table as a shared handle.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use headroom_domain::hint::{Asked, Found, NodeHint, Table, Verdict};

/// The newest hint of each node, shared by streams, admission and the debug service.
#[derive(Debug, Default)]
pub struct Hints {
    table: Mutex<Table>,
}

impl Hints {
    /// Takes a hint in, if it is newer than the one held.
    pub fn offer(&self, hint: NodeHint, now: Duration) -> Verdict {
        self.lock().insert(hint, now)
    }

    /// The newest hint of a node with its age.
    pub fn get(&self, node: &str, now: Duration) -> Option<(Arc<NodeHint>, Duration)> {
        self.lock().get(node, now)
    }

    /// What counts for a node. See [`Table::lookup`].
    pub fn lookup(&self, asked: &Asked<'_>, now: Duration) -> Option<Found> {
        self.lock().lookup(asked, now)
    }

    /// Notes what a stored Node says. See [`Table::see`].
    pub fn see(&self, asked: &Asked<'_>, now: Duration) {
        self.lock().see(asked, now);
    }

    /// Notes that a node's stream has ended.
    pub fn leave(&self, node: &str) {
        self.lock().leave(node);
    }

    /// Forgets a node that is gone.
    pub fn forget(&self, node: &str) {
        self.lock().remove(node);
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use headroom_domain::{
        estimate::Profile,
        hint::{ResourceHint, Sight, Signals},
        ratio::Cents,
        resource::PerResource,
    };

    use super::*;

    /// A hint for the Node with UID `u1`: CPU 1.28, memory 1.00.
    pub(crate) fn hint(node: &str, seq: u64) -> NodeHint {
        let resource = |cents| ResourceHint {
            published: Cents(cents),
            target: Cents(cents),
            ..ResourceHint::default()
        };
        NodeHint {
            node: node.to_owned(),
            node_uid: "u1".to_owned(),
            boot_id: "b1".to_owned(),
            seq,
            is_primary: true,
            pods_generation: 1,
            sight: Sight::Full,
            timing: Profile::Production,
            is_draining: false,
            resources: PerResource {
                cpu: resource(128),
                memory: resource(100),
            },
            trust: Vec::new(),
            signals: Signals::default(),
        }
    }

    #[test]
    fn a_hint_is_found_until_its_node_is_forgotten() {
        let hints = Hints::default();
        let asked = Asked {
            node: "n1",
            uid: "u1",
            ..Asked::default()
        };
        let found = || hints.lookup(&asked, Duration::ZERO).map(|found| found.note.seq);
        assert_eq!(hints.offer(hint("n1", 2), Duration::ZERO), Verdict::Accepted);
        assert_eq!(
            hints.offer(hint("n1", 1), Duration::ZERO),
            Verdict::Stale { held: 2 }
        );
        assert_eq!(found(), Some(2));
        hints.forget("n1");
        assert_eq!(found(), None);
    }
}
