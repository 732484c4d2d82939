//! `Peers` chooses the hint servers that the agent reports to, and the primary one among them. Pure: no I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    net::SocketAddr,
};

/// Hint servers of one node: the highest scores of all addresses, by rendezvous hashing, so that an added or removed
/// server moves only its own share of the nodes.
#[derive(Debug)]
pub(super) struct Peers {
    node: String,
    fanout: usize,
    /// Chosen servers and whether their stream is open.
    chosen: BTreeMap<SocketAddr, bool>,
}

/// Effect of a new set of addresses on the streams.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Servers to open a stream to.
    pub(super) opened: Vec<SocketAddr>,
    /// Servers whose stream is to end.
    pub(super) closed: Vec<SocketAddr>,
}

impl Peers {
    /// No servers yet; at most `fanout` will be chosen.
    pub(super) const fn new(node: String, fanout: usize) -> Self {
        Self {
            node,
            fanout,
            chosen: BTreeMap::new(),
        }
    }

    /// Sets the maximum number of chosen servers.
    pub(super) const fn limit(&mut self, fanout: usize) {
        self.fanout = fanout;
    }

    pub(super) fn choose(&mut self, addresses: &BTreeSet<SocketAddr>) -> Change {
        let mut ranked: Vec<_> = addresses.iter().copied().collect();
        ranked.sort_by_key(|peer| std::cmp::Reverse(self.score(*peer)));
        ranked.truncate(self.fanout);
        let closed = self
            .chosen
            .keys()
            .copied()
            .filter(|peer| !ranked.contains(peer))
            .collect();
        let opened: Vec<_> = ranked
            .iter()
            .copied()
            .filter(|peer| !self.chosen.contains_key(peer))
            .collect();
        self.chosen.retain(|peer, _| ranked.contains(peer));
        self.chosen.extend(opened.iter().map(|peer| (*peer, false)));
        Change { opened, closed }
    }

    /// Notes whether the stream to a server is open.
    pub(super) fn note(&mut self, peer: SocketAddr, is_open: bool) {
        if let Some(noted) = self.chosen.get_mut(&peer) {
            *noted = is_open;
        }
    }

    /// The server that nudges for this node: of those whose stream is open, the one with the highest score.
    pub(super) fn primary(&self) -> Option<SocketAddr> {
        let open = self.chosen.iter().filter(|(_, is_open)| **is_open);
        open.map(|(peer, _)| *peer).max_by_key(|peer| self.score(*peer))
    }

    fn score(&self, peer: SocketAddr) -> u64 {
        // Its keys are fixed, so the agent chooses alike after a restart; no other process needs to agree.
        let mut hasher = DefaultHasher::new();
        (&self.node, peer).hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(range: std::ops::Range<u8>) -> BTreeSet<SocketAddr> {
        range
            .map(|last| SocketAddr::from(([10, 0, 0, last], 9444)))
            .collect()
    }

    fn chosen(node: usize, addresses: &BTreeSet<SocketAddr>) -> Vec<SocketAddr> {
        Peers::new(format!("node-{node}"), 3).choose(addresses).opened
    }

    #[test]
    fn no_more_than_the_fanout_are_chosen_and_none_twice() {
        let mut peers = Peers::new("n1".into(), 3);
        assert_eq!(peers.choose(&addresses(0..8)).opened.len(), 3);
        assert_eq!(peers.choose(&addresses(0..8)), Change::default());
        assert_eq!(peers.choose(&addresses(0..0)).closed.len(), 3);
        assert_eq!(peers.choose(&addresses(0..2)).opened.len(), 2);
    }

    #[test]
    fn a_lower_fanout_ends_the_streams_that_are_too_many_and_no_other() {
        let mut peers = Peers::new("n1".into(), 3);
        let opened = peers.choose(&addresses(0..8)).opened;
        peers.limit(1);
        let change = peers.choose(&addresses(0..8));
        assert_eq!((change.opened.len(), change.closed.len()), (0, 2));
        peers.limit(3);
        let again = peers.choose(&addresses(0..8)).opened;
        assert!(again.iter().all(|peer| opened.contains(peer)), "{again:?}");
    }

    #[test]
    fn a_server_that_goes_moves_only_its_own_nodes() {
        let (all, fewer) = (addresses(0..8), addresses(1..8));
        let gone = SocketAddr::from(([10, 0, 0, 0], 9444));
        for node in 0..100 {
            let (before, after) = (chosen(node, &all), chosen(node, &fewer));
            let kept = before.iter().filter(|peer| after.contains(peer)).count();
            assert_eq!(kept, if before.contains(&gone) { 2 } else { 3 });
        }
    }

    #[test]
    fn nodes_are_spread_over_the_servers() {
        let all = addresses(0..8);
        for peer in &all {
            let share = (0..800).filter(|node| chosen(*node, &all).contains(peer)).count();
            assert!(
                (200..400).contains(&share),
                "{peer} has {share} of 800 nodes, 300 expected"
            );
        }
    }

    #[test]
    fn the_primary_is_always_one_whose_stream_is_open() {
        let mut peers = Peers::new("n1".into(), 2);
        let opened = peers.choose(&addresses(0..4)).opened;
        assert_eq!(peers.primary(), None);
        peers.note(opened[1], true);
        assert_eq!(peers.primary(), Some(opened[1]), "the only one there");
        peers.note(opened[0], true);
        assert_eq!(peers.primary(), Some(opened[0]), "the one with the higher score");
        peers.note(opened[0], false);
        assert_eq!(peers.primary(), Some(opened[1]));
        peers.note(SocketAddr::from(([1, 1, 1, 1], 1)), true);
        assert_eq!(peers.primary(), Some(opened[1]), "not one that was not chosen");
    }
}
