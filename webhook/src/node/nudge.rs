//! Asks the API server to have a node decided anew, when a hint, a pod or a policy demands another allocatable and
//! no status write has applied it. A nudge is a PATCH of `nodes/status` that carries only the hint annotation; the
//! admission endpoint does the rest.

mod restorer;
mod writer;

use std::{
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use headroom_domain::{
    capacity::amount,
    hint::{Brake, Note},
    names,
    resource::{PerResource, Resource},
};
use headroom_kit::log::chain;
use tokio::{
    select,
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tracing::{debug, warn};

pub use self::{
    restorer::Restorer,
    writer::{ACCESS, ApiServer, NudgeError, StatusWriter, Toucher},
};
use super::{
    Node, Rates, SECOND,
    metrics::{NUDGE_SECONDS, NUDGES},
};
use crate::{changes::Ticks, cluster::Cluster, pace::Pace};

/// How long to wait for our own write to come back on the watch before looking again.
const ECHO_LIMIT: Duration = Duration::from_secs(2);
/// Least time between two rises of one node.
const RISE_EVERY: Duration = Duration::from_secs(1);
/// First pause after a failed write; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Pause before a write is repeated that went through and changed nothing; it doubles up to [`LONGEST_REPEAT`].
const FIRST_REPEAT: Duration = Duration::from_secs(1);
const LONGEST_REPEAT: Duration = Duration::from_secs(60);

/// Which way a nudge moves allocatable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Down for at least one resource.
    Lower,
    /// Up.
    Rise,
    /// Not at all: a brake is to be put on record, or what is on record to be renewed.
    Note,
}

/// A write that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nudge {
    /// Which way it moves allocatable.
    pub direction: Direction,
    /// The hint annotation it carries.
    pub note: String,
    /// What allocatable is expected to become, in milli-cores and bytes.
    pub expected: PerResource<Option<u64>>,
}

/// Nudges nodes, each on its own, all within one pace.
pub struct Nudger {
    cluster: Arc<Cluster>,
    writer: Arc<dyn StatusWriter>,
    followed: AtomicUsize,
    rates: Rates,
    started: Instant,
    paces: Mutex<Paces>,
}

#[derive(Debug)]
struct Paces {
    lower: Pace,
    rise: Pace,
}

/// What is due for a node, and when something else may be although nobody says anything new.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// The write.
    pub(crate) nudge: Option<Nudge>,
    changes_in: Option<Duration>,
}

/// What to do next for a node.
enum Next {
    /// Write.
    Write(Nudge),
    /// Wait for a change, or for so long.
    Wait(Option<Duration>),
}

/// What happened to the nudges of one node so far.
#[derive(Debug, Default)]
struct Course {
    due_since: Option<Instant>,
    last_rise: Option<Instant>,
    failures: u32,
    failed_at: Option<Instant>,
    /// A write that went through but was not applied, how often in a row, and when last.
    unapplied: Option<(Nudge, u32, Instant)>,
}

impl Direction {
    /// The metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Rise => "rise",
            Self::Note => "note",
        }
    }
}

impl Nudger {
    /// Nudges through this writer, no faster than that.
    pub fn new(cluster: Arc<Cluster>, writer: Arc<dyn StatusWriter>, rates: Rates) -> Self {
        let paces = Paces {
            lower: Pace::new(SECOND / rates.lower.max(1), rates.lower),
            rise: Pace::new(SECOND, 1),
        };
        Self {
            cluster,
            writer,
            followed: AtomicUsize::new(0),
            rates,
            started: Instant::now(),
            paces: Mutex::new(paces),
        }
    }

    /// Follows a node and nudges it whenever that is due, one write at a time, for as long as it is polled.
    pub fn follow(self: Arc<Self>, node: String) -> impl Future<Output = ()> + Send {
        let mut changes = self.cluster.changes.follow(&node);
        async move {
            let _followed = Followed::new(&self.followed);
            let mut course = Course::default();
            loop {
                changes.mark_unchanged();
                let wait = match self.next(&node, &mut course) {
                    Next::Wait(wait) => wait,
                    Next::Write(nudge) => {
                        self.write(&node, nudge, &mut course, &mut changes).await;
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
                // The sender lives in the cluster that we hold; were it gone, there would be nothing to follow.
                if changed.is_err() {
                    return;
                }
            }
        }
    }

    /// What to do for a node, from what is known now.
    fn next(&self, node: &str, course: &mut Course) -> Next {
        let Due { nudge, changes_in } = self.due(node);
        let Some(nudge) = nudge else {
            course.due_since = None;
            return Next::Wait(changes_in);
        };
        match course
            .wait(&nudge, Instant::now())
            .or_else(|| self.take(nudge.direction))
        {
            None => Next::Write(nudge),
            wait => Next::Wait(wait),
        }
    }

    /// What is due for a node, from what is known now.
    fn due(&self, node: &str) -> Due {
        let node = self.cluster.nodes.get(node);
        node.map(|node| due(&self.cluster, &node)).unwrap_or_default()
    }

    /// Takes one write out of what all nodes may do together, or says how long to wait.
    fn take(&self, direction: Direction) -> Option<Duration> {
        let now = self.started.elapsed();
        let Paces { lower, rise } = &mut *self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        let pace = match direction {
            Direction::Lower | Direction::Note => lower,
            Direction::Rise => {
                rise.set_every(self.rates.rise_every(self.followed.load(Ordering::Relaxed)));
                rise
            }
        };
        pace.take(now).err()
    }

    /// Writes, and waits until the write can be seen.
    async fn write(
        &self,
        node: &str,
        nudge: Nudge,
        course: &mut Course,
        changes: &mut watch::Receiver<Ticks>,
    ) {
        let written = self.writer.write_hint(node, &nudge.note).await;
        let now = Instant::now();
        let label = nudge.direction.label();
        let result = match written {
            Ok(version) => {
                let took = now.saturating_duration_since(course.due_since.unwrap_or(now));
                NUDGE_SECONDS.with([label]).record(took);
                self.echo(node, version, changes).await;
                let is_applied = self.due(node).nudge.as_ref() != Some(&nudge);
                debug!(node, direction = label, ?took, is_applied, "nudged");
                course.written(nudge, is_applied, now);
                if is_applied { "applied" } else { "unapplied" }
            }
            Err(error) => {
                warn!(node, direction = label, error = %chain(&error), "cannot nudge; trying again");
                course.failed(now);
                "failed"
            }
        };
        NUDGES.with([label, result]).increment(1);
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
        // Late echoes are no fault: the next look is at what is known then.
        let _is_seen = timeout(ECHO_LIMIT, seen).await.is_ok();
    }
}

/// What is due for a Node: a write, if it would move allocatable, or if a brake is not on record yet or what is on
/// record grows old.
pub(crate) fn due(cluster: &Cluster, node: &Node) -> Due {
    if !cluster.amplifies() || !cluster.nodes.has_synced() {
        // Admission would not act on it, or what came of it would not be seen here.
        return Due::default();
    }
    let (decision, hint) = cluster.preview(node, cluster.now());
    let Some(found) = hint else {
        return Due::default();
    };
    let mut direction = None;
    for resource in Resource::ALL {
        if decision.allocatable.get(resource).is_none() {
            continue;
        }
        let stored = node.state.allocatable.get(resource).as_ref();
        let stored = stored.and_then(|quantity| amount(resource, quantity));
        let expected = decision.outcomes.get(resource).result;
        direction = match direction {
            Some(Direction::Lower) => direction,
            _ if expected < stored => Some(Direction::Lower),
            _ => Some(Direction::Rise),
        };
    }
    let recorded = decision
        .annotations
        .iter()
        .find_map(|(key, value)| value.as_ref().filter(|_| *key == names::HINT));
    let is_news = found.is_renewal_due || is_braked_anew(&found.note, node.note().as_ref());
    if direction.is_none() && recorded.is_some() && is_news {
        direction = Some(Direction::Note);
    }
    let nudge = direction.map(|direction| Nudge {
        direction,
        note: recorded.map_or_else(|| found.note.to_string(), Clone::clone),
        expected: decision.outcomes.map(|_, outcome| outcome.result),
    });
    Due {
        nudge,
        changes_in: found.changes_in,
    }
}

/// True if a resource is braked harder than the Node's annotation says.
fn is_braked_anew(note: &Note, stored: Option<&Note>) -> bool {
    let stored = stored.map(Note::resources);
    let before = |resource| {
        stored
            .as_ref()
            .map_or(Brake::Off, |stored| stored.get(resource).brake())
    };
    Resource::ALL
        .into_iter()
        .any(|resource| note.resources().get(resource).brake() > before(resource))
}

impl Course {
    /// How long a nudge has to wait for what happened before; `None` if not at all.
    fn wait(&mut self, nudge: &Nudge, now: Instant) -> Option<Duration> {
        self.due_since.get_or_insert(now);
        let after = |time: Option<Instant>, pause: Duration| {
            time.map(|time| (time + pause).saturating_duration_since(now))
                .unwrap_or_default()
        };
        let failed = after(
            self.failed_at,
            doubled(FIRST_PAUSE, self.failures.saturating_sub(1), LONGEST_PAUSE),
        );
        let risen = match nudge.direction {
            Direction::Rise => after(self.last_rise, RISE_EVERY),
            Direction::Lower | Direction::Note => Duration::ZERO,
        };
        let repeated = match &self.unapplied {
            Some((unapplied, times, at)) if unapplied == nudge => after(
                Some(*at),
                doubled(FIRST_REPEAT, times.saturating_sub(1), LONGEST_REPEAT),
            ),
            Some(_) | None => Duration::ZERO,
        };
        Some(failed.max(risen).max(repeated)).filter(|wait| *wait > Duration::ZERO)
    }

    /// Remembers a write that went through.
    fn written(&mut self, nudge: Nudge, is_applied: bool, now: Instant) {
        (self.failures, self.failed_at, self.due_since) = (0, None, None);
        if nudge.direction == Direction::Rise {
            self.last_rise = Some(now);
        }
        self.unapplied = match self.unapplied.take() {
            _ if is_applied => None,
            Some((before, times, _)) if before == nudge => Some((nudge, times.saturating_add(1), now)),
            Some(_) | None => Some((nudge, 1, now)),
        };
    }

    /// Remembers a write that failed.
    fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.failed_at = Some(now);
    }
}

/// `first`, doubled so many times, but at most `longest`.
pub(super) fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times)).min(longest)
}

/// Counts a followed node while it lives.
struct Followed<'a>(&'a AtomicUsize);

impl<'a> Followed<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Followed<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
