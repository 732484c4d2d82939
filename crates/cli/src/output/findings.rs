//! Renders findings: two lines above the output of other commands, all findings with their fixes, and JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::{
    check::{CheckReport, Finding, UndecidedCheck},
    escape::one_line,
};

/// Limit of findings above the output of another command.
const LEADING: usize = 2;

/// One line for each of the most severe findings, and the number of the others; empty without findings.
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

fn findings_json(findings: &[Finding]) -> Value {
    let one = |finding: &Finding| {
        let Finding {
            code,
            severity,
            sentence,
            fix,
        } = finding;
        json!({"code": code, "severity": severity.name(), "sentence": sentence, "mend": fix})
    };
    findings.iter().map(one).collect()
}

/// Adds findings to a JSON object.
pub fn with_findings(mut object: Value, findings: &[Finding]) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.insert("findings".to_owned(), findings_json(findings));
    }
    object
}

impl CheckReport {
    /// Renders the report for people.
    pub fn text(&self) -> String {
        let Self { findings, open, rows } = self;
        let mut text = String::new();
        for Finding {
            code,
            severity,
            sentence,
            fix,
        } in findings
        {
            let sentence = one_line(sentence);
            let _infallible = writeln!(text, "{severity} {code}: {sentence}\n  {fix}");
        }
        for UndecidedCheck { code, reason } in open {
            let _infallible = writeln!(text, "undecided {code}: {}", one_line(reason));
        }
        if findings.is_empty() && open.is_empty() {
            let _infallible = writeln!(text, "No problem found by {rows} checks.");
        }
        text
    }

    /// Renders the report as JSON.
    pub fn json(&self) -> Value {
        let open = self.open.iter();
        let open = open.map(|UndecidedCheck { code, reason }| json!({"code": code, "reason": reason}));
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
            fix: "Fix it.",
        }
    }

    #[test]
    fn two_findings_are_printed_and_the_rest_is_counted() {
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
    fn a_report_has_each_finding_with_its_fix() {
        let report = CheckReport {
            findings: vec![finding("a", "one is wrong")],
            open: vec![UndecidedCheck {
                code: "b",
                reason: "no replica answers".to_owned(),
            }],
            rows: 10,
        };
        assert_snapshot!(report.text(), @r"
        warning a: one is wrong
          Fix it.
        undecided b: no replica answers
        ");
        assert_eq!(
            report.json(),
            json!({
                "checks": 10,
                "findings": [{"code": "a", "severity": "warning", "sentence": "one is wrong", "mend": "Fix it."}],
                "not_known": [{"code": "b", "reason": "no replica answers"}],
            })
        );
        let fine = CheckReport {
            rows: 10,
            ..CheckReport::default()
        };
        assert_eq!(fine.text(), "No problem found by 10 checks.\n");
    }
}
