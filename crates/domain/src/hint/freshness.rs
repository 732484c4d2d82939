//! Rates a hint by its age in monotonic time (fresh, may only lower, at most 1.00) and limits its step above the last
//! ratio. See docs/capacity.md#the-life-of-a-report.

use std::time::Duration;

use super::{Contradiction, Note};
use crate::{
    annotation::Annotation,
    ratio::Cents,
    resource::{PerResource, Resource},
    timing::STEP,
};

/// Up to this age the report of a live stream is fresh: an agent reports every 15 s, so three may be lost.
pub(super) const FRESH: Duration = Duration::from_secs(60);
/// Up to this age it holds.
const HOLD: Duration = Duration::from_secs(300);
/// Up to this age it holds when its agent said that it would end.
const HOLD_DRAINING: Duration = Duration::from_secs(600);
/// Up to this age, and a spread by node, a hint without a live stream holds.
const HOLD_NOTE: Duration = Duration::from_secs(600);
/// The spread is below this. Without it a fleet whose webhook was away would lose its ratios in one moment.
const NOTE_SPREAD_SECONDS: u64 = 300;
/// An age is over a limit this much after it.
const A_MOMENT: Duration = Duration::from_millis(1);

/// How much a hint counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Applied as it is.
    Fresh,
    /// May lower, may not raise.
    Hold,
    /// Counts as 1.00 at most.
    Stop,
}

/// Where a hint came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// From the agent, over a stream to this replica.
    Stream,
    /// From the Node's annotation.
    Annotation,
    /// From the write itself: another replica's nudge.
    Nudge,
    /// From the Node's marker, for the annotation is not readable: what was written last.
    Marker,
}

impl Origin {
    /// True for a hint that only the Node has. Anybody who may patch nodes can write it, so it keeps the ratio in force and
    /// raises nothing.
    pub const fn is_node(self) -> bool {
        match self {
            Self::Annotation | Self::Marker => true,
            Self::Stream | Self::Nudge => false,
        }
    }
}

/// Why a hint that is fresh may not raise, or not even stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRaiseReason {
    /// It was computed before the node's pods last changed.
    OlderPods,
    /// The machine that it speaks of has another capacity than the Node.
    OtherCapacity,
    /// The API server does not keep the floor.
    NoFloor,
    /// What its agent reports cannot be: it counts as 1.00 at most.
    Quarantined(Contradiction),
}

/// The hint in force for a node.
#[derive(Debug, Clone)]
pub struct EffectiveHint {
    /// The hint in short.
    pub note: Note,
    /// How much it counts.
    pub freshness: Freshness,
    /// Where it came from.
    pub origin: Origin,
    /// How far above the ratio that was applied last it may raise.
    pub step: PerResource<Cents>,
    /// Why it may not raise although it is fresh.
    pub caution: Option<NoRaiseReason>,
    /// Time until it counts for less, or may raise, without any news.
    pub changes_in: Option<Duration>,
    /// True if the Node's annotation must be written: replicas that have nothing else would soon stop holding it, or the one that
    /// answers would go back to an earlier report of its own, by which pods hold other CPUs.
    pub is_record_due: bool,
}

/// A query for the hint of a node, for one write.
#[derive(Debug, Clone, Copy, Default)]
pub struct HintQuery<'a> {
    /// The node's name.
    pub node: &'a str,
    /// UID of the Node object.
    pub uid: &'a str,
    /// Resource version of the stored object, by which its states are ordered.
    pub version: u64,
    /// The stored hint annotation.
    pub stored: Option<&'a Annotation<Note>>,
    /// The ratios that the stored marker tells, where one is above 1.00; `None` where they are not to count. They stand in
    /// for a stored hint that is not readable.
    pub written: Option<PerResource<Cents>>,
    /// The hint annotation of the write, where that is a nudge of ours.
    pub nudged: Option<&'a Annotation<Note>>,
    /// What the write says of the machine.
    pub machine: Machine,
}

/// What a Node says of its machine in the state that is decided about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Machine {
    /// `status.capacity`, in milli-cores and bytes; `None` where it cannot be read.
    pub capacity: PerResource<Option<u64>>,
    /// True while the condition `MemoryPressure` is.
    pub has_memory_pressure: bool,
}

impl HintQuery<'_> {
    /// What the stored annotation says, if it is of this Node.
    pub fn note(&self) -> Option<&Note> {
        self.of_this_node(self.stored?)
    }

    /// What the nudge says, if it is of this Node and something else than is stored.
    pub(super) fn nudge(&self) -> Option<&Note> {
        let nudged = self.nudged.filter(|nudged| Some(*nudged) != self.stored)?;
        self.of_this_node(nudged)
    }

    fn of_this_node<'n>(&self, annotation: &'n Annotation<Note>) -> Option<&'n Note> {
        annotation.value().filter(|note| note.uid == self.uid)
    }
}

impl EffectiveHint {
    /// A hint that counts for so much and may raise as far as it says.
    pub fn new(note: Note, freshness: Freshness) -> Self {
        Self {
            note,
            freshness,
            origin: Origin::Stream,
            step: PerResource::from_fn(|_| Cents(u32::MAX)),
            caution: None,
            changes_in: None,
            is_record_due: false,
        }
    }

    /// What other replicas may read of it where `applied` is in force. They take for fresh what a nudge says, and for due what it
    /// raises: so it says no more than that, and at most 1.00 once it holds nothing.
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

/// The ratio that a Node's annotation says was applied; 1.00 where it has none.
pub(super) fn applied(stored: Option<&Note>, resource: Resource) -> Cents {
    stored.map_or(Cents::ONE, |stored| stored.resources().get(resource).published())
}

/// How much the report of a live stream counts at that age, and for how long.
pub(super) fn streamed(age: Duration, is_draining: bool) -> (Freshness, Option<Duration>) {
    let hold = if is_draining { HOLD_DRAINING } else { HOLD };
    if age <= FRESH {
        (Freshness::Fresh, Some(FRESH.saturating_sub(age) + A_MOMENT))
    } else {
        held_freshness(age, hold)
    }
}

/// How much a hint without a live stream counts at that age, and for how long.
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

/// How far a ratio may rise that has been the same for so long: one step a frame.
pub(super) fn step(since_moved: Option<Duration>, frame: Duration) -> Cents {
    match since_moved {
        Some(since) if since < frame => Cents(0),
        Some(_) | None => Cents(STEP),
    }
}

/// A number that depends on the name only (FNV-1a), so that all replicas let go of a node at the same age.
fn spread(node: &str) -> u64 {
    node.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
