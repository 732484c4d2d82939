//! Koordinator's ClusterColocationProfile: compiled once, matched by selectors and chance, and applied whole or not at all.
//!
//! A profile that cannot be compiled is an error, and never one that matches everything. What is applied to is a copy: after
//! an error nothing of it counts.

mod apply;
mod compiled;

use headroom_domain::selector::Labels;

pub use self::{
    apply::{ApplyError, PriorityClass},
    compiled::{Profile, ProfileError},
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

/// Whether a profile is for a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileMatch {
    /// It is.
    Matches,
    /// Its selector is for pods with other labels.
    OtherLabels,
    /// Its namespace selector is for other namespaces.
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

#[cfg(test)]
mod tests;
