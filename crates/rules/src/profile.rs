//! Koordinator's ClusterColocationProfile: compiled once, matched by selectors and probability, and applied
//! completely or not at all.
//!
//! A profile that does not compile is an error and never matches all pods. Profiles are applied to a copy, which is
//! dropped after an error. Cpu and memory of a pod with an applied profile are converted to the resources of its band
//! ([`crate::translate`]); those of a Reservation stay, like in Koordinator.

mod apply;
mod compiled;
mod constant_check;
mod error;
mod known;
mod planned;
mod pod_patch;
mod review;
mod target;
mod warnings;

use std::{
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use headroom_domain::selector::Labels;

pub use self::{
    apply::{ClassLookup, PriorityClass},
    compiled::{Profile, ProfileError},
    constant_check::PatchFault,
    error::ApplyError,
    known::{KnownProfile, LONGEST_SPEC},
    review::{
        BlockingProfile, CreatedObject, ProfileList, ProfileResult, ProfileReview, ProfileRules, ProfileStop,
    },
    target::ProfileTarget,
};
use crate::switch::{Switch, Switches};

/// Switch: a profile is applied with exactly its probability.
pub static EXACT_PROBABILITY: Switch = Switch {
    name: "ProfileExactProbability",
    default: true,
    row: "D-03",
    koordinator: "a profile of probability 1 % to 98 % is applied to one more pod in a hundred, and one of 99 % to all pods",
    about: "a profile is applied to exactly the percentage of pods in its probability",
    why: "this is the meaning of the field",
};

/// Switch: a key mapping without its source writes nothing.
pub static SKIPS_MISSING_SOURCES: Switch = Switch {
    name: "ProfileSkipsMissingSources",
    default: true,
    row: "D-06",
    koordinator: "a key mapping whose source is missing overwrites the target with an empty value",
    about: "a key mapping whose source is missing writes nothing",
    why: "an existing value is more useful than an empty one",
};

/// Switch: a suffix is added only once.
pub static SUFFIXES_ONCE: Switch = Switch {
    name: "ProfileSuffixesOnce",
    default: true,
    row: "D-08",
    koordinator: "a suffix is added every time, even if the label already ends with it",
    about: "a suffix is added only to labels that do not yet end with it",
    why: "applying a profile twice then has the same result as applying it once",
};

/// Switch: a profile that cannot be applied is skipped.
pub static FAILURES_SKIP: Switch = Switch {
    name: "ProfileFailuresSkip",
    default: true,
    row: "D-11",
    koordinator: "a profile that cannot be applied blocks the creation of every pod and Reservation that it matches",
    about: "a profile that cannot be applied is skipped as a whole, with a warning that names it",
    why: "one faulty profile must not stop a cluster",
};

/// Switch: profiles that select only by namespace do not match Reservations.
pub static RESERVATION_NAMESPACES: Switch = Switch {
    name: "ReservationSkipsNamespaceProfiles",
    default: true,
    row: "S6",
    koordinator: "a profile that selects only by namespace is applied to every Reservation",
    about: "a profile that selects only by namespace matches no Reservation",
    why: "a Reservation has no namespace, and such a profile is meant for the pods of certain namespaces",
};

/// Switch: the patch of a profile writes only some parts of a Reservation.
pub static RESERVATION_PATCH_PARTS: Switch = Switch {
    name: "ReservationPatchesParts",
    default: true,
    row: "S9",
    koordinator: "the patch of a profile may write every field of a Reservation, including its name",
    about: "the patch of a profile writes only labels, annotations and `spec` of a Reservation; a warning lists other fields",
    why: "the creator of a Reservation decides its name and owners",
};

/// Switch: resources are converted only if a profile was applied.
pub static TRANSLATES_APPLIED: Switch = Switch {
    name: "ProfileTranslatesApplied",
    default: true,
    row: "D-04",
    koordinator: "cpu and memory are converted to the band's resources if a profile matches, even if its probability skips the pod",
    about: "cpu and memory are converted to the band's resources only if a profile is applied",
    why: "a pod without an applied profile stays unchanged",
};

/// Switch: the value of `skip-update-resources` is a boolean.
pub static SKIP_IS_BOOLEAN: Switch = Switch {
    name: "ProfileSkipIsBoolean",
    default: true,
    row: "D-05",
    koordinator: "`skip-update-resources` on a profile counts with any value, even if the probability skips the profile",
    about: "`skip-update-resources: \"false\"` means no, and only applied profiles count",
    why: "this is the meaning of the value",
};

/// Result of matching a profile with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileMatch {
    /// The profile matches the object.
    Matches,
    /// The object's labels do not match the selector.
    OtherLabels,
    /// The namespace does not match the namespace selector, or the profile selects by namespace and the object is a
    /// Reservation.
    OtherNamespace,
    /// The profile selects by namespace, and the pod's namespace is not known.
    UnknownNamespace,
}

impl Profile {
    /// Matches the profile with a pod with these labels; `namespace` has its namespace's labels, or `None` if it is
    /// not known.
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

    /// Matches the profile with a Reservation with these labels. A Reservation has no namespace, so the namespace
    /// selector is not evaluated.
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

    /// Writes the reason why the profile does not match: the selector, and the label that fails it.
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

    /// Returns true if the profile is applied at this draw, a uniform number from 0 to 99.
    pub fn is_drawn(&self, draw: u8, switches: &Switches) -> bool {
        let draw = i32::from(draw);
        if switches.is_on(&EXACT_PROBABILITY) {
            draw < self.probability
        } else {
            self.probability != 0 && (self.probability == 100 || draw <= self.probability)
        }
    }
}

/// Draw of a profile for a new pod: a uniform number from 0 to 99. It is derived from the UID of the review, which is
/// unique per review, so repeating a review gives the same draw.
pub fn draw(review: &str, profile: &str) -> u8 {
    let mut hasher = DefaultHasher::new();
    (review, profile).hash(&mut hasher);
    u8::try_from(hasher.finish() % 100).unwrap_or_default()
}

/// Combined decision of the matching profiles about a pod's cpu and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TranslationDecision {
    is_wanted: bool,
    is_skipped: bool,
}

impl TranslationDecision {
    /// Adds a matching profile with the value of its `skip-update-resources` annotation.
    pub fn count(&mut self, is_applied: bool, skip: Option<&str>, switches: &Switches) {
        self.is_wanted |= is_applied || !switches.is_on(&TRANSLATES_APPLIED);
        self.is_skipped |= if switches.is_on(&SKIP_IS_BOOLEAN) {
            is_applied && skip.is_some_and(|text| !text.trim().eq_ignore_ascii_case("false"))
        } else {
            skip.is_some()
        };
    }

    /// Returns true if cpu and memory must be converted to the band's resources.
    pub const fn applies(self) -> bool {
        self.is_wanted && !self.is_skipped
    }
}

#[cfg(test)]
mod tests;
