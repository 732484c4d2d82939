//! [`Explanation`]: the record of one pod's review: the verdict on each profile, and the writer of each field.
//!
//! ```text
//! profile -- plan --> verdict ----------.
//! profile, step -- before, after --> writes --> Explanation --> webhook: the last reviews
//!                                                           '-> kubectl headroom pod explain
//! ```
//!
//! An explanation is bounded for any pod: texts are cut, and entries beyond the limit are counted. It contains only
//! written fields of the pod. One is created per review and few are read, so texts are kept in one buffer until they
//! are requested.

mod bounded;
mod difference;

use std::{fmt, sync::Arc};

use serde::Serialize;
use serde_json::Value;

use self::bounded::{Span, Texts, shortened};

/// Maximum memory of one explanation, in bytes.
const MOST_BYTES: usize = 16 << 10;
/// Maximum length of a path, reason or name, in bytes; longer ones are cut.
const LONGEST_TEXT: usize = 256;
/// Memory of an entry without its texts, in bytes.
const ENTRY_BYTES: usize = 64;

/// Record of one pod's review: verdicts on profiles, and written fields.
#[derive(Debug, Clone, Default)]
pub struct Explanation {
    profiles: Vec<NotedVerdict>,
    writes: Vec<NotedWrite>,
    texts: Texts,
    left_out: usize,
    writer: Writer,
    /// Buffer for paths, reused between notes.
    path: String,
}

/// Verdict on a profile, with texts in the explanation's buffer.
#[derive(Debug, Clone)]
struct NotedVerdict {
    name: Span,
    result: VerdictKind,
    reason: Span,
}

/// Written field, with texts in the explanation's buffer.
#[derive(Debug, Clone)]
struct NotedWrite {
    path: Span,
    value: Option<Span>,
    writer: Writer,
}

/// Verdict on one profile, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileVerdict {
    /// Name of the ClusterColocationProfile object.
    pub name: String,
    /// Kind of the verdict, for programs.
    pub result: VerdictKind,
    /// Reason in words; empty if the kind is sufficient.
    pub reason: String,
}

/// Kinds of verdicts on a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerdictKind {
    /// The profile was applied to the pod.
    Applied,
    /// The pod's labels do not match its selector.
    OtherLabels,
    /// The namespace's labels do not match its namespace selector.
    OtherNamespace,
    /// The random draw skipped this pod, according to its probability.
    Chance,
    /// The profile cannot be applied, or it is unknown whether it matches.
    Failed,
}

/// Field of the pod that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldWrite {
    /// Path of the field, such as `spec.containers[0].image`.
    pub path: String,
    /// Value as JSON, possibly cut; `None` if the field was removed.
    pub value: Option<String>,
    /// Profile or rule that wrote the field.
    pub writer: Writer,
}

/// Writer of a field: a profile or a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Writer {
    /// The profile with this name.
    Profile(Arc<str>),
    /// The built-in rule with this name.
    Rule(&'static str),
}

/// Position in an explanation, to return to.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    profiles: usize,
    writes: usize,
    texts: usize,
    left_out: usize,
}

impl VerdictKind {
    /// All kinds of verdicts, in evaluation order.
    pub const ALL: [Self; 5] = [
        Self::Applied,
        Self::OtherLabels,
        Self::OtherNamespace,
        Self::Chance,
        Self::Failed,
    ];

    /// Name in JSON output and metrics.
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
    /// Compares the contents; the layout of the buffer does not matter.
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
    /// Sets the writer of all fields noted from now on.
    pub fn begin(&mut self, writer: Writer) {
        self.writer = match writer {
            Writer::Profile(name) if name.len() > LONGEST_TEXT => {
                Writer::Profile(shortened(&name, LONGEST_TEXT).into())
            }
            Writer::Profile(name) => Writer::Profile(name),
            Writer::Rule(name) => Writer::Rule(name),
        };
    }

    /// Notes the verdict on a profile. `reason` is called only if the entry fits, and writes the reason.
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

    /// Notes each field that differs between two values at `path`. Absent and `null` are equal.
    pub fn note_change(&mut self, path: &[impl AsRef<str>], before: &Value, after: &Value) {
        difference::note(self, path, None, before, after);
    }

    /// Notes each field that differs in `member` of the element at index `at` of the list `list`.
    pub fn note_element(
        &mut self,
        (list, at): (&[&str], usize),
        member: &str,
        before: &Value,
        after: &Value,
    ) {
        difference::note(self, list, Some((at, member)), before, after);
    }

    /// Notes a written field by its complete path.
    fn note_written(&mut self, path: &str, value: &(impl Serialize + ?Sized)) {
        self.note_write(path, |texts| Some(texts.push_json(value)));
    }

    /// Notes a removed field by its complete path.
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

    /// Verdicts on profiles, by name.
    pub fn profiles(&self) -> Vec<ProfileVerdict> {
        let profiles = self.profiles.iter().map(|profile| ProfileVerdict {
            name: self.texts.text(profile.name),
            result: profile.result,
            reason: self.texts.text(profile.reason),
        });
        profiles.collect()
    }

    /// Written fields, in order. A later write of a field wins.
    pub fn writes(&self) -> Vec<FieldWrite> {
        let writes = self.writes.iter().map(|write| FieldWrite {
            path: self.texts.text(write.path),
            value: write.value.map(|value| self.texts.text(value)),
            writer: write.writer.clone(),
        });
        writes.collect()
    }

    /// Number of verdicts and writes beyond the memory limit.
    pub const fn left_out(&self) -> usize {
        self.left_out
    }

    /// Returns the current position, for [`Self::drop_since`].
    pub const fn mark(&self) -> Mark {
        Mark {
            profiles: self.profiles.len(),
            writes: self.writes.len(),
            texts: self.texts.len(),
            left_out: self.left_out,
        }
    }

    /// Drops everything noted since a mark.
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

    /// Releases memory that only further notes would need.
    pub fn shrink(&mut self) {
        self.path = String::new();
        self.texts.shrink();
        self.profiles.shrink_to_fit();
        self.writes.shrink_to_fit();
    }

    /// Approximate memory of the explanation, in bytes.
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
