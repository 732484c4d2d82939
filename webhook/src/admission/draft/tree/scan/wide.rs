//! Opens the members with guarded names of an object that has too many members to open them all.

use std::borrow::Cow;

use headroom_domain::names;

use super::{ScanError, Scanner, passed};
use crate::admission::draft::tree::{Inside, Members, guarded::GuardedMembers};

/// The members with guarded names of the object that is the whole of `text`, which has too many to open them all.
pub(super) fn guarded(text: &str) -> Inside<'_> {
    let mut scanner = Scanner::of_json(text);
    let members = scanner.guarded_members();
    passed(scanner.at);
    match members {
        Ok(Some(members)) => Inside::Guarded(GuardedMembers::new(members)),
        Ok(None) | Err(_) => Inside::TooWide,
    }
}

impl<'a> Scanner<'a> {
    /// The members with guarded names of the object that begins here, which has others; `None` if there is no room for
    /// them, or if a name has escapes: to read many of those would take memory for each.
    fn guarded_members(&mut self) -> Result<Option<Members<'a>>, ScanError> {
        let mut members = Members::default();
        self.enter()?;
        loop {
            let start = self.at;
            if self.member()?.any {
                return Ok(None);
            }
            let name = self.text.get(start + 1..self.at - 1).unwrap_or_default();
            self.colon()?;
            let value = self.value(0, None)?;
            if names::is_guarded(name) {
                let Some(room) = self.room.checked_sub(1) else {
                    return Ok(None);
                };
                self.room = room;
                members.push((Cow::Borrowed(name), value));
            }
            self.space();
            if self.skip_if(b'}') {
                return Ok(Some(members));
            }
            self.expect(b',')?;
            self.space();
        }
    }
}
