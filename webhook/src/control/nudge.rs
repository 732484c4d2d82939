//! Nudges a Node when a hint, a pod or a policy requires another allocatable and no status write has applied it.
//!
//! A nudge is a PATCH of `nodes/status` that contains only the hint annotation; the admission endpoint then decides
//! allocatable. [`Nudger::follow`] runs for each node whose agent has its primary stream at this replica.

mod due;
mod queue;
mod restorer;
mod retry;
mod writer;

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use headroom_domain::resource::PerResource;
use headroom_kit::{log::chain, pace::Pace};
use tokio::{
    select,
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tracing::{debug, warn};

pub(super) use self::{due::due_of, retry::doubled};
pub use self::{
    due::{DueNudge, due},
    restorer::Restorer,
    writer::{ACCESS, NudgeError, StatusPatcher, StatusWriteClient, StatusWriter},
};
use self::{queue::Queue, retry::RetryState};
use super::metrics::{NUDGE_SECONDS, NUDGES};
use crate::{
    control::rates::{Rates, SECOND},
    store::{changes::Ticks, cluster::Cluster},
};

/// Time to wait for the watch event of our own write before the next check.
const ECHO_LIMIT: Duration = Duration::from_secs(2);

/// Direction in which a nudge moves allocatable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Down for at least one resource.
    Lower,
    /// Up, or only the recorded ratio rises, below the floor.
    Rise,
    /// No move: the nudge records a brake or renews the annotation.
    Note,
}

/// A write that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nudge {
    /// Direction in which it moves allocatable.
    pub direction: Direction,
    /// The hint annotation it carries.
    pub note: String,
    /// Expected allocatable, in milli-cores and bytes.
    pub expected: PerResource<Option<u64>>,
    /// Resource version of the Node that the nudge is bound to; `None` for a nudge that only lowers, which is valid
    /// for all versions. A late nudge of any other kind could undo an earlier brake.
    pub version: Option<u64>,
}

/// Nudges nodes, each independently, except for the shared queues.
pub struct Nudger {
    cluster: Arc<Cluster>,
    writer: Arc<dyn StatusWriter>,
    /// Sizes the pace of rises and nothing else, so it needs no order among its changes.
    followed: AtomicUsize,
    rates: Rates,
    // Two queues, so that a lowering never waits behind a rise.
    lowering: Queue,
    rising: Queue,
}

/// The line that a node waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NudgeLine {
    /// Lowers, or records a brake.
    Lowering,
    Rising,
}

/// Next action for a node.
enum Next {
    /// Wait in this queue to write.
    Queue(NudgeLine),
    /// Wait for a change, at most for this time.
    Wait(Option<Duration>),
}

impl Direction {
    pub const fn label(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Rise => "rise",
            Self::Note => "note",
        }
    }

    const fn line(self) -> NudgeLine {
        match self {
            Self::Lower | Self::Note => NudgeLine::Lowering,
            Self::Rise => NudgeLine::Rising,
        }
    }
}

impl Nudger {
    /// Nudges through this writer, no faster than that.
    pub fn new(cluster: Arc<Cluster>, writer: Arc<dyn StatusWriter>, rates: Rates) -> Self {
        Self {
            cluster,
            writer,
            followed: AtomicUsize::new(0),
            rates,
            lowering: Queue::new(Pace::new(rates.lower_every(), rates.lower)),
            rising: Queue::new(Pace::new(SECOND, 1)),
        }
    }

    /// Follows a node and nudges it whenever that is due, one write at a time, for as long as it is polled.
    pub fn follow(self: Arc<Self>, node: String) -> impl Future<Output = ()> + Send {
        let mut changes = self.cluster.changes.follow(&node);
        async move {
            let _followed = FollowedCount::new(&self.followed);
            let mut retry = RetryState::default();
            loop {
                changes.mark_unchanged();
                let wait = match self.next(&node, &mut retry) {
                    Next::Wait(wait) => wait,
                    // Boxed: a node mostly waits for news, and need not have room for a write meanwhile.
                    Next::Queue(line) => {
                        let nudge = Box::pin(self.wait_in_line(&node, line, &mut retry, &mut changes)).await;
                        if let Some(nudge) = nudge {
                            Box::pin(self.write(&node, &nudge, &mut retry, &mut changes)).await;
                        }
                        continue;
                    }
                };
                let changed = match wait {
                    None => changes.changed().await,
                    Some(wait) => select! {
                        changed = changes.changed() => changed,
                        () = sleep(wait) => Ok(()),
                    },
                };
                // The cluster owns the sender, and this task holds the cluster; without it there would be nothing to
                // follow.
                if changed.is_err() {
                    return;
                }
            }
        }
    }

    /// Next action for a node, from the current state.
    fn next(&self, node: &str, retry: &mut RetryState) -> Next {
        let DueNudge { nudge, changes_in } = self.due(node);
        let Some(nudge) = nudge else {
            retry.not_due();
            return Next::Wait(changes_in);
        };
        match retry.wait(&nudge, Instant::now()) {
            None => Next::Queue(nudge.direction.line()),
            wait => Next::Wait(wait),
        }
    }

    /// Nudge that is due for a node, from the current state.
    fn due(&self, node: &str) -> DueNudge {
        let node = self.cluster.nodes.get(node);
        node.map(|node| due(&self.cluster, &node)).unwrap_or_default()
    }

    /// Waits in a queue for the node's slot. The write is the one that is due in that slot, and `None` as soon as it
    /// no longer belongs to this queue.
    async fn wait_in_line(
        &self,
        node: &str,
        line: NudgeLine,
        retry: &mut RetryState,
        changes: &mut watch::Receiver<Ticks>,
    ) -> Option<Nudge> {
        let of_this_line = |nudge: &Nudge| nudge.direction.line() == line;
        let queue = match line {
            NudgeLine::Lowering => &self.lowering,
            NudgeLine::Rising => &self.rising,
        };
        let mut permit = pin!(queue.acquire(|| self.every(line)));
        loop {
            select! {
                permit = &mut permit => {
                    let nudge = self.due(node).nudge.filter(of_this_line)?;
                    if retry.wait(&nudge, Instant::now()).is_some() {
                        return None;
                    }
                    permit.consume();
                    return Some(nudge);
                }
                Ok(()) = changes.changed() => {
                    self.due(node).nudge.filter(of_this_line)?;
                }
            }
        }
    }

    /// The time between two slots of a line.
    fn every(&self, line: NudgeLine) -> Duration {
        match line {
            NudgeLine::Lowering => self.rates.lower_every(),
            NudgeLine::Rising => self.rates.rise_every(self.followed.load(Ordering::Relaxed)),
        }
    }

    /// Writes, and waits until the watch shows the write. The wait ends early if the node must be lowered, unless
    /// this write lowers.
    async fn write(
        &self,
        node: &str,
        nudge: &Nudge,
        retry: &mut RetryState,
        changes: &mut watch::Receiver<Ticks>,
    ) {
        let mut lowered = changes.clone();
        let result = select! {
            result = self.attempt(node, nudge, retry, changes) => result,
            () = self.until_lowered(node, &mut lowered), if nudge.direction != Direction::Lower => "overtaken",
        };
        NUDGES.with([nudge.direction.label(), result]).increment(1);
    }

    /// Ends when the node must be lowered.
    async fn until_lowered(&self, node: &str, changes: &mut watch::Receiver<Ticks>) {
        let is_to_be_lowered = || {
            let nudge = self.due(node).nudge;
            nudge.is_some_and(|nudge| nudge.direction == Direction::Lower)
        };
        while changes.changed().await.is_ok() {
            if is_to_be_lowered() {
                return;
            }
        }
    }

    /// Writes, and waits until the watch shows the write; returns the result as a metric label.
    async fn attempt(
        &self,
        node: &str,
        nudge: &Nudge,
        retry: &mut RetryState,
        changes: &mut watch::Receiver<Ticks>,
    ) -> &'static str {
        let written = self.writer.write_hint(node, nudge).await;
        let now = Instant::now();
        let label = nudge.direction.label();
        match written {
            Ok(version) => {
                let took = retry.due_for(now);
                NUDGE_SECONDS.with([label]).record(took);
                self.echo(node, version, changes).await;
                let left = self.due(node).nudge;
                let is_applied = !left.is_some_and(|left| left.asks_the_same_as(nudge));
                debug!(node, direction = label, ?took, is_applied, "nudged");
                retry.written(nudge, is_applied, now);
                if is_applied { "applied" } else { "unapplied" }
            }
            Err(NudgeError::Overtaken) => {
                debug!(node, direction = label, "not nudged: the Node has changed");
                let newer = nudge.version.map_or(0, |version| version.saturating_add(1));
                self.echo(node, newer, changes).await;
                "overtaken"
            }
            Err(error) => {
                warn!(node, direction = label, error = %chain(&error), "could not send the nudge; retrying");
                retry.failed(now);
                "failed"
            }
        }
    }

    /// Waits until the Node is known as of `version`, but not for ever.
    async fn echo(&self, node: &str, version: u64, changes: &mut watch::Receiver<Ticks>) {
        let seen = async {
            while self
                .cluster
                .nodes
                .get(node)
                .is_some_and(|node| node.version < version)
            {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        // A late echo is no fault: the next check uses the state of its own time.
        let _is_seen = timeout(ECHO_LIMIT, seen).await.is_ok();
    }
}

impl Nudge {
    /// True if both move allocatable in the same direction to the same amounts. The rest of their notes changes with
    /// every report.
    fn asks_the_same_as(&self, other: &Self) -> bool {
        (self.direction, self.expected) == (other.direction, other.expected)
    }
}

/// Counts a followed node while it lives.
struct FollowedCount<'a>(&'a AtomicUsize);

impl<'a> FollowedCount<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for FollowedCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
