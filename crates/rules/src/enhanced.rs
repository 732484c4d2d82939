//! Labels that Pods must have, by the rules of a ConfigMap.
//!
//! A version of the ConfigMap whose rules cannot be read leaves the last good ones in force.

mod document;

use std::collections::{BTreeMap, BTreeSet};

use headroom_domain::{
    field::{Error, Errors, Path},
    names,
    selector::Labels,
};

pub use self::document::{RulesDocument, RulesError};
use crate::{
    pod_check::RATCHETS,
    switch::{Switch, Switches},
};

/// Whether a refusal names its rule.
pub static NAMES_RULES: Switch = Switch {
    name: "EnhancedNamesRules",
    default: true,
    row: "D-23",
    koordinator: "a pod is refused by the first rule that it breaks, which is not named",
    about: "a pod is refused by all rules that it breaks, each by its name",
    why: "whoever wrote the pod can ask who wrote the rule",
};

/// Whether the rules can be switched off whatever else the ConfigMap says.
pub static ENABLE_ALONE: Switch = Switch {
    name: "EnhancedEnableAlone",
    default: true,
    row: "D-30, `enable`",
    koordinator: "`enable` is not read from a version whose `rules` cannot be",
    about: "`enable` counts as it stands; the last good `rules` go on where the newest cannot be read",
    why: "a mistake in the rules must not keep anybody from switching them off",
};

/// Key with the word that switches the rules on.
const ENABLE: &str = "enable";
/// Key with the rules.
const RULES: &str = "rules";
/// The longest name of a rule in a text, in characters.
const LONGEST_NAME: usize = 80;

/// Labels that Pods must have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelRule {
    /// What people call it.
    pub name: String,
    /// The keys of the labels; their values do not matter.
    pub required: Vec<String>,
    /// Namespaces whose Pods need not have them.
    pub exempt_namespaces: BTreeSet<String>,
}

/// What the versions of the ConfigMap came to. The default one has no rules and is off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelRules {
    /// The last rules that could be read.
    rules: Vec<LabelRule>,
    /// Whether the newest version switches them on.
    is_enabled: bool,
    /// Whether the last version switched them on whose rules could be read.
    was_enabled: bool,
}

/// The Pod that is judged.
#[derive(Debug, Clone, Copy)]
pub struct LabelledPod<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its labels.
    pub labels: &'a Labels,
    /// The labels of the stored Pod in an update.
    pub stored: Option<&'a Labels>,
}

/// What a Pod is refused with; nothing if it breaks no rule.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BrokenRules {
    /// One text for each rule.
    pub texts: Vec<String>,
    /// The labels that are missing.
    pub fields: Errors,
}

impl LabelRules {
    /// What follows from a new version of the ConfigMap; `None` if there is none any more. The error says why its rules
    /// do not count.
    pub fn updated(
        &self,
        data: Option<&BTreeMap<String, String>>,
    ) -> (Self, Result<RulesDocument, RulesError>) {
        let Some(data) = data else {
            return (Self::default(), Ok(RulesDocument::default()));
        };
        let is_enabled = data
            .get(ENABLE)
            .is_some_and(|text| text.trim().to_lowercase() == "true");
        let read = data
            .get(RULES)
            .map_or_else(|| Ok(RulesDocument::default()), |text| RulesDocument::read(text));
        let rules = match &read {
            Ok(document) => Self {
                rules: document.rules.clone(),
                is_enabled,
                was_enabled: is_enabled,
            },
            Err(_) => Self {
                is_enabled,
                ..self.clone()
            },
        };
        (rules, read)
    }

    /// What is wrong with the labels of a Pod.
    pub fn check(&self, pod: LabelledPod<'_>, switches: &Switches) -> BrokenRules {
        let is_enabled = if switches.is_on(&ENABLE_ALONE) {
            self.is_enabled
        } else {
            self.was_enabled
        };
        if !is_enabled || is_exempt(pod.labels) {
            return BrokenRules::default();
        }
        let is_named = switches.is_on(&NAMES_RULES);
        let mut broken = BrokenRules::default();
        for rule in &self.rules {
            let missing = rule.missing(pod, switches);
            if missing.is_empty() {
                continue;
            }
            let text = missing_text(&missing);
            broken.texts.push(if is_named {
                let name: String = rule.name.chars().take(LONGEST_NAME).collect();
                format!("validation rule '{name}' failed: {text}")
            } else {
                text
            });
            let labels = Path::new("metadata").child("labels");
            let missing = missing.iter().map(|key| Error::required(&labels.key(key), ""));
            broken.fields.extend(missing);
            if !is_named {
                break;
            }
        }
        broken
    }
}

impl LabelRule {
    /// The required keys that the Pod lacks; in an update none if the stored Pod lacks the same.
    fn missing(&self, pod: LabelledPod<'_>, switches: &Switches) -> Vec<&str> {
        if self.exempt_namespaces.contains(pod.namespace) {
            return Vec::new();
        }
        let required = self.required.iter().map(String::as_str);
        let missing: Vec<&str> = required.filter(|key| !pod.labels.contains_key(*key)).collect();
        let stored = pod
            .stored
            .filter(|stored| switches.is_on(&RATCHETS) && !is_exempt(stored));
        match stored {
            Some(stored) if missing.iter().all(|key| !stored.contains_key(*key)) => Vec::new(),
            Some(_) | None => missing,
        }
    }
}

/// True for Pods that say themselves that they need no labels.
fn is_exempt(labels: &Labels) -> bool {
    labels
        .get(names::SKIP_ENHANCED_VALIDATION)
        .is_some_and(|text| text == "true")
}

/// What is missing, in Koordinator's words.
fn missing_text(missing: &[&str]) -> String {
    if let [only] = missing {
        format!("required label '{only}' is missing")
    } else {
        format!("required labels are missing: [{}]", missing.join(" "))
    }
}

#[cfg(test)]
mod tests;
