//! Findings of a check so far.

use headroom_domain::field::{Error, Errors, Path};

use super::{report::Report, table::Key};

/// Maximum number of errors that a report lists.
const MOST_ERRORS: usize = 100;
/// Maximum number of warnings that a report lists.
const MOST_WARNINGS: usize = 32;

/// Collects the findings of a report.
#[derive(Debug, Default)]
pub(super) struct Findings {
    refusal: Option<String>,
    errors: Errors,
    warnings: Vec<String>,
    error_count: usize,
    warning_count: usize,
}

impl Findings {
    /// Refuses the version in Koordinator's words; only the first refusal is kept.
    pub(super) fn refuse(&mut self, words: impl FnOnce() -> String) {
        if self.refusal.is_none() {
            self.refusal = Some(words());
        }
    }

    /// Adds an error about one value.
    pub(super) fn error(&mut self, error: impl FnOnce() -> Error) {
        self.error_count += 1;
        if self.error_count <= MOST_ERRORS {
            self.errors.push(error());
        }
    }

    /// Adds a warning about a probable mistake.
    pub(super) fn warn(&mut self, warning: impl FnOnce() -> String) {
        self.warning_count += 1;
        if self.warning_count <= MOST_WARNINGS {
            self.warnings.push(warning());
        }
    }

    /// Number of errors, listed or not.
    pub(super) fn error_count(&self) -> usize {
        self.error_count
    }

    /// Returns the report. Findings that are not listed are counted in a last warning.
    pub(super) fn into_report(mut self) -> Report {
        let counts = [
            (self.error_count, MOST_ERRORS, "errors"),
            (self.warning_count, MOST_WARNINGS, "warnings"),
        ];
        for (count, most, what) in counts {
            if let Some(more @ 1..) = count.checked_sub(most) {
                self.warnings.push(format!("{more} more {what} are not listed"));
            }
        }
        Report {
            refusal: self.refusal,
            errors: self.errors,
            warnings: self.warnings,
        }
    }
}

/// Path in the ConfigMap of something below a key.
pub(super) fn path(key: &Key, below: &str) -> Path {
    let path = Path::new("data").key(key.name);
    if below.is_empty() { path } else { path.child(below) }
}
