//! Queues of a listener's connections, in which they are closed for newcomers: of all sources, and of each.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, atomic::Ordering},
};

use super::places::Usage;

/// Maximum number of connections examined to find an idle one; a connection found busy moves to the end of the queue.
const LOOKS: usize = 64;
/// Maximum number of larger sources that are searched for an idle connection.
const SOURCES: usize = 8;
/// Bit in the rank of a connection that has completed a request.
pub(super) const HAS_SERVED: u64 = 1 << 63;

/// Connections of a listener, in the order in which they are closed for others.
#[derive(Default)]
pub(super) struct PlacesState {
    /// Number of places in use, without connections that are closing.
    pub(super) open: usize,
    pub(super) next_id: u64,
    /// All connections without a hold.
    pub(super) queue: Queue,
    /// These connections by source, without those of exempt networks.
    sources: HashMap<IpAddr, Queue>,
    /// The sources by their number of connections.
    sizes: BTreeSet<(usize, IpAddr)>,
}

/// Connections in closing order, by the rank at their last examination.
pub(super) type Queue = BTreeMap<(u64, u64), Arc<Usage>>;

impl Usage {
    fn key(&self) -> (u64, u64) {
        (self.queued.load(Ordering::Relaxed), self.id)
    }
}

impl PlacesState {
    /// Number of connections of a source.
    pub(super) fn count(&self, source: Option<IpAddr>) -> usize {
        let own = source.and_then(|source| self.sources.get(&source));
        own.map_or(0, Queue::len)
    }

    /// Returns the connection to close for a newcomer of that source; `None` if none is idle.
    pub(super) fn victim(&mut self, newcomer: Option<IpAddr>, now: u64, settled: u64) -> Option<Arc<Usage>> {
        // Closing connections of a source of about the same size would only swap the roles of both.
        let large = 2 * (self.count(newcomer) + 1);
        let larger: Vec<IpAddr> = self
            .sizes
            .range((large, IpAddr::V4(Ipv4Addr::UNSPECIFIED))..)
            .rev()
            .take(SOURCES)
            .map(|(_, source)| *source)
            .collect();
        let mut sources = larger.iter().copied().chain(newcomer);
        let settled_idle = sources
            .find_map(|source| self.longest_idle(Some(source), now, settled))
            .or_else(|| self.longest_idle(None, now, settled));
        settled_idle.or_else(|| {
            // A flood keeps all its connections young.
            let (_, usage) = self
                .sources
                .get(larger.first()?)?
                .range(..(HAS_SERVED, 0))
                .next()?;
            (usage.answers.load(Ordering::Acquire) == 0).then(|| Arc::clone(usage))
        })
    }

    /// Returns the connection to close first, of all or of one source; `None` if none is idle since `settled`.
    pub(super) fn longest_idle(
        &mut self,
        only: Option<IpAddr>,
        now: u64,
        settled: u64,
    ) -> Option<Arc<Usage>> {
        let mut fallback = None;
        for _ in 0..LOOKS {
            let queue = match &only {
                None => &self.queue,
                Some(source) => match self.sources.get(source) {
                    Some(own) => own,
                    None => break,
                },
            };
            let mut firsts = [0, HAS_SERVED]
                .into_iter()
                .filter_map(|class| queue.range((class, 0)..).next())
                .filter(|((rank, _), _)| rank & !HAS_SERVED <= settled);
            let Some((_, usage)) = firsts.next() else { break };
            let usage = Arc::clone(usage);
            let is_at_work = usage.answers.load(Ordering::Acquire) > 0;
            let rank = if is_at_work {
                // Sorts after every connection that counts as idle now.
                HAS_SERVED | now.saturating_add(1)
            } else {
                usage.rank.load(Ordering::Acquire)
            };
            if !is_at_work && rank == usage.queued.load(Ordering::Relaxed) {
                return Some(usage);
            }
            self.remove(&usage);
            usage.queued.store(rank, Ordering::Relaxed);
            self.insert(&usage);
            if !is_at_work && rank & !HAS_SERVED <= settled {
                fallback = Some(usage);
            }
        }
        // Not the longest idle, but idle.
        fallback
    }

    /// Tells a connection to close and frees its place immediately.
    pub(super) fn close(&mut self, usage: &Arc<Usage>) {
        self.remove(usage);
        self.open = self.open.saturating_sub(1);
        usage.is_closing.store(true, Ordering::Release);
        usage.waker.wake();
    }

    pub(super) fn insert(&mut self, usage: &Arc<Usage>) {
        let key = usage.key();
        self.queue.insert(key, Arc::clone(usage));
        self.change_source(usage.source, |own| {
            own.insert(key, Arc::clone(usage));
        });
    }

    pub(super) fn remove(&mut self, usage: &Usage) {
        let key = usage.key();
        self.queue.remove(&key);
        self.change_source(usage.source, |own| {
            own.remove(&key);
        });
    }

    /// Changes the connections of a source, and keeps its size current.
    fn change_source(&mut self, source: Option<IpAddr>, change: impl FnOnce(&mut Queue)) {
        let Some(source) = source else { return };
        let own = self.sources.entry(source).or_default();
        let before = own.len();
        change(own);
        let after = own.len();
        if after == 0 {
            self.sources.remove(&source);
        }
        if before != after {
            self.sizes.remove(&(before, source));
            if after > 0 {
                self.sizes.insert((after, source));
            }
        }
    }
}
