//! Renders decisions about a pod for people and as JSON.

use std::fmt;

use headroom_proto::v1alpha1::{PodDecision, ProfileVerdict};
use headroom_rules::explain::VerdictKind;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    slo::lines::{WIDTH, printable, wrapped_at},
    table::{Cell, Column::Text, Layout, RankedColumn, Table},
};
use crate::pod::decided::{AskedReplica, DecidedPod, DecisionOrigin, KeptReviews, ReplicaDecision};

/// Limit of decisions in text; JSON has all.
const MOST_SHOWN: usize = 10;
const PROFILES: [RankedColumn; 2] = [Text("PROFILE").always(), Text("RESULT").wrapped()];
/// Indentation of the profiles, in columns.
const PROFILES_INDENT: usize = 4;

pub(crate) struct PodPage<'a> {
    pub(crate) decided: &'a DecidedPod,
    pub(crate) layout: Layout,
}

impl fmt::Display for PodPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DecidedPod {
            pod,
            origin,
            decisions,
            left_out,
        } = self.decided;
        let width = self.layout.text_width();
        writeln!(f, "pod {}", printable(&pod.to_string()))?;
        match origin {
            DecisionOrigin::Replicas(replicas) => {
                for replica in replicas {
                    f.write_str(&wrapped_at(width, 0, &asked(replica)))?;
                }
            }
            DecisionOrigin::Files { missing, warnings } => {
                let text = "offline: result of /mutate-pod for a new pod, with default feature gates";
                f.write_str(&wrapped_at(width, 0, text))?;
                for object in missing {
                    let text = format!("missing: {object}; add it to a file of --profiles");
                    f.write_str(&wrapped_at(width, 0, &text))?;
                }
                for warning in warnings {
                    let text = format!("warning: {warning}");
                    f.write_str(&wrapped_at(width.min(WIDTH), 0, &text))?;
                }
            }
        }
        for decision in decisions.iter().take(MOST_SHOWN) {
            writeln!(f)?;
            show(f, decision, self.layout)?;
        }
        let older = decisions.len().saturating_sub(MOST_SHOWN);
        let older = older.saturating_add(usize::try_from(*left_out).unwrap_or(usize::MAX));
        if older > 0 {
            writeln!(
                f,
                "\n{older} older reviews are not shown; -o json has more of them"
            )?;
        }
        Ok(())
    }
}

/// Reviews that a replica keeps, as a sentence.
fn asked(AskedReplica { addr, kept }: &AskedReplica) -> String {
    match kept {
        Err(reason) => format!("replica at {addr} did not answer: {reason}"),
        Ok(KeptReviews {
            replica,
            count,
            oldest_ms,
        }) => match oldest_ms {
            None => format!("replica {replica} keeps no review of any pod"),
            Some(oldest) => format!(
                "replica {replica} keeps {count} reviews of pods since {}",
                time(*oldest)
            ),
        },
    }
}

/// Formats a time in UTC.
fn time(ms: u64) -> String {
    let time = i64::try_from(ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| format!("{ms} ms after 1970"), |time| format!("{time:.3}"))
}

fn show(f: &mut fmt::Formatter<'_>, of: &ReplicaDecision, layout: Layout) -> fmt::Result {
    let width = layout.text_width();
    let ReplicaDecision { replica, decision } = of;
    let PodDecision {
        at_ms,
        endpoint,
        operation,
        name,
        generate_name,
        sub_resource,
        review,
        dry_run,
        outcome,
        reasons,
        left_out,
        caller_verified,
        ..
    } = decision;
    let slash = if sub_resource.is_empty() { "" } else { "/" };
    let dry_run = if *dry_run { ", dry run" } else { "" };
    let head = format!("{endpoint} {operation}{slash}{sub_resource}: {outcome}{dry_run}");
    let head = if replica.is_empty() {
        head
    } else {
        let caller = if *caller_verified {
            ""
        } else {
            ", unverified caller"
        };
        format!(
            "{} {head} (replica {replica}, review {review}{caller})",
            time(*at_ms)
        )
    };
    f.write_str(&wrapped_at(width, 0, &head))?;
    if name.is_empty() && !replica.is_empty() {
        let text = format!(
            "the pod had no name yet: this review is of this pod or of another one with generateName {generate_name:?}"
        );
        f.write_str(&wrapped_at(width.min(WIDTH), 2, &text))?;
    }
    for reason in reasons {
        f.write_str(&wrapped_at(width.min(WIDTH), 2, reason))?;
    }
    profiles(f, decision, layout)?;
    writes(f, decision, width)?;
    if *left_out > 0 {
        writeln!(f, "  {left_out} more profiles and fields were left out")?;
    }
    Ok(())
}

fn profiles(f: &mut fmt::Formatter<'_>, decision: &PodDecision, layout: Layout) -> fmt::Result {
    if decision.endpoint != "mutate-pod" {
        return Ok(());
    }
    if decision.operation != "CREATE" {
        return writeln!(f, "  profiles only apply to new pods");
    }
    let profiles = &decision.profiles;
    let is_applied = |profile: &&ProfileVerdict| profile.result == VerdictKind::Applied.name();
    match profiles.iter().filter(is_applied).count() {
        0 if profiles.is_empty() => return writeln!(f, "  the cluster has no colocation profile"),
        0 => writeln!(f, "  no profile was applied")?,
        1 => writeln!(f, "  1 profile was applied")?,
        count => writeln!(f, "  {count} profiles were applied")?,
    }
    let rows = profiles.iter().map(|ProfileVerdict { name, result, reason }| {
        let colon = if reason.is_empty() { "" } else { ": " };
        let words = verdict_words(result);
        [printable(name), format!("{words}{colon}{}", printable(reason))].map(Cell::from)
    });
    let indented = Layout {
        has_headers: false,
        ..layout.indented(PROFILES_INDENT)
    };
    for line in Table::new(&PROFILES, rows).render(indented).plain().lines() {
        writeln!(f, "{:PROFILES_INDENT$}{line}", "")?;
    }
    Ok(())
}

fn verdict_words(result: &str) -> String {
    let mut kinds = VerdictKind::ALL.into_iter();
    match kinds.find(|kind| kind.name() == result) {
        Some(VerdictKind::Applied) => "applied".to_owned(),
        Some(VerdictKind::OtherLabels | VerdictKind::OtherNamespace) => "does not match this pod".to_owned(),
        Some(VerdictKind::Chance) => "skipped by its probability".to_owned(),
        Some(VerdictKind::Failed) => "not applied".to_owned(),
        // A newer webhook may have other results.
        None => printable(result),
    }
}

fn writes(f: &mut fmt::Formatter<'_>, decision: &PodDecision, width: usize) -> fmt::Result {
    if decision.writes.is_empty() {
        return if decision.endpoint == "mutate-pod" {
            writeln!(f, "  no field was written")
        } else {
            Ok(())
        };
    }
    let mut writer = None;
    for write in &decision.writes {
        if writer != Some(&write.writer) {
            f.write_str(&wrapped_at(width, 2, &format!("written by {}", write.writer)))?;
            writer = Some(&write.writer);
        }
        let field = match &write.value {
            Some(value) => format!("{} = {value}", write.path),
            None => format!("{} removed", write.path),
        };
        f.write_str(&wrapped_at(width, 4, &field))?;
    }
    Ok(())
}

/// Renders the decisions as JSON.
pub(crate) fn pod_json(decided: &DecidedPod) -> Value {
    let DecidedPod {
        pod,
        origin,
        decisions,
        left_out,
    } = decided;
    let (replicas, missing, warnings) = match origin {
        DecisionOrigin::Replicas(replicas) => (
            Some(replicas.iter().map(replica_json).collect::<Value>()),
            None,
            None,
        ),
        DecisionOrigin::Files { missing, warnings } => (None, Some(missing), Some(warnings)),
    };
    json!({
        "pod": pod.to_string(),
        "replicas": replicas,
        "missing": missing,
        "warnings": warnings,
        "decisions": decisions.iter().map(decision_json).collect::<Value>(),
        "left_out": left_out,
    })
}

fn replica_json(AskedReplica { addr, kept }: &AskedReplica) -> Value {
    match kept {
        Err(error) => json!({"address": addr, "error": error}),
        Ok(KeptReviews {
            replica,
            count,
            oldest_ms,
        }) => json!({"address": addr, "replica": replica, "kept": count, "oldest_ms": oldest_ms}),
    }
}

fn decision_json(of: &ReplicaDecision) -> Value {
    let ReplicaDecision { replica, decision } = of;
    let PodDecision {
        at_ms,
        endpoint,
        operation,
        namespace,
        name,
        generate_name,
        uid,
        sub_resource,
        review,
        dry_run,
        outcome,
        reasons,
        profiles,
        writes,
        left_out,
        caller_verified,
    } = decision;
    let profiles = profiles
        .iter()
        .map(|profile| json!({"name": profile.name, "result": profile.result, "reason": profile.reason}));
    let writes = writes
        .iter()
        .map(|write| json!({"path": write.path, "value": write.value, "by": write.writer}));
    json!({
        "replica": replica,
        "at_ms": at_ms,
        "endpoint": endpoint,
        "operation": operation,
        "namespace": namespace,
        "name": name,
        "generate_name": generate_name,
        "uid": uid,
        "sub_resource": sub_resource,
        "review": review,
        "dry_run": dry_run,
        "outcome": outcome,
        "reasons": reasons,
        "profiles": profiles.collect::<Value>(),
        "writes": writes.collect::<Value>(),
        "left_out": left_out,
        "caller_verified": caller_verified,
    })
}

#[cfg(test)]
mod tests;
