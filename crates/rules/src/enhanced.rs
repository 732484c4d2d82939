//! Labels required on Pods by the rules of a ConfigMap.
//!
//! If a version of the ConfigMap has unreadable rules, the last valid rules stay in force.

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

/// Switch: a refusal names its rule.
pub static NAMES_RULES: Switch = Switch {
    name: "EnhancedNamesRules",
    default: true,
    row: "D-23",
    koordinator: "a refusal contains only the first rule that the pod breaks, without its name",
    about: "a refusal lists every rule that the pod breaks, by name",
    why: "the author of the pod can find the author of the rule",
};

/// Switch: `enable` counts even if the rules are unreadable.
pub static ENABLE_ALONE: Switch = Switch {
    name: "EnhancedEnableAlone",
    default: true,
    row: "D-30, `enable`",
    koordinator: "`enable` is ignored in a version whose `rules` cannot be read",
    about: "`enable` always counts; if the newest `rules` cannot be read, the last valid ones stay in force",
    why: "a mistake in the rules must not prevent administrators from turning them off",
};

/// Key of the word that enables the rules.
const ENABLE: &str = "enable";
/// Key of the rules as JSON.
const RULES: &str = "rules";
/// Maximum length of a rule's name in a message, in characters.
const LONGEST_NAME: usize = 80;

/// Rule with the labels that Pods need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelRule {
    /// Name of the rule, for messages.
    pub name: String,
    /// Keys of the labels; any value is accepted.
    pub required: Vec<String>,
    /// Namespaces whose Pods are exempt.
    pub exempt_namespaces: BTreeSet<String>,
}

/// State after all versions of the ConfigMap so far. The default has no rules and is disabled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelRules {
    /// The last rules that could be read.
    rules: Vec<LabelRule>,
    /// True if the newest version enables the rules.
    is_enabled: bool,
    /// True if the last version with readable rules enabled them.
    was_enabled: bool,
}

/// Pod to check against the rules.
#[derive(Debug, Clone, Copy)]
pub struct LabelledPod<'a> {
    /// Namespace of the Pod, for exemptions.
    pub namespace: &'a str,
    /// Labels of the Pod after the change.
    pub labels: &'a Labels,
    /// Labels of the stored Pod in an update.
    pub stored: Option<&'a Labels>,
}

/// Faults of a Pod; empty if it breaks no rule.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BrokenRules {
    /// One message per broken rule.
    pub texts: Vec<String>,
    /// The missing labels as field errors.
    pub fields: Errors,
}

impl LabelRules {
    /// Returns the state after a new version of the ConfigMap; `None` stands for a deleted ConfigMap. The error is
    /// the reason why the new rules are ignored.
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

    /// Returns the faults in the labels of a Pod.
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
    /// Required keys that the Pod lacks; none if the stored Pod lacks the same keys.
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

/// Returns true for Pods with the exemption label.
fn is_exempt(labels: &Labels) -> bool {
    labels
        .get(names::SKIP_ENHANCED_VALIDATION)
        .is_some_and(|text| text == "true")
}

/// Message about missing labels, in Koordinator's words.
fn missing_text(missing: &[&str]) -> String {
    if let [only] = missing {
        format!("required label '{only}' is missing")
    } else {
        format!("required labels are missing: [{}]", missing.join(" "))
    }
}

#[cfg(test)]
mod tests;
