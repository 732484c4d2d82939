//! What can be wrong for everybody, each as one declared row: what is asked of whom, the sentence, the mend.
//!
//! ```text
//! connect::evidence (replicas, API server) -> Evidence -> CheckRow::find -> CheckReport -> output
//! ```
//!
//! A new row is an element of [`INSTALLED`] or [`BEFORE`]. `kubectl headroom check`, the lines above `top`, `node` and
//! `explain`, and docs/reference/checks.md follow from it.

pub mod evidence;
pub mod kubernetes_version;

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

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Headroom does not do its work, or soon will not.
    Error,
    /// It works with less than it should.
    Warning,
    /// Somebody may want to know; nothing is wrong.
    Notice,
}

/// Who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Witness {
    /// Each replica of the webhook, by its debug service.
    Replicas,
    /// The API server.
    ApiServer,
    /// Both.
    Both,
}

/// The sentences of a row, none if nothing is wrong; or why that is not known.
pub type Sentences = Result<Vec<String>, String>;

/// One thing that may be wrong.
#[derive(Debug)]
pub struct CheckRow {
    /// Its name, for scripts.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// Who is asked.
    pub witness: Witness,
    /// What is asked, and what follows if it is so.
    pub about: &'static str,
    /// What to do about it.
    pub mend: &'static str,
    /// Looks for it.
    pub find: fn(&Evidence) -> Sentences,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The code of its row.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    pub sentence: String,
    /// What to do about it.
    pub mend: &'static str,
}

/// A row that could not be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenQuestion {
    /// The code of the row.
    pub code: &'static str,
    /// Why it has no answer.
    pub reason: String,
}

/// What all rows come to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// What is wrong, the worst first.
    pub findings: Vec<Finding>,
    /// What could not be found out.
    pub open: Vec<OpenQuestion>,
    /// Number of rows.
    pub rows: usize,
}

impl Severity {
    /// The word for it.
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

impl Witness {
    const fn name(self) -> &'static str {
        match self {
            Self::Replicas => "replicas",
            Self::ApiServer => "API server",
            Self::Both => "API server and replicas",
        }
    }
}

impl CheckReport {
    /// What these rows find in the evidence.
    pub fn new(rows: &[&'static CheckRow], evidence: &Evidence) -> Self {
        let mut report = Self {
            rows: rows.len(),
            ..Self::default()
        };
        for row in rows {
            let CheckRow {
                code, severity, mend, ..
            } = **row;
            match (row.find)(evidence) {
                Ok(sentences) => report
                    .findings
                    .extend(sentences.into_iter().map(|sentence| Finding {
                        code,
                        severity,
                        sentence,
                        mend,
                    })),
                Err(reason) => report.open.push(OpenQuestion { code, reason }),
            }
        }
        report.findings.sort_by_key(|finding| finding.severity);
        report
    }

    /// Rows with a finding that is more than a notice.
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

/// Every row, for the documentation.
pub fn markdown() -> String {
    let table = |rows: &[&CheckRow]| {
        let rows = rows.iter().map(|row| {
            let CheckRow {
                code,
                severity,
                witness,
                about,
                mend,
                find: _,
            } = row;
            format!(
                "| `{code}` | {severity} | {} | {about} | {mend} |\n",
                witness.name()
            )
        });
        let head = "| finding | severity | asked | what it means | mend |\n|---|---|---|---|---|\n";
        std::iter::once(head.to_owned()).chain(rows).collect::<String>()
    };
    format!(
        "# What `kubectl headroom check` looks for\n\n\
         `top`, `node` and `explain` begin with the first two findings. Errors and warnings end `check` with exit code 1, notices do \
         not; 2 means that something could not be found out.\n\n{}\n\
         ## Before anything is installed: `check --pre`\n\n{}",
        table(INSTALLED),
        table(BEFORE)
    )
}

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) use super::installed::tests::healthy;
    use super::*;

    #[test]
    fn codes_are_unique_and_each_row_has_its_mend() {
        let rows = || INSTALLED.iter().chain(BEFORE);
        let codes: BTreeSet<&str> = rows().map(|row| row.code).collect();
        assert_eq!(codes.len(), rows().count());
        for row in rows() {
            assert!(
                row.about.ends_with('.') && row.mend.ends_with('.'),
                "{}",
                row.code
            );
            assert!(
                markdown().contains(&format!("| `{}` |", row.code)),
                "{}",
                row.code
            );
        }
    }

    #[test]
    fn the_worst_comes_first_and_notices_are_no_trouble() {
        static ROWS: [CheckRow; 3] = [
            CheckRow {
                code: "notice",
                severity: Severity::Notice,
                witness: Witness::Replicas,
                about: "",
                mend: "",
                find: |_| Ok(vec!["a".to_owned()]),
            },
            CheckRow {
                code: "open",
                severity: Severity::Error,
                witness: Witness::ApiServer,
                about: "",
                mend: "",
                find: |_| Err("nobody answers".to_owned()),
            },
            CheckRow {
                code: "error",
                severity: Severity::Error,
                witness: Witness::Both,
                about: "",
                mend: "",
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
            [OpenQuestion {
                code: "open",
                reason: "nobody answers".to_owned()
            }]
        );
    }
}
