//! [`Table`]: newest hint and hint annotation of each node; selects the hint in force. Time is an argument.
//!
//! All replicas must give the same answer for a node, whether its agent reports to them or not. So each applied ratio
//! is written to the annotation, and every replica reads it from there. A replica without the agent's stream holds
//! the ratio, and at most the stored value if raw grows. A replica with the stream changes it, and raises it only
//! after it has been constant for a frame. Of two reports the later one counts, whether it arrived by stream or by
//! annotation. If the layout of the annotation is unknown, the marker replaces it and ages like it.

use std::{borrow::Cow, collections::HashMap, sync::Arc, time::Duration};

use super::{
    EffectiveHint, Freshness, HintQuery, NodeHint, Note, Origin,
    freshness::{self, FRESH},
};
use crate::{
    ratio::Cents,
    resource::{PerResource, Resource},
};

/// Age at which an unchanged annotation is renewed while its agent keeps reporting: 150 s before the first replica
/// without the stream would stop holding it.
const RENEW: Duration = Duration::from_secs(450);

/// Answer of the table to an offered hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportVerdict {
    /// The hint is the newest of its node.
    Accepted,
    /// The table has a hint of the same boot with this or a higher sequence number.
    Stale {
        /// Sequence number of the stored hint.
        held: u64,
    },
}

#[derive(Debug)]
struct Entry {
    hint: Arc<NodeHint>,
    received: Duration,
    /// True while the hint's stream is open.
    is_live: bool,
}

/// Last observed annotation of a Node, and the times of its changes.
#[derive(Debug, Clone)]
struct LastSeen {
    uid: String,
    version: u64,
    boot: String,
    seq: u64,
    /// First observation of this boot ID and sequence number.
    since: Duration,
    /// Applied ratios and the times of their first observation: a ratio rises only after it has been constant for a
    /// frame.
    applied: PerResource<(u32, Duration)>,
}

/// A Node without a readable hint, and the time of the first such observation.
#[derive(Debug)]
struct Unread {
    uid: String,
    since: Duration,
}

/// Newest hint of each node. `now` is monotonic time since any fixed origin.
#[derive(Debug, Default)]
pub struct Table {
    entries: HashMap<String, Entry>,
    last_seen: HashMap<String, LastSeen>,
    unread: HashMap<String, Unread>,
}

impl Table {
    /// Stores a hint from a stream if it is newer than the stored one.
    ///
    /// A hint of another boot or for another Node object always replaces the stored one; its stream was authenticated
    /// for that node.
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

    /// Records that a node's stream has ended: its last report then ages like an annotation.
    pub fn leave(&mut self, node: &str) {
        if let Some(entry) = self.entries.get_mut(node) {
            entry.is_live = false;
        }
    }

    /// Records the annotation of a stored Node to measure its age. Call it only for watch events: a write under
    /// review may be rejected, or may be a dry run.
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

    /// Newest hint of a node, and its age.
    pub fn get(&self, node: &str, now: Duration) -> Option<(Arc<NodeHint>, Duration)> {
        let Entry { hint, received, .. } = self.entries.get(node)?;
        Some((Arc::clone(hint), now.saturating_sub(*received)))
    }

    /// All hints with their ages, in order of the node names.
    pub fn all(&self, now: Duration) -> Vec<(Arc<NodeHint>, Duration)> {
        let mut all: Vec<_> = self
            .entries
            .values()
            .map(|Entry { hint, received, .. }| (Arc::clone(hint), now.saturating_sub(*received)))
            .collect();
        all.sort_by(|(left, _), (right, _)| left.node.cmp(&right.node));
        all
    }

    /// Hint in force for a node: the later of the stored report and the Node's annotation. In a nudge of another
    /// replica it is the nudge's hint, unless a later report has arrived.
    ///
    /// The age of an annotation is the time since this table first observed its boot ID and sequence number. So a
    /// clock jump or a restart of the replica may keep the last ratio for longer, but never raises it. A state of the
    /// Node that the watch has not delivered yet counts as observed now, for this answer only.
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

    /// Removes all entries of a deleted node.
    pub fn remove(&mut self, node: &str) {
        self.entries.remove(node);
        self.last_seen.remove(node);
        self.unread.remove(node);
    }

    /// Number of nodes with a hint.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if no node has a hint.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Observation of the Node in the queried state. A recorded observation counts if it is at least as new.
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

    /// Records the time since which a Node has a marker and no readable hint.
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

    /// Hint without a report and an annotation: the ratios in the marker, for as long as an annotation would hold.
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

    /// Hint in force by this table and the Node, before nudges.
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
    /// Raises the limits to the ratios of another replica's nudge: that replica decided that a step is due.
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

/// Observation of a Node in this state, given the earlier one; `None` without an annotation.
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

/// Hint from the annotation alone: it holds the applied ratios.
fn noted(node: &str, note: &Note, seen: Option<&LastSeen>, now: Duration) -> EffectiveHint {
    let age = seen
        .map(|seen| now.saturating_sub(seen.since))
        .unwrap_or_default();
    held_hint(node, note, Origin::Annotation, age)
}

/// Hint from the Node alone, at that age.
fn held_hint(node: &str, note: &Note, origin: Origin, age: Duration) -> EffectiveHint {
    let (freshness, left) = freshness::noted(node, age);
    EffectiveHint {
        origin,
        changes_in: left,
        ..EffectiveHint::new(note.clone(), freshness)
    }
}

/// Returns true if the annotation comes from a later report than the stored one. That counts for a limited time:
/// while reports keep arriving, an annotation older than a fresh report does not come from a later one.
fn is_later(stored: &Note, seen: Option<&LastSeen>, note: &Note, entry: &Entry, now: Duration) -> bool {
    let Some(seen) = seen else { return false };
    let is_after = stored.is_after(note).unwrap_or(seen.since > entry.received);
    let is_silent = !entry.is_live || now.saturating_sub(entry.received) > FRESH;
    is_after && (is_silent || now.saturating_sub(seen.since) <= FRESH)
}

#[cfg(test)]
mod tests;
