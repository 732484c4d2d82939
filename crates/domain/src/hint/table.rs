//! The newest hint of each node and how much it still counts; time is an argument.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{NodeHint, Note};

/// How much a hint still counts, by its age in monotonic time. See design.md, section 4, hint life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Applied as it is.
    Fresh,
    /// May lower, may not raise.
    Hold,
    /// Counts as 1.00 at most.
    Stop,
}

/// What became of a hint that was offered to the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is the newest of its node.
    Accepted,
    /// The table holds one of the same boot with this or a higher sequence number.
    Stale {
        /// The sequence number that the table holds.
        held: u64,
    },
}

/// What the table knows about a node.
#[derive(Debug, Clone)]
pub struct Found {
    /// The hint in short.
    pub note: Note,
    /// How much it counts.
    pub standing: Standing,
}

#[derive(Debug)]
struct Entry {
    hint: Arc<NodeHint>,
    received: Duration,
}

/// The newest hint of each node. `now` is monotonic time since any fixed origin.
#[derive(Debug, Default)]
pub struct Table {
    entries: HashMap<String, Entry>,
    /// When an annotation was first seen here, by node: boot id, sequence number, time.
    noted: HashMap<String, (String, u64, Duration)>,
}

impl Table {
    /// Up to this age a hint is fresh.
    pub const FRESH: Duration = Duration::from_secs(60);
    /// Up to this age it holds.
    pub const HOLD: Duration = Duration::from_secs(300);
    /// Up to this age it holds when its agent said that it would end.
    pub const HOLD_DRAINING: Duration = Duration::from_secs(600);
    /// Up to this age, and a spread by node, an annotation without a stream holds.
    pub const HOLD_NOTE: Duration = Duration::from_secs(600);
    /// The spread is below this.
    const NOTE_SPREAD_SECONDS: u64 = 300;

    /// Takes a hint in, if it is newer than the one held.
    ///
    /// A hint of another boot or for another Node object replaces whatever is held; the stream it came over was
    /// authenticated for that node.
    pub fn insert(&mut self, hint: NodeHint, now: Duration) -> Verdict {
        if let Some(Entry { hint: held, .. }) = self.entries.get(&hint.node)
            && (&held.boot_id, &held.node_uid) == (&hint.boot_id, &hint.node_uid)
            && hint.seq <= held.seq
        {
            return Verdict::Stale { held: held.seq };
        }
        let node = hint.node.clone();
        self.entries.insert(
            node,
            Entry {
                hint: Arc::new(hint),
                received: now,
            },
        );
        Verdict::Accepted
    }

    /// The newest hint of a node with its age.
    pub fn get(&self, node: &str, now: Duration) -> Option<(Arc<NodeHint>, Duration)> {
        let Entry { hint, received } = self.entries.get(node)?;
        Some((Arc::clone(hint), now.saturating_sub(*received)))
    }

    /// All hints with their ages, by node name.
    pub fn all(&self, now: Duration) -> Vec<(Arc<NodeHint>, Duration)> {
        let mut all: Vec<_> = self
            .entries
            .values()
            .map(|Entry { hint, received }| (Arc::clone(hint), now.saturating_sub(*received)))
            .collect();
        all.sort_by(|(left, _), (right, _)| left.node.cmp(&right.node));
        all
    }

    /// What counts for a node: the hint held, else the one in the Node's annotation.
    ///
    /// An annotation's age is the time since this table first met its boot id and sequence number, so a clock
    /// that jumps and a replica that restarts both err towards keeping the last ratio, never towards raising it.
    pub fn lookup(
        &mut self,
        node: &str,
        uid: &str,
        annotation: Option<&str>,
        now: Duration,
    ) -> Option<Found> {
        if let Some(Entry { hint, received }) =
            self.entries.get(node).filter(|entry| entry.hint.node_uid == uid)
        {
            let age = now.saturating_sub(*received);
            return Some(Found {
                note: Note::of(hint),
                standing: standing(age, hint.is_draining),
            });
        }
        let note: Note = annotation?.parse().ok().filter(|note: &Note| note.uid == uid)?;
        let first_seen = match self.noted.get(node) {
            Some((boot, seq, first_seen)) if *boot == note.boot && *seq == note.seq => *first_seen,
            Some(_) | None => {
                self.noted
                    .insert(node.to_owned(), (note.boot.clone(), note.seq, now));
                now
            }
        };
        let spread = Duration::from_secs(spread(node) % Self::NOTE_SPREAD_SECONDS);
        let is_held = now.saturating_sub(first_seen) <= Self::HOLD_NOTE + spread;
        Some(Found {
            note,
            standing: if is_held { Standing::Hold } else { Standing::Stop },
        })
    }

    /// Forgets a node that is gone.
    pub fn remove(&mut self, node: &str) {
        self.entries.remove(node);
        self.noted.remove(node);
    }

    /// Number of nodes with a hint.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if no node has a hint.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// How much a hint of that age counts while its stream may still be there.
fn standing(age: Duration, is_draining: bool) -> Standing {
    let hold = if is_draining {
        Table::HOLD_DRAINING
    } else {
        Table::HOLD
    };
    if age <= Table::FRESH {
        Standing::Fresh
    } else if age <= hold {
        Standing::Hold
    } else {
        Standing::Stop
    }
}

/// A number that depends on the name only (FNV-1a), so that all replicas let go of a node at the same age.
fn spread(node: &str) -> u64 {
    node.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::tests::hint;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn standing_at(table: &mut Table, seconds: u64) -> Option<Standing> {
        table
            .lookup("n1", "u1", None, at(seconds))
            .map(|found| found.standing)
    }

    #[test]
    fn a_hint_goes_down_the_ladder_with_age() {
        let mut table = Table::default();
        assert_eq!(table.insert(hint("n1", 1), at(1000)), Verdict::Accepted);
        assert_eq!(standing_at(&mut table, 1060), Some(Standing::Fresh));
        assert_eq!(standing_at(&mut table, 1061), Some(Standing::Hold));
        assert_eq!(standing_at(&mut table, 1300), Some(Standing::Hold));
        assert_eq!(standing_at(&mut table, 1301), Some(Standing::Stop));
    }

    #[test]
    fn a_draining_agent_is_held_longer() {
        let mut table = Table::default();
        table.insert(
            NodeHint {
                is_draining: true,
                ..hint("n1", 1)
            },
            at(0),
        );
        assert_eq!(standing_at(&mut table, 600), Some(Standing::Hold));
        assert_eq!(standing_at(&mut table, 601), Some(Standing::Stop));
    }

    #[test]
    fn an_older_sequence_of_the_same_boot_is_stale() {
        let mut table = Table::default();
        table.insert(hint("n1", 5), at(0));
        assert_eq!(table.insert(hint("n1", 5), at(1)), Verdict::Stale { held: 5 });
        assert_eq!(table.insert(hint("n1", 4), at(1)), Verdict::Stale { held: 5 });
        let reboot = NodeHint {
            boot_id: "b2".into(),
            ..hint("n1", 1)
        };
        assert_eq!(table.insert(reboot, at(2)), Verdict::Accepted);
    }

    #[test]
    fn a_hint_for_another_node_object_counts_as_absent() {
        let mut table = Table::default();
        table.insert(hint("n1", 1), at(0));
        assert!(table.lookup("n1", "another", None, at(1)).is_none());
    }

    #[test]
    fn an_annotation_holds_from_when_it_was_first_seen() {
        let mut table = Table::default();
        let note = Note::of(&hint("n1", 7)).to_string();
        let mut standing = |seconds| {
            table
                .lookup("n1", "u1", Some(&note), at(seconds))
                .map(|found| found.standing)
        };
        assert_eq!(standing(5000), Some(Standing::Hold));
        assert_eq!(standing(5600), Some(Standing::Hold));
        assert_eq!(standing(5000 + 600 + 300), Some(Standing::Stop));
    }

    #[test]
    fn an_annotation_for_another_node_object_counts_as_absent() {
        let note = Note::of(&hint("n1", 7)).to_string();
        assert!(Table::default().lookup("n1", "u2", Some(&note), at(0)).is_none());
        assert!(
            Table::default()
                .lookup("n1", "u1", Some("garbage"), at(0))
                .is_none()
        );
    }
}
