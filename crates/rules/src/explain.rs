//! [`Explanation`]: what was made of one pod and why: which profiles were for it, and who wrote each field.
//!
//! ```text
//! profile -- plan --> verdict ----------.
//! profile, step -- before, after --> writes --> Explanation --> webhook: the last reviews
//!                                                           '-> kubectl headroom pod explain
//! ```
//!
//! An explanation is bounded whatever the pod is: texts are cut, and what has no room is counted. Nothing of the pod is
//! kept but what was written.

mod bounded;
mod difference;

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use self::bounded::{cut, shortened, value_text};

/// Most memory of one explanation, in bytes.
const MOST_BYTES: usize = 16 << 10;
/// Longest path, reason or name, in bytes, before it is cut.
const LONGEST_TEXT: usize = 256;
/// Memory of an entry besides its texts, in bytes.
const ENTRY_BYTES: usize = 64;

/// What was made of one pod and why.
#[derive(Debug, Clone, Default)]
pub struct Explanation {
    /// Each profile, in the order of their names.
    pub profiles: Vec<ProfileVerdict>,
    /// Each field that was written, in the order of the writes. A later write of a field wins.
    pub writes: Vec<FieldWrite>,
    /// Verdicts and writes that had no room.
    pub left_out: usize,
    writer: Writer,
    bytes: usize,
    /// Where paths are made, kept for the next one.
    path: String,
}

/// What came of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileVerdict {
    /// Its name.
    pub name: String,
    /// What came of it.
    pub result: VerdictKind,
    /// Why, where there is more to say.
    pub reason: String,
}

/// What may come of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerdictKind {
    /// It was applied.
    Applied,
    /// Its pod selector is for other pods.
    OtherLabels,
    /// Its namespace selector is for other namespaces.
    OtherNamespace,
    /// Its probability left this pod out.
    Chance,
    /// It cannot be applied, or nobody knows whether it is for the pod.
    Failed,
}

/// A field that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldWrite {
    /// The path, as in `spec.containers[0].image`.
    pub path: String,
    /// The value as JSON, cut; `None` if the field was removed.
    pub value: Option<String>,
    /// Who wrote it.
    pub writer: Writer,
}

/// Who writes fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Writer {
    /// The profile of this name.
    Profile(Arc<str>),
    /// A rule of ours.
    Rule(&'static str),
}

/// Where an explanation ended, to go back to.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    writes: usize,
    left_out: usize,
    bytes: usize,
}

impl VerdictKind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Applied,
        Self::OtherLabels,
        Self::OtherNamespace,
        Self::Chance,
        Self::Failed,
    ];

    /// The word for machines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::OtherLabels => "other-labels",
            Self::OtherNamespace => "other-namespace",
            Self::Chance => "chance",
            Self::Failed => "failed",
        }
    }
}

impl PartialEq for Explanation {
    /// What they say; how they were made does not matter.
    fn eq(&self, other: &Self) -> bool {
        let Self {
            profiles,
            writes,
            left_out,
            writer: _,
            bytes,
            path: _,
        } = self;
        (profiles, writes, left_out, bytes) == (&other.profiles, &other.writes, &other.left_out, &other.bytes)
    }
}

impl Eq for Explanation {}

impl Default for Writer {
    fn default() -> Self {
        Self::Rule("webhook")
    }
}

impl std::fmt::Display for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Profile(name) => write!(f, "profile {name}"),
            Self::Rule(name) => f.write_str(name),
        }
    }
}

impl Explanation {
    /// Writes that are noted from now on are those of `writer`.
    pub fn begin(&mut self, writer: Writer) {
        self.writer = match writer {
            Writer::Profile(name) if name.len() > LONGEST_TEXT => {
                Writer::Profile(shortened(&name, LONGEST_TEXT).into())
            }
            Writer::Profile(name) => Writer::Profile(name),
            Writer::Rule(name) => Writer::Rule(name),
        };
    }

    /// Notes what came of a profile. The reason is made only if there is room for it.
    pub fn note_profile(&mut self, name: &str, result: VerdictKind, reason: impl FnOnce() -> String) {
        if self.bytes >= MOST_BYTES {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        let verdict = ProfileVerdict {
            name: shortened(name, LONGEST_TEXT),
            result,
            reason: cut(reason(), LONGEST_TEXT),
        };
        self.count(&[&verdict.name, &verdict.reason]);
        self.profiles.push(verdict);
    }

    /// Notes that the value at `path` has become another: each field in it that differs. Absent and `null` are one.
    pub fn note_change(&mut self, path: &[&str], before: &Value, after: &Value) {
        difference::note(self, path, None, before, after);
    }

    /// Notes the same of a member of the element at `at` of the list at `list`.
    pub fn note_element(
        &mut self,
        (list, at): (&[&str], usize),
        member: &str,
        before: &Value,
        after: &Value,
    ) {
        difference::note(self, list, Some((at, member)), before, after);
    }

    /// Notes a field that was written. The path is complete.
    fn note_written(&mut self, path: &str, value: &(impl Serialize + ?Sized)) {
        self.note_write(path, || Some(value_text(value)));
    }

    /// Notes a field that was removed.
    fn note_removed(&mut self, path: &str) {
        self.note_write(path, || None);
    }

    fn note_write(&mut self, path: &str, value: impl FnOnce() -> Option<String>) {
        if self.bytes >= MOST_BYTES {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        let write = FieldWrite {
            path: shortened(path, LONGEST_TEXT),
            value: value(),
            writer: self.writer.clone(),
        };
        let by = match &write.writer {
            Writer::Profile(name) => &**name,
            Writer::Rule(_) => "",
        };
        self.count(&[&write.path, write.value.as_deref().unwrap_or_default(), by]);
        self.writes.push(write);
    }

    /// The writes so far.
    pub fn mark(&self) -> Mark {
        Mark {
            writes: self.writes.len(),
            left_out: self.left_out,
            bytes: self.bytes,
        }
    }

    /// Drops the writes since a mark; verdicts must not have come since.
    pub fn drop_since(&mut self, mark: Mark) {
        let Mark {
            writes,
            left_out,
            bytes,
        } = mark;
        self.writes.truncate(writes);
        (self.left_out, self.bytes) = (left_out, bytes);
    }

    /// Gives back memory that only further notes would need.
    pub fn shrink(&mut self) {
        self.path = String::new();
        self.profiles.shrink_to_fit();
        self.writes.shrink_to_fit();
    }

    /// Its memory, in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    fn count(&mut self, texts: &[&str]) {
        let texts = texts.iter().map(|text| text.len()).sum::<usize>();
        self.bytes = self.bytes.saturating_add(texts + ENTRY_BYTES);
    }
}

#[cfg(test)]
mod tests;
