//! The verdict on a version: refused or accepted, then all errors and warnings.

use std::fmt;

use headroom_domain::installation::ConfigMapName;
use headroom_rules::slo::Report;
use serde_json::{Value, json};

use super::lines::{printable, wrapped};

/// What the webhook would answer.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// The ConfigMap.
    pub(crate) config_map: ConfigMapName,
    /// The answer.
    pub(crate) report: Report,
    /// How many nodes entries were compared with; `None` if nodes are not known.
    pub(crate) nodes: Option<usize>,
    /// True if keys that stay as they are were not looked at.
    pub(crate) has_old: bool,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            config_map,
            report,
            nodes,
            has_old,
        } = self;
        let Report {
            refusal,
            errors,
            warnings,
        } = report;
        match refusal {
            None => writeln!(f, "accepted: ConfigMap {config_map}")?,
            Some(words) => {
                writeln!(f, "refused: ConfigMap {config_map}")?;
                // Copied from here, it is what the API server says.
                writeln!(f, "  {}", printable(words))?;
            }
        }
        let causes = errors.causes();
        title(f, causes.len(), "error")?;
        for cause in &causes {
            writeln!(f, "  {}", printable(&cause.field))?;
            f.write_str(&wrapped(4, &cause.message))?;
        }
        title(f, warnings.len(), "warning")?;
        for warning in warnings {
            f.write_str(&wrapped(2, warning))?;
        }
        writeln!(f)?;
        match nodes {
            None => writeln!(
                f,
                "nodes: not known; --nodes FILE or --online finds conflicts of existing ones"
            )?,
            Some(count) => writeln!(f, "nodes: {count}")?,
        }
        writeln!(f, "keys:  {}", if *has_old { "those that change" } else { "all" })
    }
}

fn title(f: &mut fmt::Formatter<'_>, count: usize, what: &str) -> fmt::Result {
    match count {
        0 => Ok(()),
        1 => writeln!(f, "\n1 {what}"),
        count => writeln!(f, "\n{count} {what}s"),
    }
}

impl Verdict {
    /// The same for machines.
    pub(crate) fn json(&self) -> Value {
        let Self {
            config_map,
            report,
            nodes,
            has_old,
        } = self;
        let Report {
            refusal,
            errors,
            warnings,
        } = report;
        json!({
            "config_map": config_map.to_string(),
            "verdict": if refusal.is_some() { "refused" } else { "accepted" },
            "refusal": refusal,
            "errors": errors.causes(),
            "warnings": warnings,
            "nodes": nodes,
            "only_changed_keys": has_old,
        })
    }
}
