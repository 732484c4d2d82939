//! Problems of a whole installation, each as one declared row: the condition, the source of the answer, the message,
//! the fix.
//!
//! ```text
//! connect::evidence (replicas, API server) -> Evidence -> CheckRow::find -> CheckReport -> output
//! ```
//!
//! A new row is an element of [`INSTALLED`] or [`BEFORE`]. `kubectl headroom check`, the lines above `top` and
//! `explain`, and
//! docs/reference/checks.md are derived from the rows.

pub mod evidence;
pub mod kubernetes_version;

mod access;
mod before;
mod installed;
mod next_write;

use std::{collections::BTreeSet, fmt};

use self::evidence::Evidence;
pub(crate) use self::next_write::NextWrite;
pub use self::{
    before::BEFORE,
    installed::{INSTALLED, NOT_REGISTERED_CODE, REGISTRATION_DIFFERS_CODE},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Headroom does not work, or soon will not.
    Error,
    Warning,
    /// Only for information; this is no problem.
    Notice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckSource {
    /// Debug service of each webhook replica.
    Replicas,
    ApiServer,
    Both,
}

/// Messages of a row, empty if there is no problem; or the reason why the row is undecided.
pub type Messages = Result<Vec<String>, String>;

#[derive(Debug)]
pub struct CheckRow {
    pub code: &'static str,
    pub severity: Severity,
    pub source: CheckSource,
    pub about: &'static str,
    /// Action that fixes the problem.
    pub fix: &'static str,
    pub find: fn(&Evidence) -> Messages,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub code: &'static str,
    pub severity: Severity,
    /// Message with the affected objects.
    pub sentence: String,
    /// Action that fixes the problem.
    pub fix: &'static str,
}

/// A row that could not be decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndecidedCheck {
    pub code: &'static str,
    /// Reason why it is undecided.
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// Findings, the most severe first.
    pub findings: Vec<Finding>,
    pub open: Vec<UndecidedCheck>,
    pub rows: usize,
}

impl Severity {
    /// Word in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl CheckSource {
    const fn name(self) -> &'static str {
        match self {
            Self::Replicas => "replicas",
            Self::ApiServer => "API server",
            Self::Both => "API server and replicas",
        }
    }
}

impl CheckReport {
    pub fn new(rows: &[&'static CheckRow], evidence: &Evidence) -> Self {
        let mut report = Self {
            rows: rows.len(),
            ..Self::default()
        };
        for row in rows {
            let CheckRow {
                code, severity, fix, ..
            } = **row;
            match (row.find)(evidence) {
                Ok(sentences) => report
                    .findings
                    .extend(sentences.into_iter().map(|sentence| Finding {
                        code,
                        severity,
                        sentence,
                        fix,
                    })),
                Err(reason) => report.open.push(UndecidedCheck { code, reason }),
            }
        }
        report.findings.sort_by_key(|finding| finding.severity);
        report
    }

    /// Number of rows with an error or a warning.
    pub fn troubles(&self) -> usize {
        let troubles = self
            .findings
            .iter()
            .filter(|finding| finding.severity != Severity::Notice);
        troubles
            .map(|finding| finding.code)
            .collect::<BTreeSet<_>>()
            .len()
    }
}

/// Markdown page of all rows, for the documentation.
pub fn markdown() -> String {
    let table = |rows: &[&CheckRow]| {
        let rows = rows.iter().map(|row| {
            let CheckRow {
                code,
                severity,
                source,
                about,
                fix,
                find: _,
            } = row;
            format!(
                "| `{code}` | {severity} | {} | {about} | {fix} |\n",
                source.name()
            )
        });
        let head = "| finding | severity | source | meaning | fix |\n|---|---|---|---|---|\n";
        std::iter::once(head.to_owned()).chain(rows).collect::<String>()
    };
    format!(
        "# Findings of `kubectl headroom check`\n\n\
         `top` and `explain` print the first two findings above their output. `check` exits with 1 if there is an error or a warning, \
         but not for a notice, and with 2 if a row is undecided.\n\n{}\n\
         ## Before the installation: `check --pre`\n\n{}",
        table(INSTALLED),
        table(BEFORE)
    )
}

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) use super::installed::tests::healthy;
    use super::*;

    #[test]
    fn codes_are_unique_and_each_row_has_a_fix() {
        let rows = || INSTALLED.iter().chain(BEFORE);
        let codes: BTreeSet<&str> = rows().map(|row| row.code).collect();
        assert_eq!(codes.len(), rows().count());
        for row in rows() {
            assert!(row.about.ends_with('.') && row.fix.ends_with('.'), "{}", row.code);
            assert!(
                markdown().contains(&format!("| `{}` |", row.code)),
                "{}",
                row.code
            );
        }
    }

    #[test]
    fn the_most_severe_is_first_and_notices_are_not_counted() {
        static ROWS: [CheckRow; 3] = [
            CheckRow {
                code: "notice",
                severity: Severity::Notice,
                source: CheckSource::Replicas,
                about: "",
                fix: "",
                find: |_| Ok(vec!["a".to_owned()]),
            },
            CheckRow {
                code: "open",
                severity: Severity::Error,
                source: CheckSource::ApiServer,
                about: "",
                fix: "",
                find: |_| Err("no replica answers".to_owned()),
            },
            CheckRow {
                code: "error",
                severity: Severity::Error,
                source: CheckSource::Both,
                about: "",
                fix: "",
                find: |_| Ok(vec!["b".to_owned(), "c".to_owned()]),
            },
        ];
        let rows: Vec<&'static CheckRow> = ROWS.iter().collect();
        let report = CheckReport::new(&rows, &Evidence::default());
        let sentences: Vec<&str> = report
            .findings
            .iter()
            .map(|found| found.sentence.as_str())
            .collect();
        assert_eq!(sentences, ["b", "c", "a"]);
        assert_eq!((report.troubles(), report.rows), (1, 3));
        assert_eq!(
            report.open,
            [UndecidedCheck {
                code: "open",
                reason: "no replica answers".to_owned()
            }]
        );
    }
}
