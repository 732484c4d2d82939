//! Decides which nudge is due for a Node, if any, for the nudger and for the sweep.

use std::time::Duration;

use headroom_domain::{
    capacity::{Decision, ResourceDecision, amount, recorded_places},
    hint::{Brake, EffectiveHint, Note},
    names,
    ratio::{Cents, Ratio},
    resource::{PerResource, Resource},
};

use super::{Direction, Nudge};
use crate::store::{cluster::Cluster, node::Node};

/// The nudge that is due for a node, if any.
#[derive(Debug, Default)]
pub struct DueNudge {
    pub nudge: Option<Nudge>,
    /// Time until another one may be due without any news.
    pub(super) changes_in: Option<Duration>,
}

/// The nudge that is due for a Node.
pub fn due(cluster: &Cluster, node: &Node) -> DueNudge {
    let (decision, hint) = cluster.preview(node, cluster.now());
    due_of(cluster, node, &decision, hint.as_ref())
}

/// The nudge that is due for a Node after this decision. A write is due if it would move allocatable, if a brake or a
/// quarantine is not on record yet, if the record grows old, or if the recorded ratio may rise.
///
/// The recorded ratio rises by one step per frame, and the next step counts from the record. So it must rise while the
/// floor hides it: otherwise each step would wait for a write of the kubelet.
pub(in crate::control) fn due_of(
    cluster: &Cluster,
    node: &Node,
    decision: &Decision,
    hint: Option<&EffectiveHint>,
) -> DueNudge {
    if !cluster.amplifies() || !cluster.nodes.has_synced() {
        // Admission would not act on it, or its result would not be observed here.
        return DueNudge::default();
    }
    let Some(found) = hint else {
        return DueNudge::default();
    };
    let ends = [found.changes_in, cluster.pods.place_closes_in(&node.name)];
    let changes_in = ends.into_iter().flatten().min();
    if found.origin.is_node() {
        // A nudge is trusted for its writer's stream from the agent. Every user with the right to patch nodes can
        // write the annotations of a Node.
        return DueNudge {
            nudge: None,
            changes_in,
        };
    }
    let (mut direction, mut raises) = (None, false);
    for resource in Resource::ALL {
        if decision.allocatable.get(resource).is_none() {
            continue;
        }
        let stored = node.state.allocatable.get(resource).as_ref();
        let stored = stored.and_then(|quantity| amount(resource, quantity));
        let expected = decision.outcomes.get(resource).result;
        raises |= expected > stored;
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
    let stored = node.note();
    let is_news = found.is_record_due
        || has_new_places(decision, node)
        || is_braked_anew(&found.note, stored)
        || found.note.quarantine != stored.and_then(|stored| stored.quarantine.clone());
    if direction.is_none() && recorded.is_some() {
        direction = if is_news {
            Some(Direction::Note)
        } else {
            raises_record(decision, stored).then_some(Direction::Rise)
        };
    }
    let nudge = direction.map(|direction| Nudge {
        direction,
        note: recorded.filter(|_| asks_hint(decision)).map_or_else(
            || found.note_for_others(&applied(decision, stored)).to_string(),
            Clone::clone,
        ),
        expected: decision.outcomes.map(|_, outcome| outcome.result),
        version: (raises || direction != Direction::Lower).then_some(node.version),
    });
    DueNudge { nudge, changes_in }
}

/// True if places raise allocatable that are not on record: a replica that starts now would lower it.
fn has_new_places(decision: &Decision, node: &Node) -> bool {
    let recorded = recorded_places(&node.state.annotations, &node.uid);
    Resource::ALL.into_iter().any(|resource| {
        let counting = decision.outcomes.get(resource).counting_places();
        counting.total() > recorded.get(resource).total()
    })
}

/// True if a hint gave the ratio. Otherwise the recorded ratio is the administrator's, and was never measured:
/// another replica may use hints already, and would take it for one.
fn asks_hint(decision: &Decision) -> bool {
    let is_asked = |resource| decision.outcomes.get(resource).hinted.is_some();
    Resource::ALL.into_iter().any(is_asked)
}

/// True if a hint gives a ratio above the one in the Node's annotation.
fn raises_record(decision: &Decision, stored: Option<&Note>) -> bool {
    let stored = stored.map(Note::resources);
    let is_raised = |resource| {
        let ResourceDecision { applied, hinted, .. } = decision.outcomes.get(resource);
        let before = stored
            .as_ref()
            .map_or(Cents::ONE, |stored| stored.get(resource).published());
        hinted.is_some_and(|hinted| hinted > before && *applied == Some(Ratio::from_cents(hinted)))
    };
    Resource::ALL.into_iter().any(is_raised)
}

/// The ratios in force: by the Node's annotation, before the floor; by the decision where it has none.
fn applied(decision: &Decision, stored: Option<&Note>) -> PerResource<Cents> {
    decision.outcomes.map(|resource, outcome| match stored {
        Some(stored) => stored.resources().get(resource).published(),
        None => outcome.ratio.unwrap_or(Cents::ONE),
    })
}

/// True if the brake of a resource is above the one in the Node's annotation.
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
