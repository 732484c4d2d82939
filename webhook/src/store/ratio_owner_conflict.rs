//! Detects another controller that keeps overwriting the ratio annotation of a Node in `auto`, where the webhook owns
//! it.
//!
//! The watch of Nodes feeds [`RatioOwnerConflicts`]. A change counts if the ratio changed although the webhook's last write did
//! not, while the administrator's own value is put aside. The webhook's next write puts its ratio back, and that is
//! such a change too.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use headroom_domain::capacity::last_written;

use crate::store::node::Node;

/// Changes within [`WITHIN`] that make a conflict: three by another controller, and ours between them.
const CHANGES: usize = 5;
/// Time for which a change counts.
const WITHIN: Duration = Duration::from_secs(600);

/// The changes of each node's ratio that were not ours to make, and those that undid them.
#[derive(Debug, Default)]
pub struct RatioOwnerConflicts {
    changes: Mutex<HashMap<String, VecDeque<Duration>>>,
}

impl RatioOwnerConflicts {
    /// Records a write of a Node.
    pub fn observe(&self, before: &Node, after: &Node, now: Duration) {
        let is_ours = |node: &Node| node.state.annotations.static_ratio.is_some();
        let written = |node: &Node| last_written(&node.state.annotations, &node.uid);
        let is_rewritten = before.state.annotations.ratio != after.state.annotations.ratio;
        if before.uid != after.uid
            || !is_ours(before)
            || !is_ours(after)
            || !is_rewritten
            || written(before) != written(after)
        {
            return;
        }
        let mut all = self.lock();
        let changes = all.entry(after.name.clone()).or_default();
        changes.push_back(now);
        if changes.len() > CHANGES {
            changes.pop_front();
        }
    }

    /// True while another controller keeps writing the ratio of that node; `None` if this replica has not watched for
    /// long enough.
    pub fn is_contested(&self, node: &str, now: Duration) -> Option<bool> {
        let mut all = self.lock();
        if let Some(changes) = all.get_mut(node) {
            changes.retain(|at| now.saturating_sub(*at) <= WITHIN);
            if changes.len() >= CHANGES {
                return Some(true);
            }
            if changes.is_empty() {
                all.remove(node);
            }
        }
        (now >= WITHIN).then_some(false)
    }

    /// Removes a deleted node.
    pub fn forget(&self, node: &str) {
        self.lock().remove(node);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, VecDeque<Duration>>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use headroom_domain::names;
    use serde_json::Value;

    use super::*;
    use crate::store::{cluster::tests::amplified, node::object::WatchedNode};

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn node(cpu: &str, ratio: &str) -> Node {
        let mut node: Value = amplified(1, cpu, 120);
        node["metadata"]["annotations"][names::RATIO] = ratio.into();
        let object: WatchedNode = serde_json::from_value(node).unwrap();
        object.into()
    }

    #[test]
    fn three_rewrites_in_ten_minutes_are_a_contest_until_they_end() {
        let conflicts = RatioOwnerConflicts::default();
        let (ours, theirs) = (node("4800m", r#"{"cpu":1.20}"#), node("4800m", r#"{"cpu":1.00}"#));
        for round in 0..3 {
            assert_eq!(conflicts.is_contested("n1", at(700 + round)), Some(false));
            conflicts.observe(&ours, &theirs, at(700 + round));
            if round < 2 {
                conflicts.observe(&theirs, &ours, at(700 + round));
            }
        }
        assert_eq!(conflicts.is_contested("n1", at(703)), Some(true));
        assert_eq!(conflicts.is_contested("n2", at(703)), Some(false));
        assert_eq!(conflicts.is_contested("n1", at(1300)), Some(true));
        assert_eq!(conflicts.is_contested("n1", at(1301)), Some(false));
    }

    #[test]
    fn a_ratio_that_changes_with_what_we_write_is_ours() {
        let conflicts = RatioOwnerConflicts::default();
        for second in 0..20 {
            let (one, other) = (node("4800m", r#"{"cpu":1.20}"#), node("5", r#"{"cpu":1.25}"#));
            conflicts.observe(&one, &other, at(700 + second));
            conflicts.observe(&other, &one, at(700 + second));
        }
        assert_eq!(conflicts.is_contested("n1", at(720)), Some(false));
    }

    #[test]
    fn a_replica_that_has_just_started_does_not_deny_it() {
        assert_eq!(RatioOwnerConflicts::default().is_contested("n1", at(599)), None);
    }
}
