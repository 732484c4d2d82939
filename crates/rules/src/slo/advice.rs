//! Warnings about probable mistakes: words and values that no known version of Koordinator accepts, unknown members
//! and keys.

use super::{
    Data,
    decode::{Unknown, shortened},
    document::{Content, Document, Strategy},
    expected,
    findings::Findings,
    nearest::nearest,
    table::{KEYS, Key},
};

/// Warns about values of a document.
pub(super) fn check(key: &Key, document: &Document, findings: &mut Findings) {
    if let Some(cluster) = &document.cluster {
        check_strategy(key, None, cluster, findings);
    }
    for (index, entry) in document.entries.iter().enumerate() {
        check_strategy(key, Some(index), &entry.strategy, findings);
    }
}

fn check_strategy(key: &Key, entry: Option<usize>, strategy: &Strategy, findings: &mut Findings) {
    for (own, given) in strategy.iter() {
        let (field, content) = (given.field, &given.content);
        let place = || {
            let base = match entry {
                None => key.cluster.unwrap_or_default().to_owned(),
                Some(index) => format!("{}[{index}]", key.entries),
            };
            let dot = if base.is_empty() { "" } else { "." };
            format!("{}: {base}{dot}{own}", key.name)
        };
        if let Content::Text(word) = content
            && !(field.words.is_empty() || word.is_empty() || field.words.contains(&word.as_str()))
        {
            findings.warn(|| {
                let hint = hint(nearest(word, field.words.iter().copied()));
                let words = field.words.iter().filter(|word| !word.is_empty());
                let words: Vec<&str> = words.copied().collect();
                let word = shortened(word);
                format!("{}: {word:?} is none of {}{hint}", place(), words.join(", "))
            });
        }
        let is_advised = content
            .number()
            .is_none_or(|number| expected::is_in_range(field.advice, number));
        if !is_advised {
            findings.warn(|| {
                format!(
                    "{}: {content} should be{}",
                    place(),
                    expected::range(field.advice)
                )
            });
        }
    }
}

/// Warns about unknown members of a document.
pub(super) fn warn_of_unknown(key: &Key, unknown: &[Unknown], findings: &mut Findings) {
    for Unknown { path, nearest } in unknown {
        findings.warn(|| {
            let hint = hint(nearest.as_deref());
            format!("{}: unknown member {path} has no effect{hint}", key.name)
        });
    }
}

/// Warns about keys whose names are close to known keys.
pub(super) fn warn_of_keys(new: &Data, old: Option<&Data>, findings: &mut Findings) {
    let is_new = |key: &String| old.is_none_or(|old| !old.contains_key(key));
    for name in new
        .keys()
        .filter(|name| Key::named(name).is_none() && is_new(name))
    {
        if let Some(near) = nearest(name, KEYS.iter().map(|key| key.name)) {
            findings.warn(|| format!("unknown key {name} has no effect{}", hint(Some(near))));
        }
    }
}

/// Returns a question with the nearest name, to append to a message; empty if no name is near.
pub(super) fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |near| format!("; did you mean {near}?"))
}
