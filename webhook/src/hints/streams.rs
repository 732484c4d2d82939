//! Registry of open agent streams, one for each node: a new stream of a node replaces the older one.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use headroom_kit::log::LineLimit;
use tokio_util::sync::CancellationToken;

use super::{agent_authorities::AgentAuthorities, agent_version::AgentVersion, metrics::STREAMS};

/// Interval of log lines about the streams of one node.
const LINE_EVERY: Duration = Duration::from_secs(6);
/// Log lines about the streams of one node after a quiet time.
const LINE_BURST: u32 = 20;

/// The open streams, one a node.
#[derive(Debug)]
pub struct Streams {
    open: Mutex<HashMap<String, OpenStream>>,
    /// Log lines about the streams of each node.
    pub lines: LineLimit<String>,
}

/// The stream of a node.
#[derive(Debug)]
struct OpenStream {
    replaced: CancellationToken,
    version: AgentVersion,
    authorities: AgentAuthorities,
}

/// A stream's place among the open ones, given back on drop.
#[derive(Debug)]
pub struct StreamPlace {
    streams: Arc<Streams>,
    node: String,
    replaced: CancellationToken,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            lines: LineLimit::new(LINE_EVERY, LINE_BURST),
        }
    }
}

impl Streams {
    /// Opens a place for a new stream of `node`; the previous stream of the node ends as replaced.
    pub fn open(
        self: &Arc<Self>,
        node: &str,
        version: AgentVersion,
        authorities: AgentAuthorities,
    ) -> StreamPlace {
        let replaced = CancellationToken::new();
        let stream = OpenStream {
            replaced: replaced.clone(),
            version,
            authorities,
        };
        let mut open = self.lock();
        if let Some(older) = open.insert(node.to_owned(), stream) {
            older.replaced.cancel();
        }
        drop(open);
        STREAMS.with([]).increment(1);
        StreamPlace {
            streams: Arc::clone(self),
            node: node.to_owned(),
            replaced,
        }
    }

    /// Number of streams by agent version.
    pub fn versions(&self) -> BTreeMap<AgentVersion, u32> {
        let mut versions = BTreeMap::new();
        for stream in self.lock().values() {
            let count: &mut u32 = versions.entry(stream.version.clone()).or_default();
            *count = count.saturating_add(1);
        }
        versions
    }

    /// Number of agents that do not trust the CAs with this SHA-256, given in hexadecimal digits, as far as known.
    pub fn lagging(&self, fingerprint: &str) -> u32 {
        let open = self.lock();
        let lagging = open
            .values()
            .filter(|stream| stream.authorities.as_str() != fingerprint);
        u32::try_from(lagging.count()).unwrap_or(u32::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, OpenStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamPlace {
    /// True if a newer stream of the node has taken over.
    pub fn is_replaced(&self) -> bool {
        self.replaced.is_cancelled()
    }

    /// Ends when a newer stream of the node has taken over.
    pub async fn replaced(&self) {
        self.replaced.cancelled().await;
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        STREAMS.with([]).decrement(1);
        let mut open = self.streams.lock();
        // If another stream has replaced this one, the place belongs to that stream.
        if !self.replaced.is_cancelled() {
            open.remove(&self.node);
        }
    }
}

#[cfg(test)]
mod tests {
    use headroom_kit::tls::authority::fingerprint;

    use super::*;

    #[tokio::test]
    async fn agents_lag_until_their_streams_have_the_newest_cas() {
        let streams = Arc::new(Streams::default());
        let open = |node: &str, text: &str| {
            streams.open(node, AgentVersion::default(), AgentAuthorities::from_text(text))
        };
        let (wanted, earlier) = (fingerprint(b"new"), fingerprint(b"old"));
        let _first = open("a", &earlier);
        let silent = open("b", "");
        let _third = open("c", &wanted);
        assert_eq!(streams.lagging(&wanted), 2);
        let _newer = open("a", &wanted);
        assert_eq!(streams.lagging(&wanted), 1);
        drop(silent);
        assert_eq!(streams.lagging(&wanted), 0);
    }

    #[tokio::test]
    async fn the_newest_stream_of_a_node_wins() {
        let streams = Arc::new(Streams::default());
        let version = |text: &str| AgentVersion::from_user_agent(&format!("headroom-agent/{text}"));
        let (first, other) = (
            streams.open("a", version("0.1.0"), AgentAuthorities::default()),
            streams.open("b", version("0.2.0"), AgentAuthorities::default()),
        );
        let second = streams.open("a", version("0.2.0"), AgentAuthorities::default());
        assert_eq!(streams.versions(), BTreeMap::from([(version("0.2.0"), 2)]));
        first.replaced().await;
        drop(first);
        assert!(!second.replaced.is_cancelled() && !other.replaced.is_cancelled());
        drop(second);
        drop(other);
        assert!(streams.lock().is_empty());
    }
}
