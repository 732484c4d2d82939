//! The hint annotation: a hint in short, kept on the Node so that any replica can go on from it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{Brake, NodeHint};
use crate::{ratio::Cents, resource::PerResource};

/// The layout version that is written and read.
const VERSION: u32 = 1;
/// The annotation's size limit, in bytes.
const LONGEST: usize = 1024;

/// One resource of a [`Note`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoteResource {
    /// Level of the brake in force, 0 to 3.
    pub brake: u8,
    /// P: predicted peak, in milli-cores or bytes.
    pub p: u64,
    /// Published ratio, in cents.
    #[serde(rename = "pub")]
    pub published: u32,
}

/// The hint annotation's content; its text has sorted keys, integers only and no time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// Boot id.
    pub boot: String,
    /// CPU.
    pub cpu: NoteResource,
    /// Memory.
    pub memory: NoteResource,
    /// The agent's mode, as in [`Sight::name`](super::Sight::name).
    pub mode: String,
    /// Sequence number.
    pub seq: u64,
    /// The timing profile's name.
    pub timing: String,
    /// UID of the Node object.
    pub uid: String,
    /// Layout version.
    v: u32,
    /// Reason codes.
    pub why: Vec<String>,
}

/// The annotation cannot be used; it counts as absent.
#[derive(Debug, thiserror::Error)]
pub enum NoteError {
    /// Not the JSON we write.
    #[error("the hint annotation is not readable")]
    Json(#[from] serde_json::Error),
    /// Another layout, or too long.
    #[error("the hint annotation has an unknown layout")]
    Layout,
}

impl Note {
    /// The short form of a hint.
    pub fn of(hint: &NodeHint) -> Self {
        let NodeHint {
            node: _,
            node_uid,
            boot_id,
            seq,
            sight,
            timing,
            resources,
            ..
        } = hint;
        let short = resources.map(|_, resource| NoteResource {
            brake: resource.brake.level(),
            p: resource.predicted_peak,
            published: resource.published.0,
        });
        let mut why: Vec<String> = Vec::new();
        for reason in resources.cpu.reasons.iter().chain(&resources.memory.reasons) {
            if !why.contains(reason) && why.len() < 8 && reason.len() <= 40 {
                why.push(reason.clone());
            }
        }
        Self {
            boot: boot_id.clone(),
            cpu: short.cpu,
            memory: short.memory,
            mode: sight.name().to_owned(),
            seq: *seq,
            timing: timing.name().to_owned(),
            uid: node_uid.clone(),
            v: VERSION,
            why,
        }
    }

    /// The numbers per resource.
    pub fn resources(&self) -> PerResource<NoteResource> {
        PerResource {
            cpu: self.cpu,
            memory: self.memory,
        }
    }

    /// True if the two would lead to the same allocatable: same ratios, mode and brakes.
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        let gist = |note: &Self| note.resources().map(|_, part| (part.published, part.brake));
        gist(self) == gist(other) && self.mode == other.mode && self.uid == other.uid
    }
}

impl NoteResource {
    /// The published ratio.
    pub fn published(&self) -> Cents {
        Cents(self.published)
    }

    /// The brake in force; an unknown level counts as the strongest.
    pub fn brake(&self) -> Brake {
        Brake::from_level(u32::from(self.brake)).unwrap_or(Brake::Stop)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_unserializable| fmt::Error)?)
    }
}

impl FromStr for Note {
    type Err = NoteError;

    fn from_str(text: &str) -> Result<Self, NoteError> {
        if text.len() > LONGEST {
            return Err(NoteError::Layout);
        }
        let note: Self = serde_json::from_str(text)?;
        if note.v == VERSION {
            Ok(note)
        } else {
            Err(NoteError::Layout)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::tests::hint;

    #[test]
    fn the_text_has_sorted_keys_and_reads_back() {
        let note = Note::of(&hint("n1", 7));
        let text = note.to_string();
        assert_eq!(
            text,
            r#"{"boot":"b1","cpu":{"brake":0,"p":15290,"pub":128},"memory":{"brake":0,"p":0,"pub":100},"mode":"FULL","seq":7,"timing":"production","uid":"u1","v":1,"why":["slack"]}"#
        );
        assert_eq!(text.parse::<Note>().unwrap(), note);
    }

    #[test]
    fn another_version_or_an_unknown_key_is_not_used() {
        let text = Note::of(&hint("n1", 7)).to_string();
        assert!(text.replace("\"v\":1", "\"v\":2").parse::<Note>().is_err());
        assert!(
            text.replace("\"v\":1", "\"v\":1,\"x\":1")
                .parse::<Note>()
                .is_err()
        );
        assert!(format!("{text}{}", " ".repeat(1024)).parse::<Note>().is_err());
    }

    #[test]
    fn the_longest_note_stays_within_the_limit() {
        let mut long = hint("n1", u64::MAX);
        long.boot_id = "b".repeat(36);
        long.node_uid = "u".repeat(36);
        for resource in [&mut long.resources.cpu, &mut long.resources.memory] {
            resource.predicted_peak = u64::MAX;
            resource.reasons = (0..20).map(|i| format!("{i:040}")).collect();
        }
        assert!(Note::of(&long).to_string().len() <= LONGEST);
    }
}
