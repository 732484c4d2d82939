//! Shared hint table: the newest hint of each node and the contradictions found in its reports.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

use headroom_domain::{
    hint::{
        ByKubelet, Contradiction, EffectiveHint, HintQuery, NodeHint, Note, ReportCheck, ReportVerdict, Table,
    },
    resource::PerResource,
};

/// Age above which a report of a live stream no longer describes the present.
const RECENT: Duration = Duration::from_secs(60);

/// Newest hint of each node and its contradictions, shared by streams, admission and the debug service.
#[derive(Debug, Default)]
pub struct HintTable {
    /// Read at every write of a Node that admission decides, written by reports: readers do not wait for each other.
    table: RwLock<Table>,
    /// Never locked while `table` is.
    checks: Mutex<HashMap<String, ReportCheck>>,
}

/// The contradiction in a node's reports, before a check and after it.
pub type ContradictionChange = (Option<Contradiction>, Option<Contradiction>);

impl HintTable {
    /// Stores a hint if it is newer than the stored one.
    pub fn offer(&self, hint: NodeHint, now: Duration) -> ReportVerdict {
        self.write().insert(hint, now)
    }

    /// The newest hint of a node with its age.
    pub fn get(&self, node: &str, now: Duration) -> Option<(Arc<NodeHint>, Duration)> {
        self.read().get(node, now)
    }

    /// The hint in force for a node. See [`Table::lookup`].
    pub fn lookup(&self, asked: &HintQuery<'_>, now: Duration) -> Option<EffectiveHint> {
        self.read().lookup(asked, now)
    }

    /// Records a Node as the watch brought it. See [`Table::observe_node`] and [`ReportCheck::record`].
    pub fn observe_node(&self, asked: &HintQuery<'_>, now: Duration) {
        self.write().observe_node(asked, now);
        let contradiction = asked.note().and_then(Note::contradiction);
        let mut checks = self.checks();
        if contradiction.is_some() {
            let check = checks.entry(asked.node.to_owned()).or_default();
            check.record(contradiction, now);
        } else if let Some(check) = checks.get_mut(asked.node) {
            check.record(None, now);
        }
    }

    /// Notes that a node's stream has ended.
    pub fn leave(&self, node: &str) {
        self.write().leave(node);
    }

    /// Removes a deleted node.
    pub fn forget(&self, node: &str) {
        self.write().remove(node);
        self.checks().remove(node);
    }

    /// Compares the newest report of a node with the Node.
    pub fn check_report(&self, node: &str, kubelet: &ByKubelet, now: Duration) -> ContradictionChange {
        let Some((hint, _)) = self.get(node, now) else {
            return (None, None);
        };
        self.update(node, now, |check| check.report(&hint, kubelet, now))
    }

    /// Compares the newest report of a node, if it is recent, with the use by its kubelet, in milli-cores and bytes.
    pub fn try_use(&self, node: &str, used: PerResource<u64>, now: Duration) -> ContradictionChange {
        match self.get(node, now) {
            Some((hint, age)) if age <= RECENT => {
                self.update(node, now, |check| check.compare(&hint, used, now))
            }
            Some(_) | None => (None, None),
        }
    }

    /// The contradiction in a node's reports, if any: the node is not amplified then.
    pub fn quarantine(&self, node: &str, now: Duration) -> Option<Contradiction> {
        self.checks().get(node)?.verdict(now)
    }

    /// True if a contradiction counts that the Node has on record. See [`ReportCheck::upholds`].
    pub fn upholds(&self, node: &str, contradiction: Contradiction, now: Duration) -> bool {
        let checks = self.checks();
        let check = checks.get(node);
        check.is_none_or(|check| check.upholds(contradiction, now))
    }

    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// True if no node has a hint.
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    fn update(
        &self,
        node: &str,
        now: Duration,
        update: impl FnOnce(&mut ReportCheck),
    ) -> ContradictionChange {
        let mut checks = self.checks();
        let check = checks.entry(node.to_owned()).or_default();
        let before = check.verdict(now);
        update(check);
        (before, check.verdict(now))
    }

    fn checks(&self) -> MutexGuard<'_, HashMap<String, ReportCheck>> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use headroom_domain::{
        estimate::Profile,
        hint::{AgentMode, ResourceHint},
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
            sight: AgentMode::Full,
            timing: Profile::Production,
            is_draining: false,
            resources: PerResource {
                cpu: resource(128),
                memory: resource(100),
            },
            trust: Vec::new(),
            steal_ppm: 0,
            signals: Vec::new(),
            past: None,
            frame_use: None,
        }
    }

    #[test]
    fn a_hint_is_found_until_its_node_is_forgotten() {
        let hints = HintTable::default();
        let asked = HintQuery {
            node: "n1",
            uid: "u1",
            ..HintQuery::default()
        };
        let found = || hints.lookup(&asked, Duration::ZERO).map(|found| found.note.seq);
        assert_eq!(
            hints.offer(hint("n1", 2), Duration::ZERO),
            ReportVerdict::Accepted
        );
        assert_eq!(
            hints.offer(hint("n1", 1), Duration::ZERO),
            ReportVerdict::Stale { held: 2 }
        );
        assert_eq!(found(), Some(2));
        hints.forget("n1");
        assert_eq!(found(), None);
    }
}
