//! Renders the check of a version: accepted or refused, then all errors and warnings.

use std::fmt;

use headroom_domain::installation::ConfigMapName;
use headroom_rules::slo::Report;
use serde_json::{Value, json};

use super::lines::{printable, wrapped};

/// Answer of the webhook to a version.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) config_map: ConfigMapName,
    pub(crate) report: Report,
    /// Number of nodes that entries were compared with; `None` if nodes are unknown.
    pub(crate) nodes: Option<usize>,
    /// True if unchanged keys were not checked.
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
                // The API server's message, so that users can copy it.
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
                "nodes: unknown; --nodes FILE or --online finds conflicts on existing nodes"
            )?,
            Some(count) => writeln!(f, "nodes: {count}")?,
        }
        writeln!(f, "keys:  {}", if *has_old { "changed keys only" } else { "all" })
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
    /// Renders the verdict as JSON.
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
