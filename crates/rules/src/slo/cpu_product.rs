//! Product of the CPU ratio and the CPU normalization: Koordinator's slo-controller multiplies the two, but bounds
//! only the normalization.

use super::{
    decode::{self, Reading},
    document::{Content, Document, Strategy},
    findings::Findings,
    key_check::{KeyCheck, KeyReading},
    table::{AMPLIFICATION, Key, NORMALIZATION},
};

/// Product above which there is a warning: the maximum of each factor alone.
const MOST: f64 = 5.0;

/// Warns if the highest ratio times the highest normalization exceeds [`MOST`]. Which nodes have both depends on
/// their CPUs, which the ConfigMap does not contain. `readings` are those of changed keys.
pub(super) fn check(check: &KeyCheck<'_>, readings: &[KeyReading<'_>], findings: &mut Findings) {
    let changed = |key: &Key| {
        let of_key = readings.iter().find(|(other, ..)| other.name == key.name);
        of_key.and_then(|(_, _, reading)| reading.as_ref().ok())
    };
    let (ratios, normalization) = (changed(&AMPLIFICATION), changed(&NORMALIZATION));
    if ratios.is_none() && normalization.is_none() {
        return;
    }
    let of_key = |key: &'static Key, reading: Option<&Reading>, is_one: fn(&str) -> bool| match reading {
        Some(reading) => highest(&reading.document, is_one),
        None => highest(&decode::read(key, check.text(key)?).ok()?.document, is_one),
    };
    let ratio = of_key(&AMPLIFICATION, ratios, |path| {
        path == "resourceAmplificationRatio[cpu]"
    });
    let normalization = of_key(&NORMALIZATION, normalization, |path| path.ends_with("Ratio"));
    if let (Some(ratio), Some(normalization)) = (ratio, normalization)
        && ratio * normalization > MOST
    {
        findings.warn(|| {
            format!(
                "{}: cpu: {ratio} times {normalization} of {} exceeds {MOST}; slo-controller multiplies them",
                AMPLIFICATION.name, NORMALIZATION.name
            )
        });
    }
}

/// Highest of some values, if the key is enabled in any part.
fn highest(document: &Document, is_one: fn(&str) -> bool) -> Option<f64> {
    let strategies = || {
        let entries = document.entries.iter().map(|entry| &entry.strategy);
        document.cluster.iter().chain(entries)
    };
    let enables = |strategy: &Strategy| strategy.get("enable") == Some(&Content::Bool(true));
    if !strategies().any(enables) {
        return None;
    }
    let values = strategies().flat_map(Strategy::iter);
    let values = values.filter(|(path, _)| is_one(path));
    values
        .filter_map(|(_, given)| given.content.number())
        .reduce(f64::max)
}
