//! Notifies followers (agents' streams, nudges, debug watches) that a node, or every node, changed, and how urgently to
//! read it. The notice carries no content: followers read the stores.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

/// Urgency of a change for followers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    Usual,
    /// At once: something was taken away.
    AtOnce,
}

/// Counters of a node's changes since it is followed. Only a difference between two values has a meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ticks {
    pub all: u64,
    /// Changes that followers must handle immediately.
    pub urgent: u64,
}

impl Ticks {
    fn count(&mut self, urgency: Urgency) {
        self.all = self.all.wrapping_add(1);
        if urgency == Urgency::AtOnce {
            self.urgent = self.urgent.wrapping_add(1);
        }
    }
}

/// The followers of each node, and of all nodes.
#[derive(Debug, Default)]
pub struct Changes {
    nodes: Mutex<HashMap<String, watch::Sender<Ticks>>>,
    all: watch::Sender<Ticks>,
}

impl Changes {
    pub fn follow(&self, node: &str) -> watch::Receiver<Ticks> {
        self.lock().entry(node.to_owned()).or_default().subscribe()
    }

    pub fn follow_all(&self) -> watch::Receiver<Ticks> {
        self.all.subscribe()
    }

    /// Announces a change of a node. Nodes without followers are removed here.
    pub fn notify(&self, node: &str, urgency: Urgency) {
        self.all.send_modify(|ticks| ticks.count(urgency));
        let mut nodes = self.lock();
        if let Some(followers) = nodes.get(node) {
            if followers.is_closed() {
                nodes.remove(node);
            } else {
                followers.send_modify(|ticks| ticks.count(urgency));
            }
        }
    }

    /// Announces a change that concerns every node.
    pub fn ring_all(&self, urgency: Urgency) {
        self.all.send_modify(|ticks| ticks.count(urgency));
        self.lock().retain(|_, followers| {
            followers.send_modify(|ticks| ticks.count(urgency));
            !followers.is_closed()
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<Ticks>>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_followers_of_the_node_and_of_all_are_told() {
        let changes = Changes::default();
        let (mut one, mut other, mut all) = (changes.follow("a"), changes.follow("b"), changes.follow_all());
        changes.notify("a", Urgency::AtOnce);
        assert!(one.has_changed().unwrap() && !other.has_changed().unwrap() && all.has_changed().unwrap());
        assert_eq!(*one.borrow_and_update(), Ticks { all: 1, urgent: 1 });
        changes.notify("b", Urgency::Usual);
        assert!(!one.has_changed().unwrap());
        assert_eq!(*other.borrow_and_update(), Ticks { all: 1, urgent: 0 });
        assert_eq!(all.borrow_and_update().all, 2);
    }

    #[test]
    fn all_followers_are_told_what_concerns_every_node() {
        let changes = Changes::default();
        let (one, other, all) = (changes.follow("a"), changes.follow("b"), changes.follow_all());
        changes.ring_all(Urgency::Usual);
        for followed in [one, other, all] {
            assert_eq!(*followed.borrow(), Ticks { all: 1, urgent: 0 });
        }
    }

    #[test]
    fn a_node_that_nobody_follows_is_forgotten() {
        let ways: [fn(&Changes); 2] = [
            |changes| changes.notify("a", Urgency::Usual),
            |changes| changes.ring_all(Urgency::Usual),
        ];
        for way in ways {
            let changes = Changes::default();
            drop(changes.follow("a"));
            way(&changes);
            assert!(changes.lock().is_empty());
        }
    }
}
