//! Renders findings: two lines above other answers, all of them with their mends, and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::{
    check::{CheckReport, Finding, OpenQuestion},
    escape::one_line,
};

/// Findings that stand above the answer of another command.
const LEADING: usize = 2;

/// The worst findings, a line each, and how many more there are; empty if nothing is wrong.
pub fn leading_lines(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding {
        severity, sentence, ..
    } in findings.iter().take(LEADING)
    {
        text.extend([severity.name(), ": ", &one_line(sentence), "\n"]);
    }
    if let Some(more @ 1..) = findings.len().checked_sub(LEADING) {
        text.extend(["... and ", &more.to_string(), " more: kubectl headroom check\n"]);
    }
    text
}

/// Findings for machines.
fn findings_json(findings: &[Finding]) -> Value {
    let one = |finding: &Finding| {
        let Finding {
            code,
            severity,
            sentence,
            mend,
        } = finding;
        json!({"code": code, "severity": severity.name(), "sentence": sentence, "mend": mend})
    };
    findings.iter().map(one).collect()
}

/// An object with its findings as a member.
pub fn with_findings(mut object: Value, findings: &[Finding]) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.insert("findings".to_owned(), findings_json(findings));
    }
    object
}

impl CheckReport {
    /// For people.
    pub fn text(&self) -> String {
        let Self { findings, open, rows } = self;
        let mut text = String::new();
        for Finding {
            code,
            severity,
            sentence,
            mend,
        } in findings
        {
            let sentence = one_line(sentence);
            let _infallible = writeln!(text, "{severity} {code}: {sentence}\n  {mend}");
        }
        for OpenQuestion { code, reason } in open {
            let _infallible = writeln!(text, "not known {code}: {}", one_line(reason));
        }
        if findings.is_empty() && open.is_empty() {
            let _infallible = writeln!(text, "Nothing is wrong: {rows} checks.");
        }
        text
    }

    /// For machines.
    pub fn json(&self) -> Value {
        let open = self.open.iter();
        let open = open.map(|OpenQuestion { code, reason }| json!({"code": code, "reason": reason}));
        json!({
            "checks": self.rows,
            "findings": findings_json(&self.findings),
            "not_known": open.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::check::Severity;

    fn finding(code: &'static str, sentence: &str) -> Finding {
        Finding {
            code,
            severity: Severity::Warning,
            sentence: sentence.to_owned(),
            mend: "Mend it.",
        }
    }

    #[test]
    fn two_findings_lead_and_the_rest_is_counted() {
        assert_eq!(leading_lines(&[]), "");
        let all = [
            finding("a", "one"),
            finding("b", "two\nlines"),
            finding("c", "three"),
        ];
        assert_eq!(leading_lines(&all[..1]), "warning: one\n");
        assert_eq!(
            leading_lines(&all),
            "warning: one\nwarning: two\\nlines\n... and 1 more: kubectl headroom check\n"
        );
    }

    #[test]
    fn a_report_has_each_finding_with_its_mend() {
        let report = CheckReport {
            findings: vec![finding("a", "one is wrong")],
            open: vec![OpenQuestion {
                code: "b",
                reason: "nobody answers".to_owned(),
            }],
            rows: 10,
        };
        assert_snapshot!(report.text(), @r"
        warning a: one is wrong
          Mend it.
        not known b: nobody answers
        ");
        assert_eq!(
            report.json(),
            json!({
                "checks": 10,
                "findings": [{"code": "a", "severity": "warning", "sentence": "one is wrong", "mend": "Mend it."}],
                "not_known": [{"code": "b", "reason": "nobody answers"}],
            })
        );
        let fine = CheckReport {
            rows: 10,
            ..CheckReport::default()
        };
        assert_eq!(fine.text(), "Nothing is wrong: 10 checks.\n");
    }
}
