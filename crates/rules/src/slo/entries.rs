//! Entries for some nodes: each needs a usable selector, and a unique name if names are required.

use std::{collections::BTreeSet, fmt};

use headroom_domain::{
    field::Error,
    selector::{LabelSelector, LabelSelectorRequirement, Selector},
};

use super::{
    decode::shortened,
    document::{Entry, EntryError},
    envelope::{self, Reason},
    findings::{Findings, path},
    table::Key,
};

/// Entries of a key with usable selectors.
#[derive(Debug, Default)]
pub(super) struct Selecting<'d> {
    /// The entries with their indexes among all entries.
    pub(super) entries: Vec<(usize, &'d Entry)>,
    pub(super) selectors: Vec<Selector>,
}

/// Checks the selector of each entry.
pub(super) fn selecting<'d>(key: &Key, entries: &'d [Entry], findings: &mut Findings) -> Selecting<'d> {
    let mut selecting = Selecting::default();
    for (index, entry) in entries.iter().enumerate() {
        match entry.selector() {
            Ok(selector) => {
                selecting.entries.push((index, entry));
                selecting.selectors.push(selector);
            }
            Err(error) => refuse_selector(key, index, entry, &error, findings),
        }
    }
    selecting
}

fn refuse_selector(key: &Key, index: usize, entry: &Entry, error: &EntryError, findings: &mut Findings) {
    let Key {
        name: config,
        entries,
        ..
    } = key;
    let Entry {
        name,
        written_selector,
        ..
    } = entry;
    let path = path(key, &format!("{entries}[{index}].nodeSelector"));
    match error {
        EntryError::NoSelector => {
            findings.refuse(|| {
                let text = format!(
                    "nodeConfigs NodeSelector must not empty error! configType: {config},nodeConfig name:{name}"
                );
                envelope::sentence(Reason::Parameter, &text)
            });
            findings.error(|| {
                let detail =
                    "must have matchLabels or matchExpressions, or the entry would select every node";
                Error::required(&path, detail)
            });
        }
        EntryError::Selector(reason) => {
            let written = written_selector.clone().unwrap_or_default();
            findings.refuse(|| {
                let text = format!(
                    "failed to parse node selector {},configType: {config},nodeConfig name:{name}, err: {reason}",
                    GoSelector(&written)
                );
                envelope::sentence(Reason::Parameter, &text)
            });
            findings.error(|| {
                let shown = shortened(&GoSelector(&written).to_string());
                Error::invalid(&path, shown, &reason.to_string())
            });
        }
    }
}

/// Checks the names of entries; if names are optional, a repeated name is only a warning.
pub(super) fn check_names(key: &Key, entries: &[Entry], needs_names: bool, findings: &mut Findings) {
    let mut names = BTreeSet::new();
    for (index, Entry { name, .. }) in entries.iter().enumerate() {
        let below = || format!("{}[{index}].name", key.entries);
        let is_new = names.insert(name.as_str());
        match (name.is_empty(), is_new, needs_names) {
            (true, _, true) => {
                findings.refuse(|| {
                    let text = format!("nodeConfig Name need! configType:{}", key.name);
                    envelope::sentence(Reason::Parameter, &text)
                });
                findings.error(|| Error::required(&path(key, &below()), "each entry needs a name"));
            }
            (false, false, true) => {
                findings.refuse(|| {
                    let text = format!(
                        "nodeConfig Name confilict, configType:{},nodeConfig Name:{name}! ",
                        key.name
                    );
                    envelope::sentence(Reason::Parameter, &text)
                });
                findings.error(|| Error::duplicate(&path(key, &below()), shortened(name)));
            }
            (false, false, false) => findings.warn(|| {
                let name = shortened(name);
                format!(
                    "{}: {}: another entry has the name {name:?} too",
                    key.name,
                    below()
                )
            }),
            (true, _, false) | (false, true, _) => {}
        }
    }
}

/// Name of an entry in a message: its name, or its index.
pub(super) fn called(key: &Key, index: usize, entry: &Entry) -> String {
    if entry.name.is_empty() {
        format!("{}[{index}]", key.entries)
    } else {
        format!("{:?}", shortened(&entry.name))
    }
}

/// Displays a selector like Go.
struct GoSelector<'s>(&'s LabelSelector);

impl fmt::Display for GoSelector<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LabelSelector {
            match_labels,
            match_expressions,
        } = self.0;
        f.write_str("&LabelSelector{MatchLabels:map[string]string{")?;
        for (key, value) in match_labels {
            write!(f, "{key}: {value},")?;
        }
        f.write_str("},MatchExpressions:[]LabelSelectorRequirement{")?;
        for LabelSelectorRequirement {
            key,
            operator,
            values,
        } in match_expressions
        {
            let values = values.join(" ");
            write!(
                f,
                "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},"
            )?;
        }
        f.write_str("},}")
    }
}
