//! Table of each node's newest hint and hint annotation; picks the hint in force. Time is an argument.
//!
//! Replicas must give the same answer for a node, whether its agent reports to them or not. So each applied ratio goes
//! into the annotation, and every replica takes it from there: a replica without the agent holds it, and no more than is
//! stored where raw grows; a replica with the agent moves it, and up only when it has been the same for a frame. Of two
//! reports the later one counts, whether it came by stream or by annotation. Where the layout of the annotation is
//! unknown, the marker stands in for it and ages as it would.

use std::{borrow::Cow, collections::HashMap, sync::Arc, time::Duration};

use super::{
    EffectiveHint, Freshness, HintQuery, NodeHint, Note, Origin,
    freshness::{self, FRESH},
};
use crate::{
    ratio::Cents,
    resource::{PerResource, Resource},
};

/// The annotation is renewed when it has been the same for so long although its agent goes on reporting: 150 s before the first
/// replica without the agent would cease to hold it.
const RENEW: Duration = Duration::from_secs(450);

/// The table's answer to a hint that was offered to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportVerdict {
    /// It is the newest of its node.
    Accepted,
    /// The table holds one of the same boot with this or a higher sequence number.
    Stale {
        /// The sequence number that the table holds.
        held: u64,
    },
}

#[derive(Debug)]
struct Entry {
    hint: Arc<NodeHint>,
    received: Duration,
    /// True while the stream that it came over is open.
    is_live: bool,
}

/// What a Node's annotation said when it was last seen, and since when.
#[derive(Debug, Clone)]
struct LastSeen {
    uid: String,
    version: u64,
    boot: String,
    seq: u64,
    /// First seen with this boot id and sequence number.
    since: Duration,
    /// The ratios applied, and when they were first seen: a ratio rises only when it has stood still for a frame.
    applied: PerResource<(u32, Duration)>,
}

/// A Node without a hint that can be read, and since when.
#[derive(Debug)]
struct Unread {
    uid: String,
    since: Duration,
}

/// The newest hint of each node. `now` is monotonic time since any fixed origin.
#[derive(Debug, Default)]
pub struct Table {
    entries: HashMap<String, Entry>,
    last_seen: HashMap<String, LastSeen>,
    unread: HashMap<String, Unread>,
}

impl Table {
    /// Stores a hint of a stream if it is newer than the stored one.
    ///
    /// A hint of another boot or for another Node object replaces whatever is held; the stream it came over was
    /// authenticated for that node.
    pub fn insert(&mut self, hint: NodeHint, now: Duration) -> ReportVerdict {
        if let Some(Entry { hint: held, .. }) = self.entries.get(&hint.node)
            && (&held.boot_id, &held.node_uid) == (&hint.boot_id, &hint.node_uid)
            && hint.seq <= held.seq
        {
            return ReportVerdict::Stale { held: held.seq };
        }
        let node = hint.node.clone();
        self.entries.insert(
            node,
            Entry {
                hint: Arc::new(hint),
                received: now,
                is_live: true,
            },
        );
        ReportVerdict::Accepted
    }

    /// Notes that a node's stream has ended: its last report counts on, as an annotation does.
    pub fn leave(&mut self, node: &str) {
        if let Some(entry) = self.entries.get_mut(node) {
            entry.is_live = false;
        }
    }

    /// Records the annotation of a stored Node, for its age. Call it only for what the watch brings: a write under review may be
    /// refused, or may be a dry run.
    pub fn observe_node(&mut self, asked: &HintQuery<'_>, now: Duration) {
        let before = self.last_seen.get(asked.node);
        if before.is_some_and(|before| before.uid == asked.uid && before.version > asked.version) {
            return;
        }
        if let Some(seen) = observation(before, asked, now) {
            self.last_seen.insert(asked.node.to_owned(), seen);
            self.unread.remove(asked.node);
        } else {
            self.last_seen.remove(asked.node);
            self.observe_unread(asked, now);
        }
    }

    /// The newest hint of a node with its age.
    pub fn get(&self, node: &str, now: Duration) -> Option<(Arc<NodeHint>, Duration)> {
        let Entry { hint, received, .. } = self.entries.get(node)?;
        Some((Arc::clone(hint), now.saturating_sub(*received)))
    }

    /// All hints with their ages, by node name.
    pub fn all(&self, now: Duration) -> Vec<(Arc<NodeHint>, Duration)> {
        let mut all: Vec<_> = self
            .entries
            .values()
            .map(|Entry { hint, received, .. }| (Arc::clone(hint), now.saturating_sub(*received)))
            .collect();
        all.sort_by(|(left, _), (right, _)| left.node.cmp(&right.node));
        all
    }

    /// The hint in force for a node: the later one of the held report and the Node's annotation. In another replica's nudge it
    /// is the nudge's, unless a later report came.
    ///
    /// An annotation's age is the time since this table first met its boot id and sequence number. So a clock that jumps, or a
    /// replica that restarts, may keep the last ratio for longer and never raises it. A state of the Node that the watch has
    /// not brought yet counts as seen now, for this answer only.
    pub fn lookup(&self, asked: &HintQuery<'_>, now: Duration) -> Option<EffectiveHint> {
        let stored = asked.note();
        let found = self.own(asked, stored, self.seen_by(asked, now).as_deref(), now);
        let Some(nudged) = asked.nudge() else {
            return found;
        };
        match found {
            Some(found) if found.origin == Origin::Stream && found.note.is_after(nudged) == Some(true) => {
                Some(found.raised_by(nudged, stored))
            }
            found => Some(EffectiveHint {
                origin: Origin::Nudge,
                is_record_due: found
                    .is_some_and(|own| own.origin == Origin::Stream && own.note.excl != nudged.excl),
                ..EffectiveHint::new(nudged.clone(), Freshness::Fresh)
            }),
        }
    }

    /// Forgets a node that is gone.
    pub fn remove(&mut self, node: &str) {
        self.entries.remove(node);
        self.last_seen.remove(node);
        self.unread.remove(node);
    }

    /// Number of nodes with a hint.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if no node has a hint.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What is seen of the Node in the state that is asked about. What is known of a state counts where that is as new.
    fn seen_by(&self, asked: &HintQuery<'_>, now: Duration) -> Option<Cow<'_, LastSeen>> {
        let before = self
            .last_seen
            .get(asked.node)
            .filter(|seen| seen.uid == asked.uid);
        match before {
            Some(before) if before.version >= asked.version => Some(Cow::Borrowed(before)),
            Some(_) | None => observation(before, asked, now).map(Cow::Owned),
        }
    }

    /// Notes since when a Node has had a marker and no hint that can be read.
    fn observe_unread(&mut self, asked: &HintQuery<'_>, now: Duration) {
        let before = self.unread.get(asked.node);
        if before.is_none_or(|before| before.uid != asked.uid) {
            let unread = Unread {
                uid: asked.uid.to_owned(),
                since: now,
            };
            self.unread.insert(asked.node.to_owned(), unread);
        }
    }

    /// What counts where there is neither report nor annotation: the ratios that the marker tells, for as long as an
    /// annotation would hold.
    fn written(&self, asked: &HintQuery<'_>, now: Duration) -> Option<EffectiveHint> {
        let note = Note::of_written(asked.uid, asked.written?);
        let unread = self.unread.get(asked.node);
        let unread = unread.filter(|unread| unread.uid == asked.uid);
        let since = unread.map_or(now, |unread| unread.since);
        Some(held_hint(
            asked.node,
            &note,
            Origin::Marker,
            now.saturating_sub(since),
        ))
    }

    /// What counts by what this table holds and the Node says.
    fn own(
        &self,
        asked: &HintQuery<'_>,
        stored: Option<&Note>,
        seen: Option<&LastSeen>,
        now: Duration,
    ) -> Option<EffectiveHint> {
        let entry = self.entries.get(asked.node);
        let entry = entry.filter(|entry| entry.hint.node_uid == asked.uid);
        let Some(entry) = entry else {
            return match stored {
                Some(stored) => Some(noted(asked.node, stored, seen, now)),
                None => self.written(asked, now),
            };
        };
        let note = Note::from_hint(&entry.hint);
        let age = now.saturating_sub(entry.received);
        if let Some(stored) = stored
            && is_later(stored, seen, &note, entry, now)
        {
            return Some(noted(asked.node, stored, seen, now));
        }
        let (freshness, left) = if entry.is_live {
            freshness::streamed(age, entry.hint.is_draining)
        } else {
            freshness::noted(asked.node, age)
        };
        let frame = entry.hint.timing.timing().frame();
        let moved = |resource: Resource| seen.map(|seen| now.saturating_sub(seen.applied.get(resource).1));
        let rises_in = Resource::ALL
            .into_iter()
            .filter_map(|resource| frame.checked_sub(moved(resource)?));
        let renews_in = seen
            .filter(|_| stored.is_some_and(|stored| note.is_after(stored) != Some(false)))
            .map(|seen| RENEW.saturating_sub(now.saturating_sub(seen.since)));
        let is_record_due = freshness == Freshness::Fresh && renews_in.is_some_and(|left| left.is_zero());
        let changes = left.into_iter().chain(rises_in).chain(renews_in);
        Some(EffectiveHint {
            step: PerResource::from_fn(|resource| freshness::step(moved(resource), frame)),
            changes_in: changes.filter(|left| !left.is_zero()).min(),
            is_record_due,
            ..EffectiveHint::new(note, freshness)
        })
    }
}

impl EffectiveHint {
    /// The same, and as high as a nudge of another replica says: whether a step is due was for that one to tell.
    fn raised_by(mut self, nudged: &Note, stored: Option<&Note>) -> Self {
        for resource in Resource::ALL {
            let before = freshness::applied(stored, resource);
            let raised = nudged.resources().get(resource).published;
            let step = self.step.get_mut(resource);
            *step = (*step).max(Cents(raised.saturating_sub(before.0)));
        }
        self
    }
}

/// What is seen of a Node that says this now, after what was seen before; `None` where it has no annotation.
fn observation(before: Option<&LastSeen>, asked: &HintQuery<'_>, now: Duration) -> Option<LastSeen> {
    let note = asked.note()?;
    let before = before.filter(|before| before.uid == note.uid);
    let is_same_report =
        |before: &&LastSeen| (before.boot.as_str(), before.seq) == (note.boot.as_str(), note.seq);
    let since = before.filter(is_same_report).map_or(now, |before| before.since);
    let applied = note.resources().map(|resource, part| {
        let before = before.map(|before| *before.applied.get(resource));
        before
            .filter(|(ratio, _)| *ratio == part.published)
            .unwrap_or((part.published, now))
    });
    Some(LastSeen {
        uid: note.uid.clone(),
        version: asked.version,
        boot: note.boot.clone(),
        seq: note.seq,
        since,
        applied,
    })
}

/// What counts where there is nothing but the annotation: it holds what was applied.
fn noted(node: &str, note: &Note, seen: Option<&LastSeen>, now: Duration) -> EffectiveHint {
    let age = seen
        .map(|seen| now.saturating_sub(seen.since))
        .unwrap_or_default();
    held_hint(node, note, Origin::Annotation, age)
}

/// What only the Node says, at that age.
fn held_hint(node: &str, note: &Note, origin: Origin, age: Duration) -> EffectiveHint {
    let (freshness, left) = freshness::noted(node, age);
    EffectiveHint {
        origin,
        changes_in: left,
        ..EffectiveHint::new(note.clone(), freshness)
    }
}

/// True if the annotation comes from a later report than the one held. It is not believed for ever: where reports come
/// in all the same, whatever has been in the annotation for as long as a report is fresh was not made of a later one.
fn is_later(stored: &Note, seen: Option<&LastSeen>, note: &Note, entry: &Entry, now: Duration) -> bool {
    let Some(seen) = seen else { return false };
    let is_after = stored.is_after(note).unwrap_or(seen.since > entry.received);
    let is_silent = !entry.is_live || now.saturating_sub(entry.received) > FRESH;
    is_after && (is_silent || now.saturating_sub(seen.since) <= FRESH)
}

#[cfg(test)]
mod tests;
