//! [`GuardedMembers`]: the members of an oversized JSON object whose names are guarded annotations; only these are parsed.
//!
//! A user who may annotate a Node can exceed the parsing limit. That must not end the Node's amplification.

use std::cell::Cell;

use headroom_domain::names;

use super::{Member, Members, Tree};

/// Members whose names are those of guarded annotations: [`names::is_guarded`].
pub(in crate::admission::draft) struct GuardedMembers<'a> {
    members: Members<'a>,
    /// True once a reader asked for a member whose name is not guarded.
    is_missed: Cell<bool>,
}

impl<'a> GuardedMembers<'a> {
    /// The members with guarded names, all of them.
    pub(super) const fn new(members: Members<'a>) -> Self {
        Self {
            members,
            is_missed: Cell::new(false),
        }
    }

    /// Returns the member of that name. A name that is not guarded is recorded as missed.
    pub(super) fn get(&self, name: &str) -> Option<&Tree<'a>> {
        if !names::is_guarded(name) {
            self.miss();
            return None;
        }
        self.members.get(name)
    }

    /// All that are opened, in the order of the text.
    pub(super) fn list(&self) -> &[Member<'a>] {
        self.members.list()
    }

    /// Records that a reader asked for an unparsed member.
    pub(super) fn miss(&self) {
        self.is_missed.set(true);
    }

    /// True if a reader asked for an unparsed member: the reader's result must be discarded.
    pub(super) fn is_missed(&self) -> bool {
        self.is_missed.get()
    }
}
