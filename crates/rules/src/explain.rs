//! [`Explanation`]: what was made of one pod and why: which profiles were for it, and who wrote each field.
//!
//! ```text
//! profile -- plan --> verdict ----------.
//! profile, step -- before, after --> writes --> Explanation --> webhook: the last reviews
//!                                                           '-> kubectl headroom pod explain
//! ```
//!
//! An explanation is bounded whatever the pod is: texts are cut, and what has no room is counted. Nothing of the pod is
//! kept but what was written. One is made for each review and few are read, so texts stand in one buffer until somebody asks.

mod bounded;
mod difference;

use std::{fmt, sync::Arc};

use serde::Serialize;
use serde_json::Value;

use self::bounded::{Span, Texts, shortened};

/// Most memory of one explanation, in bytes.
const MOST_BYTES: usize = 16 << 10;
/// Longest path, reason or name, in bytes, before it is cut.
const LONGEST_TEXT: usize = 256;
/// Memory of an entry besides its texts, in bytes.
const ENTRY_BYTES: usize = 64;

/// What was made of one pod and why.
#[derive(Debug, Clone, Default)]
pub struct Explanation {
    profiles: Vec<NotedVerdict>,
    writes: Vec<NotedWrite>,
    texts: Texts,
    left_out: usize,
    writer: Writer,
    /// Where paths are made, kept for the next one.
    path: String,
}

/// What came of a profile, with texts of the explanation.
#[derive(Debug, Clone)]
struct NotedVerdict {
    name: Span,
    result: VerdictKind,
    reason: Span,
}

/// A field that was written, with texts of the explanation.
#[derive(Debug, Clone)]
struct NotedWrite {
    path: Span,
    value: Option<Span>,
    writer: Writer,
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
    profiles: usize,
    writes: usize,
    texts: usize,
    left_out: usize,
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
        let said = |explanation: &Self| {
            let Self { left_out, .. } = explanation;
            (explanation.profiles(), explanation.writes(), *left_out)
        };
        said(self) == said(other)
    }
}

impl Eq for Explanation {}

impl Default for Writer {
    fn default() -> Self {
        Self::Rule("webhook")
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

    /// Notes what came of a profile. `reason` writes why, only if there is room for it.
    pub fn note_profile(
        &mut self,
        name: &str,
        result: VerdictKind,
        reason: impl FnOnce(&mut dyn fmt::Write) -> fmt::Result,
    ) {
        if self.is_full() {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        let name = self.texts.push(name, LONGEST_TEXT);
        let reason = self.texts.write(LONGEST_TEXT, reason);
        self.profiles.push(NotedVerdict { name, result, reason });
    }

    /// Notes that the value at `path` has become another: each field in it that differs. Absent and `null` are one.
    pub fn note_change(&mut self, path: &[impl AsRef<str>], before: &Value, after: &Value) {
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
        self.note_write(path, |texts| Some(texts.push_json(value)));
    }

    /// Notes a field that was removed.
    fn note_removed(&mut self, path: &str) {
        self.note_write(path, |_| None);
    }

    fn note_write(&mut self, path: &str, value: impl FnOnce(&mut Texts) -> Option<Span>) {
        if self.is_full() {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        let path = self.texts.push(path, LONGEST_TEXT);
        let value = value(&mut self.texts);
        let writer = self.writer.clone();
        self.writes.push(NotedWrite { path, value, writer });
    }

    /// Each profile, in the order of their names.
    pub fn profiles(&self) -> Vec<ProfileVerdict> {
        let profiles = self.profiles.iter().map(|profile| ProfileVerdict {
            name: self.texts.text(profile.name),
            result: profile.result,
            reason: self.texts.text(profile.reason),
        });
        profiles.collect()
    }

    /// Each field that was written, in the order of the writes. A later write of a field wins.
    pub fn writes(&self) -> Vec<FieldWrite> {
        let writes = self.writes.iter().map(|write| FieldWrite {
            path: self.texts.text(write.path),
            value: write.value.map(|value| self.texts.text(value)),
            writer: write.writer.clone(),
        });
        writes.collect()
    }

    /// Verdicts and writes that had no room.
    pub const fn left_out(&self) -> usize {
        self.left_out
    }

    /// What is noted so far.
    pub const fn mark(&self) -> Mark {
        Mark {
            profiles: self.profiles.len(),
            writes: self.writes.len(),
            texts: self.texts.len(),
            left_out: self.left_out,
        }
    }

    /// Drops what was noted since a mark.
    pub fn drop_since(&mut self, mark: Mark) {
        let Mark {
            profiles,
            writes,
            texts,
            left_out,
        } = mark;
        self.profiles.truncate(profiles);
        self.writes.truncate(writes);
        self.texts.truncate(texts);
        self.left_out = left_out;
    }

    /// Gives back memory that only further notes would need.
    pub fn shrink(&mut self) {
        self.path = String::new();
        self.texts.shrink();
        self.profiles.shrink_to_fit();
        self.writes.shrink_to_fit();
    }

    /// Its memory, in bytes.
    pub const fn bytes(&self) -> usize {
        let entries = self.profiles.len() + self.writes.len();
        self.texts.len() + entries * ENTRY_BYTES
    }

    const fn is_full(&self) -> bool {
        self.bytes() >= MOST_BYTES
    }
}

#[cfg(test)]
mod tests;
