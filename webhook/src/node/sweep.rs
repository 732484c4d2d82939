//! The leader's part: finds Nodes whose allocatable is not what the rules say, and has each decided anew.
//!
//! Nodes fall out of step when writes pass while no replica answers, and when policy or annotation changes and nobody
//! writes the status. The sweep only touches such a Node: it sends a PATCH of `nodes/status` without content, bound to
//! the resource version that was looked at, and admission decides. So a sweep can come late or twice, from a leader
//! that was frozen or from two at once, and the Node is what admission says all the same. Nodes whose agent talks to
//! this replica are left to nudges. With the gate of amplification off admission has no say; then nodes with our marker
//! are written as it would have them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use headroom_domain::{
    capacity::{self, amount},
    hint::Standing,
    names,
    resource::{PerResource, Resource},
};
use headroom_kit::log::chain;
use tokio::{
    select,
    sync::watch,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    Node, Rates, SECOND,
    metrics::{IS_LEADER, SWEEPS},
    nudge::{Toucher, doubled},
};
use crate::{cluster::Cluster, pace::Pace};

/// How often Nodes that have changed are looked at, and those found amiss. A Node is touched when two looks in a row
/// found the same amiss: a write that is on its way, or a nudge, may be about to mend it.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often all Nodes are looked at: policies, hints and pods change without them.
const LOOK_AT_ALL_EVERY: Duration = Duration::from_secs(2);
/// Pause before a Node is touched again that a touch has not mended; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(4);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Which way a touch moves allocatable, in the order of urgency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Down for at least one resource, or what we left is to go.
    Lower,
    /// Back to what we wrote last, at most.
    Repair,
    /// Above it.
    Rise,
}

/// What is amiss with a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    direction: Direction,
    /// What allocatable should be, in milli-cores and bytes.
    expected: PerResource<Option<u64>>,
}

/// The faults of one Node, from one look to the next.
#[derive(Debug)]
struct Course {
    fault: Fault,
    /// Touches in vain, and when the last one was.
    tried: u32,
    last: Option<Instant>,
}

/// Looks at all Nodes while it leads, and touches those that are not as they should be.
pub struct Sweeper {
    cluster: Arc<Cluster>,
    toucher: Arc<dyn Toucher>,
    courses: HashMap<String, Course>,
    /// When all Nodes were last looked at in this term.
    saw_all: Option<Instant>,
    /// The newest resource version that was looked at.
    newest: u64,
    rates: Rates,
    touches: Pace,
    rises: Pace,
    started: Instant,
}

impl Direction {
    /// The metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Repair => "repair",
            Self::Rise => "rise",
        }
    }
}

impl Sweeper {
    /// Touches through this, no faster than that.
    pub fn new(cluster: Arc<Cluster>, toucher: Arc<dyn Toucher>, rates: Rates) -> Self {
        Self {
            cluster,
            toucher,
            courses: HashMap::new(),
            saw_all: None,
            newest: 0,
            rates,
            touches: Pace::new(SECOND / rates.sweep.max(1), 1),
            rises: Pace::new(SECOND, 1),
            started: Instant::now(),
        }
    }

    /// Sweeps whenever this replica leads, until told to stop.
    pub async fn sweep(mut self, mut is_leader: watch::Receiver<bool>, stop: CancellationToken) {
        loop {
            let leads = async {
                // The sender lives as long as this process contends for the lease.
                if is_leader.wait_for(|leads| *leads).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            select! {
                () = stop.cancelled() => return,
                () = leads => {}
            }
            IS_LEADER.with([]).set(1.0);
            info!("leading: nodes are kept as the rules say");
            let term = is_leader.clone();
            select! {
                () = stop.cancelled() => return,
                () = self.lead(&term) => {}
            }
            self.courses.clear();
            self.saw_all = None;
            IS_LEADER.with([]).set(0.0);
        }
    }

    async fn lead(&mut self, term: &watch::Receiver<bool>) {
        while *term.borrow() {
            let looked = Instant::now();
            for (node, fault) in self.look(looked) {
                // What does not fit into this round is found again in the next, with its urgency of then.
                if !self.is_its_turn(fault.direction, looked + LOOK_EVERY).await {
                    break;
                }
                if !*term.borrow() {
                    return;
                }
                self.touch(&node, fault).await;
            }
            sleep(LOOK_EVERY.saturating_sub(looked.elapsed())).await;
        }
    }

    /// The Nodes to touch now, the most urgent first.
    fn look(&mut self, now: Instant) -> Vec<(Arc<Node>, Fault)> {
        if !self.cluster.has_synced() {
            return Vec::new();
        }
        let is_at_all = self
            .saw_all
            .is_none_or(|last| now.saturating_duration_since(last) >= LOOK_AT_ALL_EVERY);
        if is_at_all {
            self.saw_all = Some(now);
        }
        let seen = self.newest;
        let mut due = Vec::new();
        let mut amiss = HashSet::new();
        for node in self.cluster.nodes.all() {
            self.newest = self.newest.max(node.version);
            if !is_at_all && node.version <= seen && !self.courses.contains_key(&node.name) {
                continue;
            }
            let Some(fault) = fault(&self.cluster, &node) else {
                continue;
            };
            amiss.insert(node.name.clone());
            match self.courses.get(&node.name) {
                Some(course) if course.fault == fault => {
                    if course.is_due(now) {
                        due.push((node, fault));
                    }
                }
                Some(_) | None => {
                    let course = Course {
                        fault,
                        tried: 0,
                        last: None,
                    };
                    self.courses.insert(node.name.clone(), course);
                }
            }
        }
        self.courses.retain(|name, _| amiss.contains(name));
        due.sort_by_key(|(_, fault)| fault.direction);
        due
    }

    /// Takes one touch out of what all Nodes may have together, unless that would take until `end`.
    async fn is_its_turn(&mut self, direction: Direction, end: Instant) -> bool {
        let pace = match direction {
            Direction::Lower | Direction::Repair => &mut self.touches,
            Direction::Rise => {
                self.rises
                    .set_every(self.rates.rise_every(self.cluster.nodes.len()));
                &mut self.rises
            }
        };
        while let Err(wait) = pace.take(self.started.elapsed()) {
            if Instant::now() + wait >= end {
                return false;
            }
            sleep(wait).await;
        }
        true
    }

    async fn touch(&mut self, node: &Node, fault: Fault) {
        let Fault { direction, expected } = fault;
        let result = match self.toucher.touch(node).await {
            Ok(()) => {
                debug!(
                    node = node.name,
                    direction = direction.label(),
                    ?expected,
                    "touched"
                );
                "touched"
            }
            Err(error) => {
                warn!(node = node.name, direction = direction.label(), error = %chain(&error), "cannot touch; trying again");
                "failed"
            }
        };
        SWEEPS.with([direction.label(), result]).increment(1);
        if let Some(course) = self.courses.get_mut(&node.name) {
            course.tried = course.tried.saturating_add(1);
            course.last = Some(Instant::now());
        }
    }
}

impl Course {
    fn is_due(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| {
            let pause = doubled(FIRST_PAUSE, self.tried.saturating_sub(1), LONGEST_PAUSE);
            now.saturating_duration_since(last) >= pause
        })
    }
}

/// What is amiss with a Node, if anything is.
pub(crate) fn fault(cluster: &Cluster, node: &Node) -> Option<Fault> {
    let (decision, hint) = cluster.preview(node, cluster.now());
    // Traces of ours on a node that is no longer ours to change.
    let is_left_over = node.state.annotations.marker.is_some()
        && decision
            .annotations
            .iter()
            .any(|(key, value)| *key == names::MARKER && value.is_none());
    let is_nudged = hint.is_some_and(|found| found.standing == Standing::Fresh) && !is_left_over;
    let is_somebody_elses = node.state.annotations.marker.is_none();
    if (cluster.amplifies() && is_nudged) || (!cluster.amplifies() && is_somebody_elses) {
        return None;
    }
    let stored = |resource| {
        let stored = node.state.allocatable.get(resource).as_ref()?;
        amount(resource, stored)
    };
    let written = capacity::written_last(&node.state.annotations, &node.uid);
    let expected = decision.outcomes.map(|_, outcome| outcome.result);
    let towards = |resource: Resource| {
        decision.allocatable.get(resource).as_ref()?;
        let expected = *expected.get(resource);
        Some(if expected < stored(resource) {
            Direction::Lower
        } else if expected <= *written.get(resource) {
            Direction::Repair
        } else {
            Direction::Rise
        })
    };
    let directions = Resource::ALL
        .into_iter()
        .filter_map(towards)
        .chain(is_left_over.then_some(Direction::Lower));
    // One write moves both: as urgent as the more urgent, but as slow as the one that rises.
    let directions: Vec<Direction> = directions.collect();
    let direction = if directions.contains(&Direction::Lower) {
        Direction::Lower
    } else {
        directions.into_iter().max()?
    };
    Some(Fault { direction, expected })
}

#[cfg(test)]
mod tests;
