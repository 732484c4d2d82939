//! [`GuardedMembers`]: the part that is opened of an object with too many members to open them all.
//!
//! Whoever may label a Node can give it more annotations than are opened, and must not end its amplification by that.

use std::cell::Cell;

use headroom_domain::names;

use super::{Member, Members, Tree};

/// Members whose names are those of guarded annotations: [`names::is_guarded`].
pub(in crate::admission::draft) struct GuardedMembers<'a> {
    members: Members<'a>,
    /// True once a reader asked for another member and saw none.
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

    /// The member of that name; one that has another name than those here is missed.
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

    /// Records that a reader asked for a member that is not here.
    pub(super) fn miss(&self) {
        self.is_missed.set(true);
    }

    /// True if a reader asked for a member that is not here: its result must not count.
    pub(super) fn is_missed(&self) -> bool {
        self.is_missed.get()
    }
}
