//! The product of CPU's ratio and of the normalization of a CPU: Koordinator's slo-controller multiplies the two, and bounds
//! only the second.

use super::{
    decode::{self, Reading},
    document::{Content, Document, Strategy},
    findings::Findings,
    key_check::{KeyCheck, KeyReading},
    table::{AMPLIFICATION, Key, NORMALIZATION},
};

/// The product from which on there is a warning: what one of the two may be.
const MOST: f64 = 5.0;

/// Warns where the highest ratio and the highest normalization together come to more than [`MOST`]. Which nodes have both
/// depends on their CPUs, which the ConfigMap does not tell. `readings` are those of the keys that have changed.
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
                "{}: cpu: {ratio} times {normalization} of {} comes to more than {MOST}: slo-controller multiplies them",
                AMPLIFICATION.name, NORMALIZATION.name
            )
        });
    }
}

/// The highest of some values, where the key is enabled for anyone.
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
