//! Sweep of the leader: finds Nodes whose allocatable differs from the rules, and makes admission decide each of them
//! again.
//!
//! Nodes fall out of step when writes pass while no replica answers, and when policy or annotation changes and no
//! status write follows. The sweep only touches such a Node: it sends a PATCH of `nodes/status` without content, bound
//! to the resource version of the Node that it checked, and admission decides. So a sweep can come late or twice, from
//! a leader that was frozen or from two at once, and admission still decides the Node. Nodes whose agent has a stream
//! to this replica are left to nudges. Two lowerings are nudged from here: one that the primary has not written in
//! time, and one that the last report of an ended stream asked for, because the replica that answers a touch may not
//! have that report. With the gate of amplification off the API server does not ask admission; Nodes with the webhook's
//! marker are then written as admission would have them.

mod overdue;
pub mod remedy;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use headroom_kit::{log::chain, pace::Pace};
use tokio::{
    select,
    sync::watch,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use self::{
    overdue::Overdue,
    remedy::{Fault, Remedy, SweepDirection},
};
use super::{
    metrics::{IS_LEADER, SWEEPS},
    nudge::{Nudge, NudgeError, StatusPatcher, StatusWriter, doubled},
};
use crate::{
    control::{
        rates::{Rates, SECOND},
        time_slices::Slices,
    },
    store::{cluster::Cluster, node::Node},
};

/// Interval of the checks of changed Nodes and of Nodes with a fault. The sweep patches a Node only after two checks
/// in a row found the same fault, since a pending write or a nudge may be about to fix it.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Interval of the checks of all Nodes: policies, hints and pods change without a Node event.
const LOOK_AT_ALL_EVERY: Duration = Duration::from_secs(2);
/// Pause before a Node is patched again after a patch that did not fix it: two checks of all Nodes. It doubles up to
/// [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(4);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Faults of one Node over several checks.
#[derive(Debug)]
struct FaultHistory {
    fault: Fault,
    /// Touches in vain, and when the last one was.
    tried: u32,
    last: Option<Instant>,
}

/// Checks all Nodes while it leads, and patches those whose allocatable is not up to date.
pub struct Sweeper {
    cluster: Arc<Cluster>,
    patcher: Arc<dyn StatusPatcher>,
    writer: Arc<dyn StatusWriter>,
    histories: HashMap<String, FaultHistory>,
    overdue: Overdue,
    /// Time of the last check of all Nodes in this term.
    saw_all: Option<Instant>,
    /// Newest resource version that was checked.
    newest: u64,
    rates: Rates,
    triggers: Pace,
    rises: Pace,
    started: Instant,
}

impl Sweeper {
    /// Touches and nudges through these, no faster than that.
    pub fn new(
        cluster: Arc<Cluster>,
        patcher: Arc<dyn StatusPatcher>,
        writer: Arc<dyn StatusWriter>,
        rates: Rates,
    ) -> Self {
        Self {
            cluster,
            patcher,
            writer,
            histories: HashMap::new(),
            overdue: Overdue::default(),
            saw_all: None,
            newest: 0,
            rates,
            triggers: Pace::new(SECOND / rates.sweep.max(1), 1),
            rises: Pace::new(SECOND, 1),
            started: Instant::now(),
        }
    }

    /// Sweeps whenever this replica leads, until `stop` is cancelled.
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
            info!("leading: this replica sweeps");
            let term = is_leader.clone();
            select! {
                () = stop.cancelled() => return,
                () = self.lead(&term) => {}
            }
            self.histories.clear();
            self.overdue.clear();
            self.saw_all = None;
            IS_LEADER.with([]).set(0.0);
        }
    }

    async fn lead(&mut self, term: &watch::Receiver<bool>) {
        while *term.borrow() {
            let looked = Instant::now();
            for (node, remedy) in self.due_nodes(looked).await {
                // A Node that does not fit into this round is found again in the next, with its urgency of that time.
                if !self.is_its_turn(remedy.direction(), looked + LOOK_EVERY).await {
                    break;
                }
                if !*term.borrow() {
                    return;
                }
                match remedy {
                    Remedy::TriggerAdmission(fault) => self.trigger_admission(&node, fault).await,
                    Remedy::Nudge { nudge, is_overdue } => self.nudge(&node, &nudge, is_overdue).await,
                }
            }
            sleep(LOOK_EVERY.saturating_sub(looked.elapsed())).await;
        }
    }

    /// The Nodes to do something about now, the most urgent first.
    async fn due_nodes(&mut self, now: Instant) -> Vec<(Arc<Node>, Remedy)> {
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
        let (mut amiss, mut lowering) = (HashSet::new(), HashSet::new());
        let mut slices = Slices::begin();
        for node in self.cluster.nodes.all() {
            slices.rest().await;
            self.newest = self.newest.max(node.version);
            let is_followed = self.histories.contains_key(&node.name) || self.overdue.contains(&node.name);
            if !is_at_all && node.version <= seen && !is_followed {
                continue;
            }
            let (decision, hint) = self.cluster.preview(&node, self.cluster.now());
            if let Some(fault) = remedy::fault_of(&self.cluster, &node, &decision, hint.as_ref()) {
                amiss.insert(node.name.clone());
                if self.is_due(&node.name, fault, now) {
                    let remedy = remedy::remedy_of(&self.cluster, &node, fault, &decision, hint.as_ref());
                    due.push((node, remedy));
                }
            } else if let Some(nudge) = remedy::lowering_of(&self.cluster, &node, &decision, hint.as_ref()) {
                lowering.insert(node.name.clone());
                if self.overdue.is_late(&node, now) {
                    let is_overdue = true;
                    due.push((node, Remedy::Nudge { nudge, is_overdue }));
                }
            }
        }
        self.histories.retain(|name, _| amiss.contains(name));
        self.overdue.keep(&lowering);
        due.sort_by_key(|(_, remedy)| remedy.direction());
        due
    }

    /// True if that fault was found before, and the last touch is long enough ago.
    fn is_due(&mut self, node: &str, fault: Fault, now: Instant) -> bool {
        if let Some(history) = self.histories.get(node).filter(|history| history.fault == fault) {
            return history.is_due(now);
        }
        let history = FaultHistory {
            fault,
            tried: 0,
            last: None,
        };
        self.histories.insert(node.to_owned(), history);
        false
    }

    /// Takes a permit from the rate limit of all Nodes, unless that would take until `end`.
    async fn is_its_turn(&mut self, direction: SweepDirection, end: Instant) -> bool {
        let pace = match direction {
            SweepDirection::Lower | SweepDirection::Repair => &mut self.triggers,
            SweepDirection::Rise => {
                self.rises
                    .set_every(self.rates.rise_every(self.cluster.nodes.len()));
                &mut self.rises
            }
        };
        while let Err(wait) = pace.try_acquire(self.started.elapsed()) {
            if Instant::now() + wait >= end {
                return false;
            }
            sleep(wait).await;
        }
        true
    }

    async fn trigger_admission(&mut self, node: &Node, fault: Fault) {
        let Fault { direction, expected } = fault;
        let touched = self.patcher.trigger_admission(node).await;
        if touched.is_ok() {
            debug!(
                node = node.name,
                direction = direction.label(),
                ?expected,
                "touched"
            );
        }
        count(node, direction.label(), "touched", touched);
        self.tried(node);
    }

    /// Writes a hint that lowers. An overdue one that does not is tried again after as long a wait.
    async fn nudge(&mut self, node: &Node, nudge: &Nudge, is_overdue: bool) {
        let written = self.writer.write_hint(&node.name, nudge).await;
        if written.is_ok() {
            info!(node = node.name, expected = ?nudge.expected, is_overdue, "lowered for a primary that did not write");
        }
        let direction = if is_overdue {
            "overdue"
        } else {
            SweepDirection::Lower.label()
        };
        count(node, direction, "nudged", written.map(drop));
        if is_overdue {
            self.overdue.restart(node, Instant::now());
        } else {
            self.tried(node);
        }
    }

    /// Notes a write, for the pause before the next.
    fn tried(&mut self, node: &Node) {
        if let Some(history) = self.histories.get_mut(&node.name) {
            history.tried = history.tried.saturating_add(1);
            history.last = Some(Instant::now());
        }
    }
}

/// Counts a write, and logs a failed one.
fn count(node: &Node, direction: &'static str, written: &'static str, result: Result<(), NudgeError>) {
    let result = match result {
        Ok(()) => written,
        Err(error) => {
            warn!(node = node.name, direction, error = %chain(&error), "could not write; retrying");
            "failed"
        }
    };
    SWEEPS.with([direction, result]).increment(1);
}

impl FaultHistory {
    fn is_due(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| {
            let pause = doubled(FIRST_PAUSE, self.tried.saturating_sub(1), LONGEST_PAUSE);
            now.saturating_duration_since(last) >= pause
        })
    }
}

#[cfg(test)]
mod tests;
