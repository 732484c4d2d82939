//! [`Publisher`] sends reports to the hint servers and receives their directives. Measuring never waits for it.
//!
//! ```text
//! resolve -> addresses -> Peers (who, and which is primary) -> one Line per server: newest report up, events down
//! ```

mod backoff;
mod peers;
mod resolve;
mod stream;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use headroom_domain::{hint::NodeHint, policy::Bounds, resource::PerResource};
use headroom_proto::{
    NodeView, WireError, WorkloadDirective, agent_policy,
    status::{AckStatus, StreamState, StreamStatus},
    v1alpha1::{self as wire, directive::Kind},
};
use tokio::{
    select,
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use self::{
    peers::Peers,
    stream::{Event, Line},
};
pub use self::{
    resolve::resolve,
    stream::{Access, StreamError},
};
use crate::metrics::{ACKS, CONNECTS, DIRECTIVES, STREAMS};

/// Maximum time for open streams to send the last report at the agent's end; less than the agent's own limit.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Events that may wait to be taken.
const EVENTS: usize = 64;
/// Different reasons of refused reports that are logged; further ones are only counted.
const MOST_REASONS: usize = 32;

/// Validated directive of a hint server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directive {
    /// The node's pods, capacity and raw allocatable.
    Pods(NodeView),
    /// Bounds of the ratio and theta.
    Policy {
        bounds: PerResource<Bounds>,
        target_ppm: PerResource<u32>,
    },
    /// Profiles of workloads that one server knows.
    Workloads {
        server: SocketAddr,
        known: WorkloadDirective,
    },
}

/// The ends of the channels between the publisher and the rest of the agent.
#[derive(Debug)]
pub struct Ends {
    /// The newest report; dropping its sender ends the streams in order.
    pub reports: watch::Receiver<Option<Arc<NodeHint>>>,
    /// The most streams to open.
    pub fanout: watch::Receiver<u8>,
    /// Addresses of the hint servers.
    pub addresses: watch::Receiver<BTreeSet<SocketAddr>>,
    /// Channel for directives.
    pub directives: mpsc::Sender<Directive>,
    /// Channel for the state of the streams.
    pub streams: watch::Sender<Vec<StreamStatus>>,
}

/// Keeps streams to the chosen servers.
#[derive(Debug)]
pub struct Publisher {
    access: Arc<Access>,
    ends: Ends,
    stopping: CancellationToken,
    peers: Peers,
    primary: watch::Sender<Option<SocketAddr>>,
    events_tx: mpsc::Sender<(SocketAddr, Event)>,
    events: mpsc::Receiver<(SocketAddr, Event)>,
    lines: BTreeMap<SocketAddr, CancellationToken>,
    tasks: JoinSet<()>,
    view: StreamView,
}

/// State of the streams, for status and log.
#[derive(Debug, Default)]
struct StreamView {
    streams: BTreeMap<SocketAddr, StreamStatus>,
    /// Reasons of refused reports that were logged.
    announced: BTreeSet<String>,
    quarantine: String,
}

impl Publisher {
    /// A publisher for this node.
    pub fn new(node: String, access: Access, ends: Ends, stopping: CancellationToken) -> Self {
        let (events_tx, events) = mpsc::channel(EVENTS);
        let fanout = *ends.fanout.borrow();
        Self {
            access: Arc::new(access),
            ends,
            stopping,
            peers: Peers::new(node, fanout.into()),
            primary: watch::Sender::new(None),
            events_tx,
            events,
            lines: BTreeMap::new(),
            tasks: JoinSet::new(),
            view: StreamView::default(),
        }
    }

    /// Publishes until `stopping` is cancelled and open streams have sent the last report.
    pub async fn run(mut self) {
        let stopping = self.stopping.clone();
        let mut last_words: Option<Instant> = None;
        loop {
            let deadline = last_words.unwrap_or_else(Instant::now);
            select! {
                Some((peer, event)) = self.events.recv() => self.handle(peer, event).await,
                Ok(()) = self.ends.addresses.changed(), if last_words.is_none() => self.choose(),
                Ok(()) = self.ends.fanout.changed(), if last_words.is_none() => self.choose(),
                Some(_ended) = self.tasks.join_next(), if !self.tasks.is_empty() => {}
                () = stopping.cancelled(), if last_words.is_none() => {
                    last_words = Some(Instant::now() + LAST_WORDS);
                }
                () = sleep_until(deadline), if last_words.is_some() => return,
            }
            if last_words.is_some() && self.tasks.is_empty() {
                return;
            }
        }
    }

    fn choose(&mut self) {
        self.peers.limit((*self.ends.fanout.borrow_and_update()).into());
        let addresses = self.ends.addresses.borrow_and_update().clone();
        let peers::Change { opened, closed } = self.peers.choose(&addresses);
        for peer in closed {
            if let Some(line) = self.lines.remove(&peer) {
                line.cancel();
            }
            self.view.streams.remove(&peer);
            info!(%peer, "hint server no longer exists or is no longer chosen");
        }
        for peer in opened {
            let dropped = CancellationToken::new();
            let line = Line {
                peer,
                access: Arc::clone(&self.access),
                reports: self.ends.reports.clone(),
                primary: self.primary.subscribe(),
                events: self.events_tx.clone(),
                dropped: dropped.clone(),
                stopping: self.stopping.clone(),
            };
            self.tasks.spawn(line.keep());
            self.lines.insert(peer, dropped);
            self.view.streams.insert(peer, StreamStatus::new(peer));
        }
        self.show();
    }

    async fn handle(&mut self, peer: SocketAddr, event: Event) {
        // Events of a server that was given up may still wait in the channel.
        if !self.lines.contains_key(&peer) {
            return;
        }
        match event {
            Event::Opened(go) => {
                self.peers.note(peer, true);
                self.view.opened(peer);
                self.show();
                // A stream that was lost meanwhile does not wait.
                let _is_heard = go.send(()).is_ok();
            }
            Event::Lost(problem) => {
                self.peers.note(peer, false);
                self.view.lost(peer, problem);
            }
            Event::Directive(directive) => match self.view.read(peer, directive) {
                Ok(None) => {}
                Ok(Some(directive)) => {
                    // The deciding task ends before this task.
                    let _is_heard = self.ends.directives.send(directive).await.is_ok();
                }
                Err(problem) => {
                    DIRECTIVES.with(["invalid"]).increment(1);
                    self.view
                        .warn_once(peer, &format!("unusable directive: {problem}"));
                }
            },
        }
        self.show();
    }

    fn show(&mut self) {
        let primary = self.peers.primary();
        self.primary
            .send_if_modified(|known| std::mem::replace(known, primary) != primary);
        let streams = self.view.streams.iter().map(|(peer, stream)| StreamStatus {
            is_primary: Some(*peer) == primary,
            ..stream.clone()
        });
        let streams: Vec<_> = streams.collect();
        let open = streams
            .iter()
            .filter(|stream| stream.state == StreamState::Open)
            .count();
        #[expect(clippy::cast_precision_loss, reason = "a few streams")]
        STREAMS.with([]).set(open as f64);
        self.ends.streams.send_replace(streams);
    }
}

impl StreamView {
    fn opened(&mut self, peer: SocketAddr) {
        CONNECTS.with(["opened"]).increment(1);
        info!(%peer, "reporting to hint server");
        self.change(peer, |stream| {
            stream.state = StreamState::Open;
            stream.last_problem = None;
        });
    }

    fn lost(&mut self, peer: SocketAddr, problem: String) {
        CONNECTS.with(["lost"]).increment(1);
        let is_known = self.streams.get(&peer).is_some_and(|stream| {
            stream.state != StreamState::Open && stream.last_problem.as_ref() == Some(&problem)
        });
        if is_known {
            debug!(%peer, problem, "still no stream to hint server");
        } else {
            warn!(%peer, problem, "no stream to hint server; retrying");
        }
        self.change(peer, |stream| {
            stream.state = StreamState::Waiting;
            stream.last_problem = Some(problem);
        });
    }

    /// Effect of a server's message on the deciding task.
    fn read(&mut self, peer: SocketAddr, directive: wire::Directive) -> Result<Option<Directive>, WireError> {
        let wire::Directive { kind } = directive;
        match kind {
            // A kind that this agent does not know yet.
            None => Ok(None),
            Some(Kind::Ack(ack)) => {
                DIRECTIVES.with(["ack"]).increment(1);
                self.acknowledged(peer, ack);
                Ok(None)
            }
            Some(Kind::Pods(pods)) => {
                DIRECTIVES.with(["pods"]).increment(1);
                NodeView::try_from(pods).map(|view| Some(Directive::Pods(view)))
            }
            Some(Kind::Policy(policy)) => {
                DIRECTIVES.with(["policy"]).increment(1);
                if policy.quarantine != self.quarantine {
                    warn!(%peer, reason = policy.quarantine, "quarantine of this node's hints changed");
                    self.quarantine.clone_from(&policy.quarantine);
                }
                let (bounds, target_ppm) = agent_policy(&policy)?;
                Ok(Some(Directive::Policy { bounds, target_ppm }))
            }
            Some(Kind::Workloads(workloads)) => {
                DIRECTIVES.with(["workloads"]).increment(1);
                let known = WorkloadDirective::try_from(workloads)?;
                Ok(Some(Directive::Workloads { server: peer, known }))
            }
        }
    }

    fn acknowledged(&mut self, peer: SocketAddr, ack: wire::Ack) {
        let verdict = ack.verdict();
        let wire::Ack {
            seq,
            verdict: _,
            reason,
        } = ack;
        let verdict = match verdict {
            wire::Verdict::Unspecified => "unspecified",
            wire::Verdict::Accepted => "accepted",
            wire::Verdict::Stale => "stale",
            wire::Verdict::Rejected => "rejected",
        };
        ACKS.with([verdict]).increment(1);
        if verdict != "accepted" {
            self.warn_once(peer, &format!("report was answered with {verdict}: {reason}"));
        }
        let last_ack = AckStatus {
            seq,
            verdict: verdict.to_owned(),
            reason,
        };
        self.change(peer, |stream| stream.last_ack = Some(last_ack));
    }

    fn warn_once(&mut self, peer: SocketAddr, problem: &str) {
        if self.announced.len() < MOST_REASONS && self.announced.insert(problem.to_owned()) {
            warn!(%peer, "{problem}");
        } else {
            debug!(%peer, "{problem}");
        }
    }

    fn change(&mut self, peer: SocketAddr, change: impl FnOnce(&mut StreamStatus)) {
        if let Some(stream) = self.streams.get_mut(&peer) {
            change(stream);
        }
    }
}

#[cfg(test)]
mod tests;
