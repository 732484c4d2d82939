//! Rates a hint by its age in monotonic time (fresh, may only lower, at most 1.00) and limits its rise above the last
//! ratio. See docs/capacity.md#the-life-of-a-report.

use std::time::Duration;

use super::{Contradiction, Note};
use crate::{
    annotation::Annotation,
    ratio::Cents,
    resource::{PerResource, Resource},
    timing::STEP,
};

/// Up to this age the report of an open stream is fresh: an agent reports every 15 s, so three reports may be lost.
pub(super) const FRESH: Duration = Duration::from_secs(60);
/// Up to this age the report of an open stream holds the ratio.
const HOLD: Duration = Duration::from_secs(300);
/// Up to this age the report of an open stream holds the ratio if its agent announced that it stops.
const HOLD_DRAINING: Duration = Duration::from_secs(600);
/// Up to this age plus a spread per node, a hint without an open stream holds the ratio.
const HOLD_NOTE: Duration = Duration::from_secs(600);
/// Upper bound of the spread. Without a spread, a fleet whose webhook was down would lose its ratios at one moment.
const NOTE_SPREAD_SECONDS: u64 = 300;
/// An age exceeds a limit after this time more.
const A_MOMENT: Duration = Duration::from_millis(1);

/// Effect of a hint by its age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// May raise and lower the ratio.
    Fresh,
    /// May lower the ratio, not raise it.
    Hold,
    /// Counts as at most 1.00.
    Stop,
}

/// Source of a hint, which limits its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The agent's stream to this replica.
    Stream,
    /// The annotation on the Node.
    Annotation,
    /// The write itself, a nudge of another replica.
    Nudge,
    /// The marker on the Node, which replaces an unreadable annotation: the last written ratio.
    Marker,
}

impl Origin {
    /// Returns true for a hint that only the Node carries. Any user with the right to patch nodes can write it, so it
    /// keeps the ratio in force and raises nothing.
    pub const fn is_node(self) -> bool {
        match self {
            Self::Annotation | Self::Marker => true,
            Self::Stream | Self::Nudge => false,
        }
    }
}

/// Reason why a fresh hint may not raise the ratio, or not even keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRaiseReason {
    /// The hint was computed before the node's pods last changed.
    OlderPods,
    /// The hint's capacity differs from the Node's.
    OtherCapacity,
    /// The API server does not enforce the floor.
    NoFloor,
    /// The agent's reports contradict other facts: the hint counts as at most 1.00.
    Quarantined(Contradiction),
}

/// Hint in force for a node.
#[derive(Debug, Clone)]
pub struct EffectiveHint {
    /// Short form of the hint.
    pub note: Note,
    /// Effect of the hint by its age.
    pub freshness: Freshness,
    /// Source of the hint, which limits its effect.
    pub origin: Origin,
    /// Largest rise above the last applied ratio.
    pub step: PerResource<Cents>,
    /// Reason why it may not raise although it is fresh.
    pub caution: Option<NoRaiseReason>,
    /// Time until it counts for less, or may raise, without a new report.
    pub changes_in: Option<Duration>,
    /// True if the Node's annotation must be written. Otherwise replicas without the agent's stream would soon stop
    /// holding it, or this replica would return to its own earlier report, in which pods have other exclusive CPUs.
    pub is_record_due: bool,
    /// CPUs of the machine that no pod may use, in milli-cores; 0 if only the Node is known.
    pub isolated: PerResource<u64>,
}

/// Query for the hint of a node, for one write.
#[derive(Debug, Clone, Copy, Default)]
pub struct HintQuery<'a> {
    /// Name of the Node object.
    pub node: &'a str,
    /// UID of the Node object.
    pub uid: &'a str,
    /// Resource version of the stored object; it orders the states of the Node.
    pub version: u64,
    /// Hint annotation of the stored Node.
    pub stored: Option<&'a Annotation<Note>>,
    /// Ratios in the stored marker if one is above 1.00; `None` if they do not count. They replace an unreadable hint
    /// annotation.
    pub written: Option<PerResource<Cents>>,
    /// Hint annotation of the write if it is a nudge.
    pub nudged: Option<&'a Annotation<Note>>,
    /// Machine of the Node in this write.
    pub machine: Machine,
}

/// Machine of a Node in the state under decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Machine {
    /// `status.capacity` in milli-cores and bytes; `None` if unreadable.
    pub capacity: PerResource<Option<u64>>,
    /// True while the condition `MemoryPressure` is true.
    pub has_memory_pressure: bool,
}

impl HintQuery<'_> {
    /// Content of the stored annotation if it belongs to this Node.
    pub fn note(&self) -> Option<&Note> {
        self.of_this_node(self.stored?)
    }

    /// Content of the nudge if it belongs to this Node and differs from the stored annotation.
    pub(super) fn nudge(&self) -> Option<&Note> {
        let nudged = self.nudged.filter(|nudged| Some(*nudged) != self.stored)?;
        self.of_this_node(nudged)
    }

    fn of_this_node<'n>(&self, annotation: &'n Annotation<Note>) -> Option<&'n Note> {
        annotation.value().filter(|note| note.uid == self.uid)
    }
}

impl EffectiveHint {
    /// A hint from a stream with this effect and no limit on its rise.
    pub fn new(note: Note, freshness: Freshness) -> Self {
        Self {
            note,
            freshness,
            origin: Origin::Stream,
            step: PerResource::from_fn(|_| Cents(u32::MAX)),
            caution: None,
            changes_in: None,
            is_record_due: false,
            isolated: PerResource::default(),
        }
    }

    /// Hint for other replicas while `applied` is in force. They treat a nudge as fresh and its rise as due. So it
    /// contains at most the applied ratios, and at most 1.00 once the hint no longer holds.
    pub fn note_for_others(&self, applied: &PerResource<Cents>) -> Note {
        let most = match self.freshness {
            Freshness::Fresh | Freshness::Hold => Cents(u32::MAX),
            Freshness::Stop => Cents::ONE,
        };
        let ratios = self
            .note
            .resources()
            .map(|resource, part| part.published().min(*applied.get(resource)).min(most));
        self.note.clone().with_ratios(&ratios)
    }
}

/// Ratio in a Node's annotation; 1.00 without one.
pub(super) fn applied(stored: Option<&Note>, resource: Resource) -> Cents {
    stored.map_or(Cents::ONE, |stored| stored.resources().get(resource).published())
}

/// Effect of an open stream's report at that age, and the time until it changes.
pub(super) fn streamed(age: Duration, is_draining: bool) -> (Freshness, Option<Duration>) {
    let hold = if is_draining { HOLD_DRAINING } else { HOLD };
    if age <= FRESH {
        (Freshness::Fresh, Some(FRESH.saturating_sub(age) + A_MOMENT))
    } else {
        held_freshness(age, hold)
    }
}

/// Effect of a hint without an open stream at that age, and the time until it changes.
pub(super) fn noted(node: &str, age: Duration) -> (Freshness, Option<Duration>) {
    let spread = Duration::from_secs(spread(node) % NOTE_SPREAD_SECONDS);
    held_freshness(age, HOLD_NOTE + spread)
}

fn held_freshness(age: Duration, limit: Duration) -> (Freshness, Option<Duration>) {
    match limit.checked_sub(age) {
        Some(left) => (Freshness::Hold, Some(left + A_MOMENT)),
        None => (Freshness::Stop, None),
    }
}

/// Allowed rise of a ratio that has not changed for this time: one step per frame.
pub(super) fn step(since_moved: Option<Duration>, frame: Duration) -> Cents {
    match since_moved {
        Some(since) if since < frame => Cents(0),
        Some(_) | None => Cents(STEP),
    }
}

/// Hash of the name (FNV-1a), so that all replicas stop holding a node at the same age.
fn spread(node: &str) -> u64 {
    node.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
