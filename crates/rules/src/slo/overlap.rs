//! Finds entries that select the same nodes, so that only their order decides which one applies.
//!
//! Two entries overlap if some labels match both and one of the entries has conditions on all these labels: a user
//! who labels a node for that entry need not know about the other one. If each of two entries needs a label without a
//! condition in the other, such as `pool=a` and `gpu=true`, only nodes with both labels are selected twice; those are
//! searched among existing nodes. Koordinator's samples count as well: some entry has conditions on their labels.

use std::collections::BTreeSet;

use headroom_domain::{
    field::Error,
    selector::{Labels, Selector, SelectorIndex, example_of_both},
};

use super::{
    decode::shortened,
    entries::{Selecting, called},
    envelope,
    findings::{Findings, path},
    samples::Samples,
    table::Key,
};

/// Maximum number of overlaps listed for a key.
const MOST_OVERLAPS: usize = 16;
/// Maximum number of pairs of entries compared for a key. A few thousand entries with conditions on the same labels
/// have more pairs.
const MOST_PAIRS: usize = 1_000_000;
/// Maximum number of sample labels tried for a key.
const MOST_SAMPLE_LABELS: usize = 100_000;

/// Checks that no two entries of a key overlap; under Koordinator's behaviour with its samples only.
pub(super) fn check(
    key: &'static Key,
    selecting: &Selecting<'_>,
    index: &SelectorIndex<'_, Selector>,
    is_exact: bool,
    findings: &mut Findings,
) {
    let overlaps = Overlaps {
        key,
        selecting,
        index,
    };
    let (sampled, are_all) = overlaps.sampled();
    if let Some(labels) = &sampled {
        overlaps.refuse(labels, findings);
    }
    let mut pairs = BTreeSet::new();
    if is_exact {
        let (found, all_compared) = overlaps.pairs();
        pairs = found;
        if !all_compared {
            let what = "too many entries to compare all pairs";
            findings.warn(|| format!("{}: {what}: overlaps may remain undetected", key.name));
        }
    } else if sampled.is_none() && !are_all {
        findings.warn(|| {
            format!(
                "{}: too many samples of labels: overlaps may remain undetected",
                key.name
            )
        });
    }
    // A sample of a third entry may match two independent entries.
    if let Some(labels) = &sampled
        && let [one, other, ..] = *index.matching(labels)
        && !pairs.contains(&(one, other))
    {
        overlaps.error((one, other), labels, findings);
    }
    for pair in pairs {
        if let Some(example) = overlaps.example(pair.0, pair.1) {
            overlaps.refuse(&example, findings);
            overlaps.error(pair, &example, findings);
        }
    }
}

struct Overlaps<'c> {
    key: &'static Key,
    selecting: &'c Selecting<'c>,
    index: &'c SelectorIndex<'c, Selector>,
}

impl Overlaps<'_> {
    /// Returns the first sample that two entries match, and whether all samples were tried.
    fn sampled(&self) -> (Option<Labels>, bool) {
        let mut left = MOST_SAMPLE_LABELS;
        let mut are_all = true;
        for (_, entry) in &self.selecting.entries {
            let Some(written) = &entry.written_selector else {
                continue;
            };
            let samples = Samples::new(written);
            are_all &= samples.are_all;
            for sample in samples {
                let Some(rest) = left.checked_sub(sample.len() + 1) else {
                    return (None, false);
                };
                left = rest;
                if self.index.matching(&sample).len() > 1 {
                    return (Some(sample), are_all);
                }
            }
        }
        (None, are_all)
    }

    /// Returns the first pairs of overlapping entries, and whether all pairs were compared.
    fn pairs(&self) -> (BTreeSet<(usize, usize)>, bool) {
        let mut pairs = BTreeSet::new();
        let mut left = MOST_PAIRS;
        for (one, selector) in self.selecting.selectors.iter().enumerate() {
            for other in self.index.candidates(selector) {
                let Some(rest) = left.checked_sub(1) else {
                    return (pairs, false);
                };
                left = rest;
                let pair = (one.min(other), one.max(other));
                let is_wanted = pairs.len() < MOST_OVERLAPS || pairs.last().is_some_and(|last| pair < *last);
                if one != other && is_wanted && self.overlap(pair) {
                    pairs.insert(pair);
                    if pairs.len() > MOST_OVERLAPS {
                        pairs.pop_last();
                    }
                }
            }
        }
        (pairs, true)
    }

    fn overlap(&self, (one, other): (usize, usize)) -> bool {
        let Some(example) = self.example(one, other) else {
            return false;
        };
        let speaks_of_all = |place: usize| {
            let selector: Option<&Selector> = self.selecting.selectors.get(place);
            selector.is_some_and(|selector| example.keys().all(|key| selector.has_key(key)))
        };
        speaks_of_all(one) || speaks_of_all(other)
    }

    fn example(&self, one: usize, other: usize) -> Option<Labels> {
        let selectors = &self.selecting.selectors;
        example_of_both(selectors.get(one)?, selectors.get(other)?)
    }

    fn refuse(&self, labels: &Labels, findings: &mut Findings) {
        findings.refuse(|| {
            let matching = self.index.matching(labels).into_iter();
            let entries = matching.filter_map(|place| self.selecting.entries.get(place));
            envelope::entries(self.key.name, entries.map(|(_, entry)| entry.name.as_str()), None)
        });
    }

    fn error(&self, (one, other): (usize, usize), example: &Labels, findings: &mut Findings) {
        let entries = &self.selecting.entries;
        let (Some((first, first_entry)), Some((second, second_entry))) =
            (entries.get(one), entries.get(other))
        else {
            return;
        };
        findings.error(|| {
            let below = format!("{}[{second}]", self.key.entries);
            let detail = format!(
                "also selected by entry {}, which comes first: {}",
                called(self.key, *first, first_entry),
                example_text(example)
            );
            let value = match second_entry.name.as_str() {
                "" => below.clone(),
                name => shortened(name),
            };
            Error::invalid(&path(self.key, &below).child("nodeSelector"), value, &detail)
        });
    }
}

/// Warns about the first two entries that would both select a node with the labels of both.
pub(super) fn warn_of_possible(key: &Key, selecting: &Selecting<'_>, findings: &mut Findings) {
    const MOST: usize = 1000;
    let entries: Vec<_> = selecting.entries.iter().zip(&selecting.selectors).collect();
    let pairs = entries
        .iter()
        .enumerate()
        .flat_map(|(place, one)| entries.iter().skip(place + 1).map(move |other| (one, other)));
    for (((first, first_entry), one), ((second, second_entry), other)) in pairs.take(MOST) {
        let Some(example) = example_of_both(one, other) else {
            continue;
        };
        return findings.warn(|| {
            let example = example_text(&example);
            let first = called(key, *first, first_entry);
            let second = called(key, *second, second_entry);
            let name = key.name;
            format!("{name}: entries {first} and {second} would both select {example}; the first would apply")
        });
    }
}

/// Describes a node with these labels, shortened.
fn example_text(labels: &Labels) -> String {
    const MOST: usize = 8;
    if labels.is_empty() {
        return "a node without labels".to_owned();
    }
    let listed = labels
        .iter()
        .take(MOST)
        .map(|(key, value)| format!("{key}={value}"));
    let mut text: Vec<String> = listed.collect();
    if labels.len() > MOST {
        text.push("...".to_owned());
    }
    format!("a node with {}", text.join(","))
}
