//! Checks one key of the ConfigMap: its text, its values, its entries.

use headroom_domain::{field::Error, selector::SelectorIndex};

use super::{
    Data, advice,
    amplification::{self, PolicyRefusal},
    bandwidth,
    decode::{self, Fault, Reading, Unknown, shortened},
    document::Document,
    entries::{self, Selecting},
    envelope::{self, Reason},
    findings::{Findings, path},
    json::SyntaxError,
    overlap, ranges,
    report::{CheckSettings, Target},
    switches::{BANDWIDTH_BY_KIND, CHECKS_ALL_KEYS, DEPENDENT_KEYS, EXACT_OVERLAP, QOS_WITHOUT_SYSTEM},
    table::{AMPLIFICATION, Key, QOS, SYSTEM},
};
use crate::switch::Switches;

/// A key, its text, and the result of parsing it.
pub(super) type KeyReading<'t> = (&'static Key, &'t str, Result<Reading, SyntaxError>);

/// Checks the keys of a version, one after the other.
pub(super) struct KeyCheck<'c> {
    pub(super) target: Target<'c>,
    pub(super) new: &'c Data,
    pub(super) old: Option<&'c Data>,
    pub(super) settings: &'c CheckSettings,
    pub(super) switches: &'c Switches,
    pub(super) findings: Findings,
}

impl<'c> KeyCheck<'c> {
    /// Text of a key if it must be checked: if it exists and differs from the old version.
    pub(super) fn changed_text(&self, key: &Key) -> Option<&'c str> {
        let is_covered = key.is_checked_upstream || self.switches.is_on(&CHECKS_ALL_KEYS);
        let text = self.text(key).filter(|_| is_covered)?;
        let is_changed = self
            .old
            .and_then(|old| old.get(key.name))
            .is_none_or(|old| old != text);
        is_changed.then_some(text)
    }

    /// Text of a key, if it exists.
    pub(super) fn text(&self, key: &Key) -> Option<&'c str> {
        let text = self.new.get(key.name).map(String::as_str);
        text.filter(|text| !text.is_empty())
    }

    /// Checks a key, and returns the entries that can be compared with nodes.
    pub(super) fn check<'d>(
        &mut self,
        key: &'static Key,
        text: &str,
        reading: &'d Result<Reading, SyntaxError>,
    ) -> Option<Selecting<'d>> {
        let reading = match reading {
            Ok(reading) => reading,
            Err(error) => {
                self.refuse_syntax(key, text, error);
                return None;
            }
        };
        let Reading {
            document,
            faults,
            unknown,
        } = reading;
        let errors_before = self.findings.error_count();
        self.refuse_faults(key, faults);
        if key.is_strict {
            self.refuse_unknown(key, unknown);
        } else {
            advice::warn_of_unknown(key, unknown, &mut self.findings);
        }
        let system = if key.name == QOS.name { self.system() } else { None };
        let selecting = entries::selecting(key, &document.entries, &mut self.findings);
        ranges::check(key, document, self.switches, &mut self.findings);
        if let Some(system) = system {
            let by_kind = self.switches.is_on(&BANDWIDTH_BY_KIND);
            bandwidth::check(document, &system, by_kind, &mut self.findings);
        }
        if key.name == SYSTEM.name {
            self.check_dependents(document);
            bandwidth::warn_of_lost_totals(document, &mut self.findings);
        }
        let needs_names = self.settings.needs_names;
        entries::check_names(key, &document.entries, needs_names, &mut self.findings);
        let index = SelectorIndex::new(&selecting.selectors);
        let is_exact = self.switches.is_on(&EXACT_OVERLAP);
        overlap::check(key, &selecting, &index, is_exact, &mut self.findings);
        advice::check(key, document, &mut self.findings);
        if key.name == AMPLIFICATION.name && self.findings.error_count() == errors_before {
            self.check_policies(document, text);
        }
        Some(selecting)
    }

    /// Returns the kernel settings with the total bandwidth; `None` if they cannot be determined.
    fn system(&mut self) -> Option<Document> {
        let may_lack = self.switches.is_on(&QOS_WITHOUT_SYSTEM);
        let Some(text) = self.text(&SYSTEM) else {
            if may_lack {
                return Some(Document::default());
            }
            self.refuse_parse(&SYSTEM, "unexpected end of JSON input");
            let detail = "resource-qos-config requires it";
            self.findings
                .error(|| Error::required(&path(&SYSTEM, ""), detail));
            return None;
        };
        match decode::read(&SYSTEM, text) {
            Err(error) => {
                self.refuse_syntax(&SYSTEM, text, &error);
                None
            }
            Ok(Reading { faults, .. }) if !faults.is_empty() => {
                self.refuse_faults(&SYSTEM, &faults);
                None
            }
            // Koordinator skips the comparison then.
            Ok(_) if !may_lack && text.trim() == "null" => None,
            Ok(Reading { document, .. }) => Some(document),
        }
    }

    /// Compares the unchanged bandwidth of classes with a changed total.
    fn check_dependents(&mut self, system: &Document) {
        if !self.switches.is_on(&DEPENDENT_KEYS) || self.changed_text(&QOS).is_some() {
            return;
        }
        let reading = self.text(&QOS).map(|text| decode::read(&QOS, text));
        if let Some(Ok(Reading { document, .. })) = reading {
            let by_kind = self.switches.is_on(&BANDWIDTH_BY_KIND);
            bandwidth::check_totals(&document, system, by_kind, &mut self.findings);
        }
    }

    /// Reads Headroom's own members like the webhook, if there is no other error.
    fn check_policies(&mut self, document: &Document, text: &str) {
        let Err(PolicyRefusal { path: below, reason }) = amplification::read(text) else {
            return;
        };
        self.findings.refuse(|| {
            let field = format!("{}.{below}", AMPLIFICATION.go_type);
            envelope::fields(Reason::Parameter, &[(field, reason.clone())].into())
        });
        self.findings.error(|| {
            let path = path(&AMPLIFICATION, &below);
            match document.get(&AMPLIFICATION, &below) {
                Some(content) => Error::invalid(&path, content, &reason),
                None => Error::forbidden(&path, &reason),
            }
        });
    }

    fn refuse_parse(&mut self, key: &Key, reason: &str) {
        let Target { namespace, name } = self.target;
        let label = key.label;
        self.findings.refuse(|| {
            let text =
                format!("Failed to parse {label} config in configmap {namespace}/{name}, err: {reason}");
            envelope::sentence(Reason::Parse, &text)
        });
    }

    fn refuse_syntax(&mut self, key: &Key, text: &str, error: &SyntaxError) {
        let reason = error.to_string();
        self.refuse_parse(key, &reason);
        let hint = match reason.as_str() {
            "invalid character '}' looking for beginning of object key string"
            | "invalid character ']' looking for beginning of value" => "; remove the last comma",
            _ => "",
        };
        let SyntaxError { line, column, .. } = error;
        let detail = format!("is not JSON: line {line}, column {column}: {reason}{hint}");
        let shown = shortened(text.trim());
        self.findings
            .error(|| Error::invalid(&path(key, ""), shown, &detail));
    }

    fn refuse_faults(&mut self, key: &Key, faults: &[Fault]) {
        for Fault {
            path: below,
            value,
            expected,
            go,
        } in faults
        {
            self.refuse_parse(key, go);
            self.findings
                .error(|| Error::invalid(&path(key, below), value.clone(), expected));
        }
    }

    fn refuse_unknown(&mut self, key: &Key, unknown: &[Unknown]) {
        for Unknown { path: below, nearest } in unknown {
            let hint = advice::hint(nearest.as_deref());
            self.findings.refuse(|| {
                let field = format!("{}.{below}", key.go_type);
                let text = format!("unknown member{hint}");
                envelope::fields(Reason::Parameter, &[(field, text)].into())
            });
            let detail = format!("is not a member{hint}");
            self.findings
                .error(|| Error::forbidden(&path(key, below), &detail));
        }
    }
}
