//! Checks a version of the ConfigMap, in Koordinator's order.

use super::{
    Data, advice, conflict, cpu_product, decode,
    findings::Findings,
    key_check::{KeyCheck, KeyReading},
    overlap,
    report::{CheckSettings, Nodes, Report, Target},
    switches::{CHECKS_ALL_KEYS, EXACT_OVERLAP},
    table::KEYS,
};
use crate::switch::Switches;

/// Checks a new version of the ConfigMap; `old` is the version that it replaces. Keys with unchanged or empty text
/// are not checked.
///
/// With every switch off, `refusal` is Koordinator's message.
pub fn check(
    target: Target<'_>,
    new: &Data,
    old: Option<&Data>,
    settings: &CheckSettings,
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
    let readings: Vec<KeyReading<'_>> = keys
        .map(|(key, text)| (key, text, decode::read(key, text)))
        .collect();
    let selecting: Vec<_> = readings
        .iter()
        .filter_map(|(key, text, reading)| Some((*key, check.check(key, text, reading)?)))
        .collect();
    let mut findings = std::mem::take(&mut check.findings);
    let several = selecting
        .iter()
        .filter(|(_, selecting)| selecting.selectors.len() > 1);
    let contested: Vec<_> = several.map(|(key, selecting)| (*key, selecting)).collect();
    if !contested.is_empty() {
        conflict::check(&contested, nodes, &mut findings);
    }
    if findings.error_count() == 0 && switches.is_on(&EXACT_OVERLAP) {
        for (key, selecting) in &contested {
            overlap::warn_of_possible(key, selecting, &mut findings);
        }
    }
    if switches.is_on(&CHECKS_ALL_KEYS) {
        cpu_product::check(&check, &readings, &mut findings);
    }
    advice::warn_of_keys(new, old, &mut findings);
    findings.into_report()
}
