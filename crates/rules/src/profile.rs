//! Koordinator's ClusterColocationProfile: compiled once, matched by selectors and chance, and applied whole or not at all.
//!
//! A profile that cannot be compiled is an error, and never one that matches everything. What is applied to is a copy: after
//! an error nothing of it counts. Cpu and memory of a pod that a profile was applied to become those of its band
//! ([`crate::translate`]); those of a Reservation stay, as with Koordinator.

mod apply;
mod compiled;
mod error;
mod known;
mod planned;
mod review;
mod target;
mod warnings;

use std::{
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use headroom_domain::selector::Labels;

pub use self::{
    apply::PriorityClass,
    compiled::{Profile, ProfileError},
    error::ApplyError,
    known::{KnownProfile, LONGEST_SPEC},
    planned::PlannedProfile,
    review::{Newcomer, ProfileList, ProfileResult, ProfileReview, ProfileRules, ProfileStop},
    target::ProfileTarget,
};
use crate::switch::{Switch, Switches};

/// Whether a profile is applied with exactly its probability.
pub static EXACT_PROBABILITY: Switch = Switch {
    name: "ProfileExactProbability",
    default: true,
    row: "D-03",
    koordinator: "a profile of probability 1 % to 98 % is applied to one pod in a hundred more, and one of 99 % to all",
    about: "a profile is applied to as many pods in a hundred as its probability says",
    why: "it is what the field says",
};

/// Whether a key mapping without its source writes nothing.
pub static SKIPS_MISSING_SOURCES: Switch = Switch {
    name: "ProfileSkipsMissingSources",
    default: true,
    row: "D-06",
    koordinator: "a key mapping whose source is missing writes an empty value over whatever is there",
    about: "a key mapping whose source is missing writes nothing",
    why: "a value that somebody wrote is worth more than none",
};

/// Whether a suffix is added once.
pub static SUFFIXES_ONCE: Switch = Switch {
    name: "ProfileSuffixesOnce",
    default: true,
    row: "D-08",
    koordinator: "a suffix is added each time, whatever the label ends with",
    about: "a suffix is added to labels that do not end with it yet",
    why: "a profile that is applied twice does then what it does once",
};

/// Whether a profile that cannot be applied to a pod is skipped.
pub static FAILURES_SKIP: Switch = Switch {
    name: "ProfileFailuresSkip",
    default: true,
    row: "D-11",
    koordinator: "a profile that cannot be applied ends the creation of every pod and Reservation that it is for",
    about: "a profile that cannot be applied is skipped as a whole, with a warning that names it",
    why: "one profile with a mistake does not stop a cluster",
};

/// Whether profiles that select by namespace alone leave Reservations out.
pub static RESERVATION_NAMESPACES: Switch = Switch {
    name: "ReservationSkipsNamespaceProfiles",
    default: true,
    row: "S6",
    koordinator: "a profile that selects by namespace alone is applied to every Reservation",
    about: "a profile that selects by namespace alone is for no Reservation",
    why: "a Reservation is in no namespace, and the profile was written for the pods of some",
};

/// Whether the patch of a profile writes only some parts of a Reservation.
pub static RESERVATION_PATCH_PARTS: Switch = Switch {
    name: "ReservationPatchesParts",
    default: true,
    row: "S9",
    koordinator: "the patch of a profile writes any field of a Reservation, its name among them",
    about: "the patch of a profile writes labels, annotations and `spec` of a Reservation, with a warning where it has more",
    why: "what a Reservation is called, and who owns it, is up to who creates it",
};

/// Whether resources are translated only where a profile was applied.
pub static TRANSLATES_APPLIED: Switch = Switch {
    name: "ProfileTranslatesApplied",
    default: true,
    row: "D-04",
    koordinator: "cpu and memory become those of the band if a profile matches, even one that chance skips",
    about: "cpu and memory become those of the band if a profile is applied",
    why: "a pod that no profile was applied to is left alone",
};

/// Whether `skip-update-resources` is a yes or a no.
pub static SKIP_IS_BOOLEAN: Switch = Switch {
    name: "ProfileSkipIsBoolean",
    default: true,
    row: "D-05",
    koordinator: "`skip-update-resources` on a profile counts whatever its value, and on one that chance skips",
    about: "`skip-update-resources: \"false\"` is a no, and only profiles that are applied count",
    why: "it is what the value says",
};

/// Whether a profile is for an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileMatch {
    /// It is.
    Matches,
    /// Its selector is for objects with other labels.
    OtherLabels,
    /// Its namespace selector is for other namespaces, or it is for pods of a namespace and the object is a Reservation.
    OtherNamespace,
    /// It selects by namespace, and the pod's namespace is not known.
    UnknownNamespace,
}

impl Profile {
    /// Whether the profile is for a pod with these labels in a namespace with those; `None` if the namespace is not known.
    pub fn matches(&self, labels: &Labels, namespace: Option<&Labels>) -> ProfileMatch {
        if !self.selector.matches(labels) {
            return ProfileMatch::OtherLabels;
        }
        if self.namespace_selector.is_everything() {
            return ProfileMatch::Matches;
        }
        match namespace {
            None => ProfileMatch::UnknownNamespace,
            Some(namespace) if self.namespace_selector.matches(namespace) => ProfileMatch::Matches,
            Some(_) => ProfileMatch::OtherNamespace,
        }
    }

    /// Whether the profile is for a Reservation with these labels. It is in no namespace, so no namespace selector is asked.
    pub fn matches_reservation(&self, labels: &Labels, switches: &Switches) -> ProfileMatch {
        let selects_by_namespace_alone =
            self.selector.is_everything() && !self.namespace_selector.is_everything();
        if !self.selector.matches(labels) {
            ProfileMatch::OtherLabels
        } else if selects_by_namespace_alone && switches.is_on(&RESERVATION_NAMESPACES) {
            ProfileMatch::OtherNamespace
        } else {
            ProfileMatch::Matches
        }
    }

    /// Writes why it is not for such an object: the selector, and the label that keeps it from matching.
    fn write_mismatch(
        &self,
        found: ProfileMatch,
        labels: &Labels,
        namespace: Option<&Labels>,
        text: &mut dyn fmt::Write,
    ) -> fmt::Result {
        let (field, selector, labels) = match (found, namespace) {
            (ProfileMatch::Matches | ProfileMatch::UnknownNamespace, _) => return Ok(()),
            (ProfileMatch::OtherLabels, _) => ("spec.selector", &self.selector, labels),
            (ProfileMatch::OtherNamespace, Some(namespace)) => {
                ("spec.namespaceSelector", &self.namespace_selector, namespace)
            }
            (ProfileMatch::OtherNamespace, None) => {
                return text.write_str("spec.namespaceSelector: a Reservation is in no namespace");
            }
        };
        match selector.mismatch(labels) {
            Some(why) => write!(text, "{field}: {why}"),
            None => Ok(()),
        }
    }

    /// True if the profile is applied at this draw, which is a number from 0 to 99, each as likely as the others.
    pub fn is_drawn(&self, draw: u8, switches: &Switches) -> bool {
        let draw = i32::from(draw);
        if switches.is_on(&EXACT_PROBABILITY) {
            draw < self.probability
        } else {
            self.probability != 0 && (self.probability == 100 || draw <= self.probability)
        }
    }
}

/// The draw of a profile for a pod that is created: a number from 0 to 99, each as likely as the others. It follows from the
/// UID of the review, which the API server makes anew for each, so a review that is answered again is answered alike.
pub fn draw(review: &str, profile: &str) -> u8 {
    let mut hasher = DefaultHasher::new();
    (review, profile).hash(&mut hasher);
    u8::try_from(hasher.finish() % 100).unwrap_or_default()
}

/// What the profiles that are for a pod mean for its cpu and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TranslationWish {
    is_wanted: bool,
    is_skipped: bool,
}

impl TranslationWish {
    /// Counts a profile that is for the pod, with what its `skip-update-resources` annotation says.
    pub fn count(&mut self, is_applied: bool, skip: Option<&str>, switches: &Switches) {
        self.is_wanted |= is_applied || !switches.is_on(&TRANSLATES_APPLIED);
        self.is_skipped |= if switches.is_on(&SKIP_IS_BOOLEAN) {
            is_applied && skip.is_some_and(|text| !text.trim().eq_ignore_ascii_case("false"))
        } else {
            skip.is_some()
        };
    }

    /// True if cpu and memory are to become those of the band.
    pub const fn is_granted(self) -> bool {
        self.is_wanted && !self.is_skipped
    }
}

#[cfg(test)]
mod tests;
