//! Session of one agent's stream: receives its reports and sends its directives until it ends. While the stream is the
//! primary one of its node, it also runs the node's nudges.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::{StreamExt as _, stream::BoxStream};
use headroom_domain::hint::{NodeHint, ReportVerdict};
use headroom_kit::{log::chain, pace::Pace};
use headroom_proto::v1alpha1::{self as wire, directive::Kind};
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tokio::{
    select,
    sync::mpsc,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::task::AbortOnDropHandle;
use tonic::Status;
use tracing::{info, warn};

use super::{
    StreamError,
    agent_authorities::AgentAuthorities,
    agent_version::AgentVersion,
    auth::{AgentIdentity, Caller, REVIEW_EVERY},
    directive,
    metrics::{DIRECTIVES, REPORTS, STREAM_ENDS},
    streams::StreamPlace,
};
use crate::{
    hints::stream_context::StreamContext,
    store::{
        changes::{Ticks, Urgency},
        workload_table::UseReport,
    },
};

/// Minimum time between two computations of the directive, unless something was removed.
const COALESCE: Duration = Duration::from_millis(100);
/// Maximum time that a directive may wait to be read.
const STUCK_AFTER: Duration = Duration::from_secs(10);
/// Steady rate of reports; an agent sends a few a second at most.
const REPORT_EVERY: Duration = Duration::from_millis(50);
/// Reports that may come at once.
const REPORT_BURST: u32 = 20;

/// Message to the client. The queue of every stream has many slots; boxed, an empty slot is small.
pub type Outgoing = Result<Box<wire::Directive>, Status>;

/// Messages from the client.
pub type Incoming = BoxStream<'static, Result<wire::HintReport, Status>>;

/// State of one stream. Boxed, as its reports are: otherwise each function on its way would reserve space for all of
/// it.
pub struct Session {
    shared: Arc<StreamContext>,
    agent: AgentIdentity,
    place: StreamPlace,
    directives: mpsc::Sender<Outgoing>,
    pace: Pace,
    sent_policy: Option<wire::Policy>,
    sent_pods: Option<SentPods>,
    /// True once the agent's own pod was observed on the node. Before that the watch may not have delivered it, and
    /// its absence means nothing.
    has_seen_pod: bool,
    /// True if a report since the last directive has changed the profiles of workloads.
    has_new_use: bool,
    nudging: Option<AbortOnDropHandle<()>>,
}

/// Pods of the last directive to an agent.
struct SentPods {
    generation: u64,
    /// SHA-256 of the wire form: the pods are only compared.
    digest: [u8; 32],
}

/// End of a stream.
enum StreamEnd {
    /// The agent ended the stream.
    Closed,
    /// The connection broke, or a message could not be read.
    Broken(Status),
    Refused(StreamError),
}

impl From<StreamError> for StreamEnd {
    fn from(error: StreamError) -> Self {
        Self::Refused(error)
    }
}

impl Session {
    /// A stream of an agent that was let in.
    pub fn new(
        shared: Arc<StreamContext>,
        agent: AgentIdentity,
        (version, authorities): (AgentVersion, AgentAuthorities),
        directives: mpsc::Sender<Outgoing>,
    ) -> Box<Self> {
        let place = shared.streams.open(&agent.node, version, authorities);
        Box::new(Self {
            shared,
            agent,
            place,
            directives,
            pace: Pace::new(REPORT_EVERY, REPORT_BURST),
            sent_policy: None,
            sent_pods: None,
            has_seen_pod: false,
            has_new_use: false,
            nudging: None,
        })
    }

    /// Receives reports and sends directives until the stream ends.
    pub async fn run(mut self: Box<Self>, caller: Box<Caller>, mut reports: Incoming) {
        let Err(end) = self.serve(caller, &mut reports).await;
        // The entry of a node whose newer stream has taken over is that one's.
        if !self.place.is_replaced() {
            self.shared.cluster.hints.leave(&self.agent.node);
        }
        let node = &self.agent.node;
        let line = self.shared.streams.lines.line(node.clone());
        let (label, status) = match end {
            StreamEnd::Closed => ("closed", None),
            StreamEnd::Broken(status) => ("broken", Some(status)),
            StreamEnd::Refused(error) => {
                if line.is_some() {
                    warn!(%node, error = %chain(&error), "ended the stream of an agent");
                }
                (error.label(), Some(error.into()))
            }
        };
        STREAM_ENDS.with([label]).increment(1);
        if let Some(left_out) = line {
            info!(%node, reason = label, left_out, "the stream of an agent ended");
        }
        if let Some(status) = status {
            // A client that does not read will not learn why.
            let _is_told = timeout(STUCK_AFTER, self.directives.send(Err(status)))
                .await
                .is_ok();
        }
    }

    async fn serve(
        &mut self,
        caller: Box<Caller>,
        reports: &mut Incoming,
    ) -> Result<std::convert::Infallible, StreamEnd> {
        let shared = Arc::clone(&self.shared);
        let mut changes = shared.cluster.changes.follow(&self.agent.node);
        let mut credential = std::pin::pin!(outlived(&shared, caller, self.agent.clone()));
        let mut looked = Ticks::default();
        let mut look_at = Some(Instant::now());
        loop {
            let due = look_at.unwrap_or_else(Instant::now);
            select! {
                () = shared.shutdown.draining().cancelled() => return Err(StreamError::ShuttingDown.into()),
                () = self.place.replaced() => return Err(StreamError::Replaced.into()),
                error = &mut credential => return Err(error.into()),
                report = reports.next() => match report {
                    None => return Err(StreamEnd::Closed),
                    Some(Err(status)) => return Err(StreamEnd::Broken(status)),
                    // Boxed, as below: a stream need not have room for it until the next report.
                    Some(Ok(report)) => Box::pin(self.handle(report)).await?,
                },
                Ok(()) = changes.changed() => {
                    let now = *changes.borrow_and_update();
                    if now.urgent != looked.urgent {
                        look_at = Some(Instant::now());
                    }
                    look_at.get_or_insert_with(|| Instant::now() + COALESCE);
                    looked = now;
                }
                () = sleep_until(due), if look_at.is_some() => {
                    look_at = None;
                    Box::pin(self.send_changes()).await?;
                }
            }
        }
    }

    /// Sends the agent the changes since the last directive.
    async fn send_changes(&mut self) -> Result<(), StreamError> {
        let (cluster, node) = (&self.shared.cluster, &self.agent.node);
        if let Some(uid) = &self.agent.pod_uid
            && let Some((_, bound)) = cluster.pods.on(node)
        {
            let is_there = bound.pods.contains_key(uid.as_str());
            if self.has_seen_pod && !is_there {
                return Err(StreamError::PodGone);
            }
            self.has_seen_pod |= is_there;
        }
        let policy = directive::policy(cluster, node, &self.shared.profiles);
        let pods = directive::pods(cluster, node);
        if let Some(policy) = policy
            && self.sent_policy.as_ref() != Some(&policy)
        {
            self.sent_policy = Some(policy.clone());
            self.send("policy", Kind::Policy(policy)).await?;
        }
        if let Some((pods, changed_at)) = pods
            && let Some((told, pods)) = self.news(pods, changed_at)
        {
            self.sent_pods = Some(told);
            self.send("pods", Kind::Pods(pods)).await?;
            self.send_workloads().await?;
        }
        Ok(())
    }

    /// Sends the profiles of the workloads of the node's pods.
    async fn send_workloads(&self) -> Result<(), StreamError> {
        let StreamContext {
            cluster, workloads, ..
        } = &*self.shared;
        match directive::workloads(cluster, workloads, &self.agent.node) {
            Some(workloads) => self.send("workloads", Kind::Workloads(workloads)).await,
            None => Ok(()),
        }
    }

    /// The pods, unless the agent has received this state, as of their last change or later.
    fn news(&self, mut pods: wire::Pods, changed_at: u64) -> Option<(SentPods, wire::Pods)> {
        let generation = std::mem::take(&mut pods.generation);
        let digest = Sha256::digest(pods.encode_to_vec()).into();
        let knows = |told: &SentPods| told.generation >= changed_at && told.digest == digest;
        if self.sent_pods.as_ref().is_some_and(knows) {
            return None;
        }
        pods.generation = generation;
        Some((SentPods { generation, digest }, pods))
    }

    /// Applies one report and answers it.
    async fn handle(&mut self, report: wire::HintReport) -> Result<(), StreamError> {
        if report.node != self.agent.node {
            let (own, other) = (self.agent.node.clone(), report.node.chars().take(253).collect());
            return Err(StreamError::ForeignNode { own, other });
        }
        let seq = report.seq;
        let (label, verdict, reason) = match self.evaluate(report) {
            Ok(ReportVerdict::Accepted) => ("accepted", wire::Verdict::Accepted, String::new()),
            Ok(ReportVerdict::Stale { held }) => (
                "stale",
                wire::Verdict::Stale,
                format!("sequence number {seq} is not above {held}"),
            ),
            Err((label, reason)) => (label, wire::Verdict::Rejected, reason),
        };
        REPORTS.with([label]).increment(1);
        self.send(
            "ack",
            Kind::Ack(wire::Ack {
                seq,
                verdict: verdict.into(),
                reason,
            }),
        )
        .await?;
        if std::mem::take(&mut self.has_new_use) {
            self.send_workloads().await?;
        }
        Ok(())
    }

    /// Offers a valid report to the table; else returns the kind of fault, and its reason.
    fn evaluate(&mut self, report: wire::HintReport) -> Result<ReportVerdict, (&'static str, String)> {
        let StreamContext {
            cluster, profiles, ..
        } = &*self.shared;
        let now = cluster.now();
        if self.pace.try_acquire(now).is_err() {
            return Err(("flooded", format!("more than one report in {REPORT_EVERY:?}")));
        }
        let rejected = |reason: String| ("rejected", reason);
        let mut hint = NodeHint::try_from(report).map_err(|error| rejected(error.to_string()))?;
        if !profiles.contains(&hint.timing) {
            return Err(rejected(format!("timing: {} is not allowed here", hint.timing)));
        }
        match cluster.nodes.get(&hint.node) {
            Some(node) if node.uid != hint.node_uid => {
                return Err(rejected(format!("node_uid: the Node has UID {}", node.uid)));
            }
            None if cluster.nodes.has_synced() => {
                return Err(rejected("node: there is no such Node".to_owned()));
            }
            Some(_) | None => {}
        }
        let used = UseReport::take_from(&mut hint);
        let (is_primary, seq) = (hint.is_primary, hint.seq);
        let verdict = cluster.hints.offer(hint, now);
        match verdict {
            ReportVerdict::Accepted => {
                cluster.check_report(&self.agent.node);
                self.has_new_use |= used.is_some_and(|used| self.record_use(&used));
                self.nudge(is_primary);
                self.shared
                    .cluster
                    .changes
                    .notify(&self.agent.node, Urgency::Usual);
            }
            // The agent repeats its newest report after a change of its primary.
            ReportVerdict::Stale { held } if held == seq => self.nudge(is_primary),
            ReportVerdict::Stale { .. } => {}
        }
        Ok(verdict)
    }

    /// Records the use of the node's pods, unless its reports are contested. Returns true if it counts.
    fn record_use(&self, used: &UseReport) -> bool {
        let StreamContext {
            cluster, workloads, ..
        } = &*self.shared;
        let node = &self.agent.node;
        let record = |bound: &_| workloads.record(used, bound, directive::since_1970());
        cluster.quarantine(node).is_none()
            && cluster.pods.has_synced()
            && cluster.pods.with_node(node, record)
    }

    /// Begins or ends to nudge for the node: only one replica does, the one with the primary stream.
    fn nudge(&mut self, is_primary: bool) {
        match &self.nudging {
            None if is_primary => {
                let follow = Arc::clone(&self.shared.nudger).follow(self.agent.node.clone());
                self.nudging = Some(AbortOnDropHandle::new(tokio::spawn(follow)));
            }
            Some(_) if !is_primary => self.nudging = None,
            Some(_) | None => {}
        }
    }

    async fn send(&self, label: &'static str, kind: Kind) -> Result<(), StreamError> {
        DIRECTIVES.with([label]).increment(1);
        let directive = wire::Directive { kind: Some(kind) };
        // If the receiver has disconnected, the stream of reports ends as well, with the reason.
        timeout(STUCK_AFTER, self.directives.send(Ok(Box::new(directive))))
            .await
            .map(|_sent| ())
            .map_err(|_elapsed| StreamError::Stuck)
    }
}

/// Completes on expiry or revocation. If TokenReview is down, the credential counts until it expires.
async fn outlived(shared: &StreamContext, caller: Box<Caller>, mut agent: AgentIdentity) -> StreamError {
    loop {
        let left = agent
            .expires
            .map(|end| end.duration_since(SystemTime::now()).unwrap_or_default());
        let ends_first = left.is_some_and(|left| left <= REVIEW_EVERY);
        sleep(left.unwrap_or(REVIEW_EVERY).min(REVIEW_EVERY)).await;
        if ends_first {
            return StreamError::Expired;
        }
        // Boxed: it takes much room, for a moment every few minutes.
        match Box::pin(shared.authenticator.agent_anew(&caller)).await {
            Ok(again) if again.node != agent.node => {
                return StreamError::ForeignNode {
                    own: again.node,
                    other: agent.node,
                };
            }
            Ok(again) => agent = again,
            Err(error @ (StreamError::Unchecked(_) | StreamError::TooMany)) => {
                if let Some(left_out) = shared.streams.lines.line(agent.node.clone()) {
                    warn!(node = %agent.node, error = %chain(&error), left_out, "could not check the token of an open stream again");
                }
            }
            Err(error) => return error,
        }
    }
}
