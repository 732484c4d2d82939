//! [`Note`]: the hint annotation of a Node, a hint in short form from which any replica can continue.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{AgentMode, Brake, Contradiction, NodeHint, Reason};
use crate::{
    ratio::Cents,
    resource::{PerResource, Resource},
    timing::Profile,
};

/// Layout version that is written and read.
const VERSION: u32 = 1;
/// Size limit of the annotation, in bytes: it is parsed at every change of a Node, and any user with the right to
/// patch nodes can write it.
const LONGEST: usize = 1024;
/// Most reason codes in an annotation.
const MOST_REASONS: usize = 8;
/// Longest reason code, and longest other word, in bytes.
const LONGEST_REASON: usize = 40;
const LONGEST_WORD: usize = 64;

/// One resource of a [`Note`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteResource {
    /// Level of the active brake, 0 to 3.
    pub brake: u8,
    /// P: predicted peak, in milli-cores or bytes.
    pub p: u64,
    /// In a Node's annotation: the last applied ratio in cents, within bounds and before the floor. In a hint: the
    /// ratio that its agent published, in cents.
    #[serde(rename = "pub")]
    pub published: u32,
}

/// Content of the hint annotation. Its text has sorted keys, integers only and no time. Additional members of a later
/// version of the same layout are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Boot ID of the agent's kernel.
    pub boot: String,
    /// Brake, peak and ratio of CPU.
    pub cpu: NoteResource,
    /// E: exclusive CPUs of the node's pods, in milli-cores; omitted if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub excl: u64,
    /// Brake, peak and ratio of memory.
    pub memory: NoteResource,
    /// Mode of the agent, as in [`AgentMode::name`](super::AgentMode::name).
    pub mode: String,
    /// Contradiction in the agent's reports, as in [`Contradiction::name`]; omitted without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<String>,
    /// Sequence number of the report.
    pub seq: u64,
    /// Name of the timing profile.
    pub timing: String,
    /// UID of the Node object.
    pub uid: String,
    /// Layout version; [`VERSION`] in every valid annotation.
    v: u32,
    /// Reason codes, at most 8 of at most 40 bytes.
    pub why: Vec<String>,
}

/// The annotation cannot be used and counts as absent.
#[derive(Debug, thiserror::Error)]
pub enum NoteError {
    /// The text is not JSON of this layout.
    #[error("the hint annotation is not valid JSON of its layout")]
    Json(#[from] serde_json::Error),
    /// The layout version is unknown, or the text or a word is too long.
    #[error("the hint annotation has an unknown layout version or is too long")]
    Layout,
}

impl Note {
    /// Short form of a hint.
    pub fn from_hint(hint: &NodeHint) -> Self {
        let NodeHint {
            node: _,
            node_uid,
            boot_id,
            seq,
            sight,
            timing,
            resources,
            trust,
            ..
        } = hint;
        let exclusive = trust.iter().map(|trust| trust.exclusive_cpus_milli);
        let short = resources.map(|_, resource| NoteResource {
            brake: resource.brake.level(),
            p: resource.predicted_peak,
            published: resource.published.0,
        });
        let mut why: Vec<String> = Vec::new();
        for reason in resources.cpu.reasons.iter().chain(&resources.memory.reasons) {
            if !why.contains(reason) && why.len() < MOST_REASONS && reason.len() <= LONGEST_REASON {
                why.push(reason.clone());
            }
        }
        Self {
            boot: boot_id.clone(),
            cpu: short.cpu,
            excl: exclusive.fold(0, u64::saturating_add),
            memory: short.memory,
            mode: sight.name().to_owned(),
            quarantine: None,
            seq: *seq,
            timing: timing.name().to_owned(),
            uid: node_uid.clone(),
            v: VERSION,
            why,
        }
    }

    /// Replacement for an unreadable hint: ratios without brakes or reasons.
    pub(super) fn of_written(uid: &str, ratios: PerResource<Cents>) -> Self {
        let part = |resource| NoteResource {
            brake: Brake::Off.level(),
            p: 0,
            published: ratios.get(resource).0,
        };
        Self {
            boot: String::new(),
            cpu: part(Resource::Cpu),
            excl: 0,
            memory: part(Resource::Memory),
            mode: AgentMode::Full.name().to_owned(),
            quarantine: None,
            seq: 0,
            timing: Profile::Production.name().to_owned(),
            uid: uid.to_owned(),
            v: VERSION,
            why: Vec::new(),
        }
    }

    /// Numbers per resource. A quarantine of a kind that only a later version knows stops both.
    pub fn resources(&self) -> PerResource<NoteResource> {
        let is_unknown = self.quarantine.is_some() && self.contradiction().is_none();
        let stopped = |part: NoteResource| NoteResource {
            brake: if is_unknown {
                Brake::Stop.level()
            } else {
                part.brake
            },
            ..part
        };
        PerResource {
            cpu: stopped(self.cpu),
            memory: stopped(self.memory),
        }
    }

    /// Copy with these published ratios.
    #[must_use]
    pub fn with_ratios(mut self, ratios: &PerResource<Cents>) -> Self {
        (self.cpu.published, self.memory.published) = (ratios.cpu.0, ratios.memory.0);
        self
    }

    /// Copy with this contradiction; `None` lifts the quarantine.
    #[must_use]
    pub fn in_quarantine(mut self, contradiction: Option<Contradiction>) -> Self {
        self.quarantine = contradiction.map(|contradiction| contradiction.name().to_owned());
        self
    }

    /// Contradiction in the agent's reports. `None` also for a kind that only a later version knows: see
    /// [`Self::resources`].
    pub fn contradiction(&self) -> Option<Contradiction> {
        let name = self.quarantine.as_deref()?;
        Contradiction::ALL
            .into_iter()
            .find(|contradiction| contradiction.name() == name)
    }

    /// Copy with the brakes of a Node whose condition `MemoryPressure` is true: memory at least stopped and CPU at
    /// least held, whatever the agent reported. See docs/estimator.md#brakes.
    #[must_use]
    pub fn under_memory_pressure(mut self) -> Self {
        let at_least = |part: &mut NoteResource, brake: Brake| part.brake = part.brake.max(brake.level());
        at_least(&mut self.memory, Brake::Stop);
        at_least(&mut self.cpu, Brake::Hold);
        let short_of_memory = Reason::MemoryPressure.code();
        self.why.retain(|reason| reason != short_of_memory);
        self.why.truncate(MOST_REASONS - 1);
        self.why.insert(0, short_of_memory.to_owned());
        self
    }

    /// Returns true if both lead to the same allocatable: same ratios, mode, brakes, quarantine and exclusive CPUs.
    pub fn has_same_effect_as(&self, other: &Self) -> bool {
        let gist = |note: &Self| note.resources().map(|_, part| (part.published, part.brake));
        gist(self) == gist(other)
            && (&self.mode, &self.uid, self.excl) == (&other.mode, &other.uid, other.excl)
            && self.quarantine == other.quarantine
    }

    /// Returns true if every word is short and plain, so that an annotation rewritten from a foreign one stays within
    /// its size limit.
    fn has_short_words(&self) -> bool {
        let Self {
            boot,
            mode,
            timing,
            uid,
            quarantine,
            ..
        } = self;
        let words = [boot, mode, timing, uid];
        let mut words = words.into_iter().chain(quarantine);
        words.all(|word| is_word(word, LONGEST_WORD))
    }

    /// Returns true if it comes from a later report than `other`, by sequence number; `None` if the two are from
    /// different boots.
    pub fn is_after(&self, other: &Self) -> Option<bool> {
        (self.boot == other.boot).then_some(self.seq > other.seq)
    }
}

/// Returns true for visible ASCII that JSON needs not escape, of at most `longest` bytes.
fn is_word(text: &str, longest: usize) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    text.len() <= longest && text.bytes().all(is_plain)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl NoteResource {
    /// The field `published` as [`Cents`].
    pub fn published(&self) -> Cents {
        Cents(self.published)
    }

    /// Active brake; an unknown level counts as the strongest.
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
        let mut note: Self = serde_json::from_str(text)?;
        if note.v != VERSION || !note.has_short_words() {
            return Err(NoteError::Layout);
        }
        note.why.retain(|reason| is_word(reason, LONGEST_REASON));
        note.why.truncate(MOST_REASONS);
        Ok(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::{PodTrust, tests::hint};

    #[test]
    fn the_text_has_sorted_keys_and_reads_back() {
        let note = Note::from_hint(&hint("n1", 7));
        let text = note.to_string();
        assert_eq!(
            text,
            r#"{"boot":"b1","cpu":{"brake":0,"p":15290,"pub":128},"memory":{"brake":0,"p":0,"pub":100},"mode":"FULL","seq":7,"timing":"production","uid":"u1","v":1,"why":["slack"]}"#
        );
        assert_eq!(text.parse::<Note>().unwrap(), note);
    }

    #[test]
    fn exclusive_cpus_are_written_if_there_are_any() {
        let mut note = Note::from_hint(&hint("n1", 7));
        note.excl = 2000;
        let text = note.to_string();
        assert!(text.contains(r#""pub":128},"excl":2000,"memory""#), "{text}");
        assert_eq!(text.parse::<Note>().unwrap(), note);
        assert!(!note.has_same_effect_as(&Note::from_hint(&hint("n1", 7))));
    }

    #[test]
    fn memory_pressure_stops_memory_holds_cpu_and_is_one_reason() {
        let note = Note::from_hint(&hint("n1", 7)).under_memory_pressure();
        assert_eq!((note.memory.brake, note.cpu.brake), (3, 1));
        assert_eq!(note.why, ["memory-pressure", "slack"]);
        assert_eq!(note.clone().under_memory_pressure(), note);
    }

    #[test]
    fn another_layout_is_not_used_with_or_without_unknown_members() {
        let text = Note::from_hint(&hint("n1", 7)).to_string();
        for version in [r#""v":2"#, r#""v":2,"x":1"#, r#""v":0"#, r#""v":"1""#, r#""x":1"#] {
            let other = text.replace(r#""v":1"#, version);
            assert!(other.parse::<Note>().is_err(), "{other}");
        }
        assert!(format!("{text}{}", " ".repeat(1024)).parse::<Note>().is_err());
    }

    #[test]
    fn unknown_members_are_ignored_on_every_level() {
        let note = Note::from_hint(&hint("n1", 7)).in_quarantine(Some(Contradiction::Use));
        let text = note.to_string();
        for (known, with_more) in [
            (r#""v":1"#, r#""v":1,"x":{"y":[1,"z"]}"#),
            (r#"{"boot""#, r#"{"a":null,"boot""#),
            (r#""pub":128"#, r#""pub":128,"why":"later""#),
        ] {
            let later = text.replace(known, with_more);
            assert_ne!(later, text);
            assert_eq!(later.parse::<Note>().unwrap(), note, "{later}");
        }
    }

    #[test]
    fn a_quarantine_round_trips_and_changes_the_effect() {
        let free = Note::from_hint(&hint("n1", 7));
        for contradiction in Contradiction::ALL {
            let note = free.clone().in_quarantine(Some(contradiction));
            let text = note.to_string();
            let member = format!(r#""mode":"FULL","quarantine":"{}","seq""#, contradiction.name());
            assert!(text.contains(&member), "{text}");
            let read: Note = text.parse().unwrap();
            assert_eq!((read.contradiction(), &read), (Some(contradiction), &note));
            assert!(!note.has_same_effect_as(&free));
            assert_eq!(note.resources(), free.resources());
            assert_eq!(note.in_quarantine(None), free);
        }
    }

    #[test]
    fn an_unknown_quarantine_stops_both_resources_and_is_kept() {
        let mut note = Note::from_hint(&hint("n1", 7));
        note.quarantine = Some("later".to_owned());
        let read: Note = note.to_string().parse().unwrap();
        assert_eq!((read.contradiction(), &read), (None, &note));
        let PerResource { cpu, memory } = read.resources();
        assert_eq!([cpu.brake(), memory.brake()], [Brake::Stop; 2]);
        assert_eq!(cpu.published(), Cents(128));
    }

    #[test]
    fn rewritten_notes_stay_readable() {
        let mut forged = Note::from_hint(&hint("n1", 7));
        forged.why = (0..60).map(|i| format!("{i:010}")).collect();
        forged.why.push("é".to_owned());
        let read: Note = forged.to_string().parse().unwrap();
        assert_eq!(read.why.len(), MOST_REASONS);
        let braked = read.under_memory_pressure();
        assert_eq!(braked.to_string().parse::<Note>().unwrap(), braked);
        forged.why.clear();
        forged.boot = "b".repeat(900);
        assert!(forged.to_string().parse::<Note>().is_err());
    }

    #[test]
    fn reasons_are_unique_and_limited_in_number() {
        let mut hint = hint("n1", 7);
        let longest = "l".repeat(LONGEST_REASON);
        let texts =
            |reasons: &[&str]| -> Vec<String> { reasons.iter().map(|&text| text.to_owned()).collect() };
        hint.resources.cpu.reasons = texts(&["a", &format!("{longest}l"), &longest, "b"]);
        hint.resources.memory.reasons = texts(&["b", "a", "c"]);
        assert_eq!(Note::from_hint(&hint).why, ["a", &longest, "b", "c"]);
        hint.resources.cpu.reasons = (0..=MOST_REASONS).map(|i| i.to_string()).collect();
        assert_eq!(Note::from_hint(&hint).why.len(), MOST_REASONS);
    }

    #[test]
    fn notes_with_the_same_effect_are_equivalent() {
        let note = Note::from_hint(&hint("n1", 7));
        let differs = |change: fn(&mut Note)| {
            let mut other = note.clone();
            change(&mut other);
            !note.has_same_effect_as(&other)
        };
        let same: [fn(&mut Note); 4] = [
            |other| other.seq += 1,
            |other| other.boot.push('x'),
            |other| other.why.clear(),
            |other| other.cpu.p += 1,
        ];
        assert!(!same.into_iter().any(differs));
        let changes: [fn(&mut Note); 8] = [
            |other| other.cpu.published += 1,
            |other| other.memory.published += 1,
            |other| other.cpu.brake = 1,
            |other| other.memory.brake = 1,
            |other| other.mode = "PROC".to_owned(),
            |other| other.uid.push('x'),
            |other| other.excl = 1,
            |other| other.quarantine = Some("use".to_owned()),
        ];
        assert!(changes.into_iter().all(differs));
    }

    #[test]
    fn words_are_visible_ascii_of_limited_length() {
        let is_read = |change: &dyn Fn(&mut Note)| {
            let mut note = Note::from_hint(&hint("n1", 7));
            change(&mut note);
            note.to_string().parse::<Note>().is_ok()
        };
        let word = |length: usize| "w".repeat(length);
        assert!(is_read(&|note| note.boot = word(LONGEST_WORD)));
        for strange in [&word(LONGEST_WORD + 1), "a b", "\"", "\\", "é", "\u{7f}"] {
            assert!(!is_read(&|note| note.boot = strange.to_owned()), "{strange}");
            assert!(!is_read(&|note| note.mode = strange.to_owned()), "{strange}");
            assert!(!is_read(&|note| note.timing = strange.to_owned()), "{strange}");
            assert!(!is_read(&|note| note.uid = strange.to_owned()), "{strange}");
            assert!(
                !is_read(&|note| note.quarantine = Some(strange.to_owned())),
                "{strange}"
            );
        }
    }

    #[test]
    fn a_note_of_the_maximum_length_is_read() {
        let text = Note::from_hint(&hint("n1", 7)).to_string();
        let padded = |length: usize| format!("{text}{}", " ".repeat(length - text.len()));
        assert!(padded(LONGEST).parse::<Note>().is_ok());
        assert!(padded(LONGEST + 1).parse::<Note>().is_err());
    }

    #[test]
    fn a_report_is_after_another_of_its_boot_with_a_lower_number() {
        let [six, seven] = [6, 7].map(|seq| Note::from_hint(&hint("n1", seq)));
        assert_eq!(
            (seven.is_after(&six), six.is_after(&seven)),
            (Some(true), Some(false))
        );
        assert_eq!(seven.is_after(&seven), Some(false));
        let mut other = six.clone();
        other.boot = "b2".to_owned();
        assert_eq!(seven.is_after(&other), None);
    }

    #[test]
    fn an_unknown_brake_counts_as_the_strongest() {
        let mut note = Note::from_hint(&hint("n1", 7));
        note.cpu.brake = 4;
        assert_eq!(note.resources().cpu.brake(), Brake::Stop);
    }

    #[test]
    fn the_longest_note_stays_within_the_limit() {
        let mut long = hint("n1", u64::MAX);
        long.boot_id = "b".repeat(36);
        long.node_uid = "u".repeat(36);
        long.trust = vec![PodTrust {
            uid: String::new(),
            cpu_ppm: 0,
            memory_ppm: 0,
            exclusive_cpus_milli: u64::MAX,
        }];
        for resource in [&mut long.resources.cpu, &mut long.resources.memory] {
            resource.predicted_peak = u64::MAX;
            resource.reasons = (0..20).map(|i| format!("{i:040}")).collect();
        }
        let longest = Note::from_hint(&long)
            .under_memory_pressure()
            .in_quarantine(Some(Contradiction::MemoryPressure));
        assert!(longest.to_string().len() <= LONGEST);
    }
}
