//! What is wrong with a version of the ConfigMap, in the order in which Koordinator looks for it.

use headroom_domain::{field::Errors, selector::Labels};

use super::{Data, advice, conflict, decode, findings::Findings, key_check::KeyCheck, table::KEYS};
use crate::switch::Switches;

/// The ConfigMap by name, as texts have it.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// What an administrator asks of the check.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// Whether each entry of a key needs a name of its own.
    pub needs_names: bool,
}

/// The nodes that there are. They are asked for only where a key has two entries.
pub trait Nodes {
    /// Visits each node once with its name and its labels, in any order.
    fn visit(&self, visitor: &mut dyn FnMut(&str, &Labels));
}

/// What is wrong with a version of the ConfigMap.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Why it is refused, in the words in which Koordinator's clients know the first thing that is wrong; `None` if it is
    /// not refused.
    pub refusal: Option<String>,
    /// Everything that is wrong, with path, value and allowed range: what `refusal` says first, then the rest. Empty if
    /// it is not refused.
    pub errors: Errors,
    /// What is probably not meant, and yet no reason to refuse it.
    pub warnings: Vec<String>,
}

/// Checks a new version of the ConfigMap; `old` is the one that it replaces. A key whose text is as before is not looked
/// at, nor is one without text.
///
/// With every switch off, `refusal` is what Koordinator says.
pub fn check(
    target: Target<'_>,
    new: &Data,
    old: Option<&Data>,
    settings: &Settings,
    switches: &Switches,
    nodes: &dyn Nodes,
) -> Report {
    let mut check = KeyCheck {
        target,
        new,
        old,
        settings,
        switches,
        findings: Findings::default(),
    };
    let keys = KEYS
        .into_iter()
        .filter_map(|key| Some((key, check.changed_text(key)?)));
    let readings: Vec<_> = keys
        .map(|(key, text)| (key, text, decode::read(key, text)))
        .collect();
    let selecting: Vec<_> = readings
        .iter()
        .filter_map(|(key, text, reading)| Some((*key, check.check(key, text, reading)?)))
        .collect();
    let mut findings = check.findings;
    let several = selecting
        .iter()
        .filter(|(_, selecting)| selecting.selectors.len() > 1);
    let contested: Vec<_> = several.map(|(key, selecting)| (*key, selecting)).collect();
    if !contested.is_empty() {
        conflict::check(&contested, nodes, &mut findings);
    }
    advice::warn_of_keys(new, old, &mut findings);
    findings.into_report()
}
